"""What people see while a run goes on: a bar on a terminal, elsewhere a line every ten seconds, and a table at the
end."""

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from kobert_pipeline.cli.run_results import finetune_result, result_of
from kobert_pipeline.features import in_parts
from kobert_pipeline.features.metrics import classification_report
from kobert_pipeline.finetune.prior_ablation import NETWORK, WITH_NGRAMS
from kobert_pipeline.progress import Progress, report, shown_on, track
from kobert_pipeline.runs.displays import WIDTH, ProgressLines, TerminalProgress, progress_display
from kobert_pipeline.runs.runner import Job, Outcome

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")

LOGGING_STAGE = """
import logging, sys, time
from kobert_pipeline.shards import stage
from kobert_pipeline.cli.main import main
write_part = stage.write_part
def slow(*arguments):
    time.sleep(0.3)  # longer than the bar needs to be drawn
    logging.getLogger("library").warning("a warning of a library")
    print("a line of a library", file=sys.stderr)
    return write_part(*arguments)
stage.write_part = slow
main()
"""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def on_terminal(columns: int, *command: str, **environment: str) -> tuple[int, str]:
    """Exit code and raw output of a command whose standard streams are a pseudo terminal."""
    process, terminal = pty.fork()
    if not process:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS", "NO_COLOR")}
        os.execvpe(command[0], list(command), inherited | {"TERM": "xterm-256color"} | environment)
    output = b""
    while True:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # Linux's sign that the other end was closed
            break
        output += read
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), output.decode()


def lines_of(output: str) -> list[str]:
    return [line.rstrip() for line in re.split(r"[\r\n]+", ESCAPES.sub("", output)) if line.strip()]


def test_a_terminal_shows_a_bar_that_no_other_line_tears(tiny, tmp_path) -> None:
    run_dir = tiny.copy_before(tmp_path / "run", "shards")
    shards = ("shards", str(tiny.recipe), "--run-dir", str(run_dir))
    code, output = on_terminal(80, sys.executable, "-c", LOGGING_STAGE, *shards, NO_COLOR="1")
    lines = lines_of(output)
    assert code == 0, output
    documents = sum(tiny.manifests()["shards"]["counts"][f"{split}_documents"] for split in ("train", "held_out"))
    bar = re.compile(rf"1/1 shards( encoding)?  [━╸╺ ]+  (\d+/{documents} documents  )?.*(so far|left)")
    assert [line for line in lines if "documents" in line and bar.fullmatch(line)]
    assert lines.count("a warning of a library") == lines.count("a line of a library") > 1
    assert all(bar.fullmatch(line) for line in lines if "━" in line)
    assert max(cell_len(line) for line in lines if not line.startswith("run folder: ")) <= 80
    assert not COLOURS.search(output)


def test_only_a_terminal_that_can_draw_gets_a_bar(monkeypatch) -> None:
    ends = os.openpty()
    with os.fdopen(ends[1], "w") as terminal:
        monkeypatch.delenv("CI", raising=False)
        for stream, term, kind in ((terminal, "xterm", TerminalProgress), (terminal, "dumb", ProgressLines)):
            monkeypatch.setattr(sys, "stderr", stream)
            monkeypatch.setenv("TERM", term)
            assert type(progress_display()) is kind
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("CI", "true")
        assert type(progress_display()) is ProgressLines
    os.close(ends[0])


def test_a_pipe_gets_plain_lines_and_json_nothing_else(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy_before(tmp_path / "run", "shards")
    result = kobert("shards", tiny.recipe, "--run-dir", run_dir, "--json")
    assert [row["stage"] for row in json.loads(result.out)["stages"]] == ["shards"]
    assert re.fullmatch(r"running  shards  \(1 of 1\)\ndone     shards  \(\d+\.\d s\)\n", result.err)


def test_a_line_every_ten_seconds_and_not_more_often(clock, capsys) -> None:
    lines = ProgressLines(clock)
    with shown_on(lines):
        lines.begin("pretrain", 7, 11)
        lines.start()
        seen = []
        for step in range(1, 36):  # a step takes a second
            clock.now = float(step)
            report("training", step, 100, "steps", notes=("loss 6.94",))
            lines.print_if_due()
            seen.append(capsys.readouterr().err)
        assert seen[0] == "running  pretrain  (7 of 11)\n"
        assert [number for number, printed in enumerate(seen, 1) if printed] == [1, 10, 20, 30]
        assert seen[19] == "pretrain: training  20/100 steps, 1 steps/s, 1:20 left, loss 6.94\n"
        clock.now = 40.0  # and nothing was reported for five seconds
        lines.print_if_due()
        assert "35/100 steps" in capsys.readouterr().err


def test_the_time_left_of_a_run_follows_what_its_jobs_took(clock) -> None:
    lines = ProgressLines(clock)
    lines.expect({"corpus": 60, "features": 0, "pretrain": 600, "publish": 40})

    def begin(title: str, position: int, runs: bool = True) -> None:
        lines.begin(title, position, 4)
        if runs:
            lines.start()

    def left() -> str:
        return lines.line(WIDTH).partition("(run ")[2].removesuffix(" left)")

    begin("corpus", 1)
    assert left() == "11:40"
    clock.now = 90  # longer than expected: nothing of it is left, as far as anybody knows
    assert left() == "10:40"
    for clock.now, done in ((90, 0), (95, 1), (100, 2)):
        lines.report(Progress("cleaning", done, 20, "documents"))
    assert left() == "12:10", "90 seconds left of an activity, and 640 of the jobs to come"
    clock.now = 120
    begin("features", 2, runs=False)
    begin("pretrain", 3)
    # 60 seconds more than expected, in a small part of the run: (120 + 40) / (60 + 40), by what is to come
    assert left() == "17:04"
    for clock.now, done in ((120, 0), (122, 1), (124, 2)):
        lines.report(Progress("training", done, 101, "steps", is_last=True))
    assert left() == "4:22", "198 seconds as the training itself says, and 64 of publish"
    clock.now = 322
    for steps in (101, 60):  # to its end, or stopped early
        lines.report(Progress("training", steps, steps, "steps", is_last=True))
        assert left() == "1:04", "what was expected of a job says nothing any more once its training is done"
    for clock.now, done in ((322, 0), (332, 1), (342, 2)):
        lines.report(Progress("predicting test", done, 4, "batches"))
    assert left() == "1:24", "and 20 seconds of the scores"
    begin("publish", 4)
    assert left() == "", "the last job's own time says it"


def test_a_terminal_of_80_columns_has_room_for_the_time_left_of_the_run_and_the_loss(clock, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    bar = TerminalProgress(clock)
    bar.expect({"pretrain": 600, "finetune nsmc/1": 3000})
    bar.begin("pretrain", 7, 13)
    for clock.now, done in ((0, 0), (10, 200), (20, 400)):
        bar.report(Progress("training", done, 12_000, "steps", "13,130 tokens/s", ("loss 7.582",), is_last=True))
    with bar.console.capture() as captured:
        bar.console.print(bar.row())
    line = ESCAPES.sub("", captured.get()).rstrip()
    assert line.startswith("7/13 pretrain ")
    assert line.endswith("400/12k steps  9:40 left (run 59:40 left)  loss 7.582")


def test_a_job_that_was_finished_before_says_nothing_about_the_others(clock) -> None:
    lines = ProgressLines(clock)
    lines.expect({"corpus": 600, "pretrain": 100, "publish": 40})
    lines.begin("corpus", 1, 3)  # and not started: it is taken from another run
    clock.now = 1
    lines.begin("pretrain", 2, 3)
    assert lines.line(WIDTH) == "pretrain: checking inputs  0:00 so far (run 2:20 left)"


def test_what_an_interrupted_run_did_has_no_speed(clock) -> None:
    lines = ProgressLines(clock)
    lines.begin("pretrain", 1, 1)
    for second in range(5):
        clock.now = float(second)
        lines.report(Progress("training", 500_000 + second * 10, 1_000_000, "steps"))
    assert "10 steps/s" in lines.line(WIDTH)


def test_an_activity_that_begins_again_starts_at_nothing(clock) -> None:
    lines = ProgressLines(clock)
    lines.begin("finetune nsmc/1", 1, 1)
    with shown_on(lines):
        for _ in range(2):
            for _ in track("abcd", "predicting", 4, "batches"):
                clock.now += 1
                assert "4/4" not in lines.line(WIDTH)
    assert "4/4 batches" in lines.line(WIDTH)


def test_lines_fit_and_keep_the_facts_that_matter(clock) -> None:
    notes = ("loss 6.94", "evaluation loss 7.13")
    for title in ("pretrain", "finetune korquad/1", "finetune 감성분석-" + "아주긴이름" * 20):
        for total, unit in ((82, "documents"), (1_250_000_000, "documents"), (None, "documents")):
            lines = ProgressLines(clock)
            lines.begin(title, 7, 11)
            for second in range(4):
                clock.now += 1
                lines.report(Progress("encoding", second * (total or 50) / 10, total, unit, notes=notes))
            for width in (80, WIDTH):
                assert cell_len(lines.line(width)) <= width
            line = lines.line(WIDTH)
            assert "documents/s" in line and ("left" in line or total is None), line


@pytest.mark.parametrize("columns", (20, 40, 60, 80, 200))
def test_the_bar_fits_every_terminal(columns: Any, clock, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    bar = TerminalProgress(clock)
    bar.begin("finetune 감성분석-" + "아주긴이름" * 20, 7, 11)
    for second in range(4):
        clock.now += 1
        bar.report(Progress("encoding", second * 10_000_000, 1_250_000_000, "documents", notes=("loss 6.94",)))
    with bar.console.capture() as captured:
        bar.console.print(bar.row())
    (line,) = captured.get().splitlines()
    assert cell_len(ESCAPES.sub("", line).rstrip()) <= columns


def test_the_table_at_the_end_says_what_matters(tiny, kobert) -> None:
    shown = kobert("run", tiny.recipe, "--run-dir", tiny.run_dir).out
    counts = {name: manifest["counts"] for name, manifest in tiny.manifests().items()}
    text = "".join(shown.split())
    assert max(map(cell_len, shown.splitlines()[:-1])) <= WIDTH  # the last one is a path, to be copied
    for fact in (
        f"{counts['corpus']['documents_kept']} of {counts['corpus']['documents_read']} documents kept",
        f"{counts['tokenizer']['vocab_size']:,} tokens in the vocabulary",
        f"unknown rate {counts['tokenizer']['unknown_rate']:.2%}",
        f"held-out loss {counts['pretrain']['held_out_after']['loss']:.2f}",
        f"test accuracy {counts['finetune/nsmc/1']['test']['accuracy']:.2f}",
        f"test f1 {counts['finetune/korquad/1']['test']['f1']:.2f}",
        f"run folder: {tiny.run_dir}",
    ):
        assert "".join(fact.split()) in text
    folder = tiny.run_dir / "publish" / "nsmc"
    records = ("manifest.json", "started.json")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name not in records)
    assert f"{folder},{size / 1e6:.1f}MB" in text


def test_results_name_reasons_and_spread() -> None:
    corpus = {"documents_read": 95, "documents_kept": 82, "documents_dropped_short": 10}
    assert result_of(corpus | {"documents_dropped_near_duplicate": 3}) == (
        "82 of 95 documents kept (dropped: 3 near duplicate, 10 short)"
    )

    unusable = {"files_skipped": 1, "files_read_in_part": 1, "rows_skipped": 1000}
    assert result_of(corpus | unusable).endswith(
        ", 2 files and 1,000 rows unusable (`counts.skipped` in its manifest.json)"
    )
    assert result_of(corpus | {"masked_phone": 1200, "masked_email": 34}).endswith("1,234 personal data masked")
    with_markup = result_of(corpus | {"documents_with_markup": 60})
    assert with_markup.endswith("60 documents have markup of a wiki; extract their text first")
    assert result_of({"unknown_rate": 0.01}) == "unknown rate 1.00%"
    assert result_of({"unknown_rate": 0.034}) == "unknown rate 3.40%: characters are missing from it"

    held_out = [result_of({"train_tokens": 9, "held_out_documents": count}) for count in (0, 1, 11, 100)]
    assert held_out == [
        "9 training tokens" + end for end in ("", ", only 1 document held out", ", only 11 documents held out", "")
    ]
    labelled = result_of({"train_examples": 61, "train_labels": {"배송": 20, "환불": 40, "환뷸": 1}})
    assert labelled == "61 training examples, labels: 환불 40; 배송 20; 환뷸 1"
    many = result_of({"train_labels": {str(number): number for number in range(15)}})
    assert many.startswith("labels: 14 14; 13 13") and many.endswith("3 3; 3 more")

    def outcome(name: str, counts: dict) -> Outcome:
        return Outcome(Job("finetune", Path(name), 1, {"seed": 1}, dict, (), name=name), "done", 1.0, counts)

    seeds = [
        outcome(f"nsmc/{seed}", {"dev": {"accuracy": 90.0 + seed}, "test": {"accuracy": 80.0 + seed}})
        for seed in (1, 2, 3)
    ]
    trial = outcome("nsmc/grid/learning_rate=1", {"dev": {"accuracy": 1.0}})
    assert finetune_result([trial, *seeds]) == (
        "test accuracy 82.00 (81.00 to 83.00), dev accuracy 92.00 (91.00 to 93.00), 3 seeds, best of 1 settings on dev"
    )
    both = {NETWORK: {"f1": 1.0}, WITH_NGRAMS: {"f1": 2.0}}
    parts = {"test": {"f1": 2.0}, "test_prior_ablation": both, "dev": {"f1": 2.0}, "dev_prior_ablation": both}
    assert finetune_result([outcome("nsmc/1", parts)]) == ", ".join(
        f"{split}, network {part}" for split in ("test", "dev") for part in ("alone: f1 1.00", "and n-grams: f1 2.00")
    )
    far = {NETWORK: {"f1": 36.0}, WITH_NGRAMS: {"f1": 87.0}}
    apart = {"dev": {"f1": 87.0}, "dev_prior_ablation": far, "ngrams_weights": [0.3, 2.2]}
    assert finetune_result([outcome("nsmc/1", apart)]).endswith(
        "n-grams, weighted 0.30 and 2.20, programs other than kobert read the network alone and lose 51.0 points of f1"
    )
    other = outcome("nsmc/2", apart | {"ngrams_weights": [0.4, 1.0]})
    of_both = "log-probabilities of network and n-grams, weighted 0.30 and 2.20 (seed 1), 0.40 and 1.00 (seed 2), "
    assert of_both in finetune_result([outcome("nsmc/1", apart), other])

    assert finetune_result([trial]) == "1 settings tried", "before a seed is trained"

    made = {"dev_examples": 2, "dev_examples_synthetic": 2, "test_examples": 1}
    assert finetune_result(seeds[:1], made) == "test accuracy 81.00, dev accuracy 91.00, only 1 test example"
    of_dev = [outcome("nsmc/1", {"dev": {"accuracy": 50.0}})]
    assert finetune_result(of_dev, made) == (
        "dev accuracy 50.00, only 2 dev examples, 2 dev examples were made by rules, not by people"
    )

    for steps, ending in (
        (1, ", only 1 step, so give more epochs"),
        (3, ", only 3 steps, so give more epochs"),
        (20, ""),
    ):
        short = finetune_result([outcome("nsmc/1", {"dev": {"accuracy": 50.0}, "steps": steps})])
        assert short == f"dev accuracy 50.00{ending}"

    names, given = ["배송", "환불"], {1: [1, 1, 1], 2: [0, 1, 1], 3: [1, 1, 1]}
    missed = ", 3 seeds, seeds 1, 3 never predicted '배송' (1 dev example)"
    for labels, ending in (([0, 1, 1], missed), ([1, 1, 1], ", 3 seeds")):
        reports = {seed: classification_report(predicted, labels, names) for seed, predicted in given.items()}
        of_dev = [
            outcome(f"topic/{seed}", {"dev": {"accuracy": 1.0}, "dev_classification_report": report})
            for seed, report in reports.items()
        ]
        assert finetune_result(of_dev).endswith(ending)


def test_features_made_some_examples_at_a_time_are_the_same(tiny, tmp_path, kobert, monkeypatch) -> None:
    run_dir = tiny.copy_before(tmp_path / "run", "features")
    monkeypatch.setattr(in_parts, "EXAMPLES_AT_ONCE", 7)
    assert kobert("features", tiny.recipe, "--run-dir", run_dir).code == 0
    expected = tiny.manifests()
    for name in ("features/nsmc", "features/korquad"):
        assert tiny.manifests(run_dir)[name]["files"] == expected[name]["files"]
