"""The command line as users see it: its output, and for a user's mistake one sentence and exit code 2."""

import contextlib
import errno
import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kobert_pipeline.cli import input_lines, main
from kobert_pipeline.cli.formatting import first_sentence
from kobert_pipeline.cli.run_results import print_results
from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import UserError, os_error
from kobert_pipeline.files import read_json_with_digest, write_json_with_digest
from kobert_pipeline.pipeline import stages
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.content_hash import input_hash
from kobert_pipeline.runs.latex import escaped
from kobert_pipeline.runs.runner import Outcome

STAGES = main.STAGES
COMMANDS = sorted(typer.main.get_command(main.app).commands)  # type: ignore[attr-defined]


def test_help_is_found_by_every_usual_name(kobert) -> None:
    for words, other in ((["help"], ["--help"]), (["-h"], ["--help"]), (["help", "run"], ["run", "-h"])):
        shown = [kobert(*line).out.partition("[OPTIONS]")[2] for line in (words, other)]  # after the program's name
        assert shown[0] == shown[1] != ""
    assert "Did you mean 'run'?" in kobert("help", "rn").complaint


def test_help_of_every_command_shows_an_example_that_parses(kobert) -> None:
    for name in COMMANDS:
        result = kobert(name, "--help")
        text = " ".join(result.out.split())
        assert result.code == 0
        assert f"Example: kobert {name}" in text, "every command's help has an example of itself"
        assert "--help" in text


def test_every_stage_is_a_command_and_a_recipe_section() -> None:
    assert set(STAGES) <= set(COMMANDS)
    assert set(STAGES) <= set(stages.Recipe.model_fields)


def test_without_arguments_the_commands_are_listed_on_their_own_lines(kobert) -> None:
    result = kobert()
    listing = result.out + result.err
    assert result.code in (0, 2)
    for name in COMMANDS:
        assert any(line.split()[:1] == [name] for line in listing.splitlines()), f"{name} is not listed"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing"),
        (["run"], "RECIPE"),
        (["run", "tiny", "--colour"], "--colour"),
        (["run", "tiny", "--until", "pretrian"], "did you mean 'pretrain'"),
        (["run", "tiny", "--redo", "pretrian"], "did you mean 'pretrain'"),
        (["corpus", "tiny", "--redo", "corpus"], "here --redo takes no name"),
        (["run", "tiny", "--num-workers", "0"], "num-workers"),
        (["list", "objectivs"], "did you mean 'objectives'"),
        (["list", "recipe"], "'recipe' is neither recipes nor a kind of plug-in - did you mean 'recipes'?"),
        (["explain", "brt"], "did you mean 'bert'"),
        (["explain", "pretrain.pln"], "did you mean 'plan'"),
        (["explain", "lerning_rate"], "did you mean the option 'learning_rate'?"),
        (["embed", "gone", "a.txt", "--long", "windows", "--tokens"], "--long windows is for vectors of texts"),
        (["explain", "pretrain.plan.seed.x"], "has no option 'x'"),
        (["explain", "learning_rate"], "explain one of them: pretrain.plan.learning_rate, finetune.plan.learning_rate"),
        (["explain", "answer_priors"], "explain one of them: tasks.korquad, tasks.mrc, tasks.span"),
        (["check", "tiny", "--set", "pretrain.total_tokens=many"], "input should be a valid integer, not 'many'"),
        (["compare", "gone"], "gone"),
        (["predict", "gone", "글"], "gone"),
        (["predict", "gone", "글", " "], "text 2 is empty"),
        (
            ["predict", "gone", "--in", "a.txt", "--in", "b.txt"],
            "--in is given 2 times, but one file is read at a time",
        ),
        (["tokenize", "gone", "글"], "gone"),
    ],
)
def test_wrong_command_line_is_refused_in_one_sentence(arguments: Any, said: Any, kobert) -> None:
    result = kobert(*arguments)
    assert said in result.complaint
    assert len(result.err.splitlines()) == 1


def test_exit_status_and_stderr_are_those_of_a_real_process(kobert_process, tmp_path) -> None:
    result = kobert_process("check", "tiny", "--set", "data_dir=gone", cwd=tmp_path)
    assert "data_dir gone is not a folder" in result.complaint
    assert result.err.count("\n") == 1
    assert result.out == ""


def test_a_stage_refuses_a_bad_file_and_runs_once_it_is_fixed(data_copy, tiny, tmp_path, kobert, corpora) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x", "tokenizer")
    more = (tiny.recipe, "--run-dir", run_dir, "--set", f"data_dir={data_copy}")
    for command, stage, name in (
        (("run", *more, "--until", "corpus"), "corpus", "documents/blog.txt"),
        (("features", *more), "features/nsmc", "reviews_train.txt"),
    ):
        (data_copy / name).write_bytes(b"")
        assert f"{name} is empty" in kobert(*command).complaint
        assert not (run_dir / stage / "manifest.json").exists()
        shutil.copyfile(corpora / name, data_copy / name)
        assert kobert(*command).code == 0


def test_vocabulary_larger_than_the_text_supports_is_refused_and_a_smaller_one_then_works(
    tiny, tmp_path, kobert
) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x", "corpus", "analysis")
    arguments = ("tokenizer", tiny.recipe, "--run-dir", run_dir)
    complaint = kobert(*arguments, "--set", "tokenizer.subword.vocab_size=100000").complaint
    assert "tokenizer.subword.vocab_size is 100000" in complaint
    supported = complaint.partition("supports ")[2].split()[0]
    assert kobert(*arguments, "--set", f"tokenizer.subword.vocab_size={supported}").code == 0
    assert tiny.manifests(run_dir)["tokenizer"]["counts"]["vocab_size"] == int(supported)


def test_length_beyond_the_positions_is_refused_before_anything_runs(tiny, tmp_path, kobert) -> None:
    for number, (setting, said) in enumerate(
        [
            ("features.korquad.max_length=257", ["features.korquad.max_length", "257", "256 positions"]),
            ("pretrain.max_length=257", ["pretrain", "257", "max_position_embeddings 256"]),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        run_dir = place / "runs" / "x"
        result = kobert("run", tiny.recipe, "--run-dir", run_dir, "--set", setting)
        for words in said:
            assert words in result.complaint, (setting, said)
        assert not run_dir.exists(), (setting, said)


@contextlib.contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Callable[[str], None]]:
    """Mount a file system of this size at `place`, and yield a function that remounts it with other options. Skips the
    test without the right to mount."""
    place.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def kilobytes_of(folder: Path) -> int:
    """Space on a file system of 4 KB pages."""
    return sum(4 * -(-path.stat().st_size // 4096) for path in folder.rglob("*") if path.is_file())


FULL_DISK_FAST = ("shards", "pretrain")


@pytest.mark.skipif(
    shutil.which("mount") is None or os.geteuid() != 0, reason="mounting a small file system needs root"
)
@pytest.mark.parametrize(
    "stage",
    # the tiny run trains its own model, so it has no stage `checkpoint`
    [pytest.param(stage, marks=[pytest.mark.slow] * (stage not in FULL_DISK_FAST)) for stage in STAGES[1:]],
)
def test_full_disk_in_any_stage_is_one_sentence_and_the_same_command_resumes(
    stage: str, tiny, tmp_path, kobert, kobert_process
) -> None:
    """The free space is enough for `started.json` and little more: the stage's own files do not fit."""
    # the workers of corpus that fail may end late, and with a signal
    call = kobert_process if stage == "corpus" else kobert
    before = tiny.copy_before(tmp_path / "before", stage)
    needed = kilobytes_of(before) if before.exists() else 0
    with small_disk(tmp_path / "runs", needed + 16) as remount:
        run_dir = tmp_path / "runs" / "x"
        if before.exists():
            shutil.copytree(before, run_dir)
        result = call(stage, tiny.recipe, "--run-dir", run_dir)
        assert "no space is left" in result.complaint
        assert not list((run_dir / stage).rglob("manifest.json"))
        remount("size=200m")
        assert call(stage, tiny.recipe, "--run-dir", run_dir).code == 0
        expected, found = tiny.manifests(), tiny.manifests(run_dir)
        assert {name: one["files"] for name, one in found.items()} == {name: expected[name]["files"] for name in found}


def test_file_limit_is_one_sentence(tiny, tmp_path) -> None:
    """Without root, the limit of a file's size (`ulimit -f`, as on shared machines) simulates a full disk."""
    run_dir = tiny.copy(tmp_path / "runs" / "x", "corpus", "analysis")
    code = (
        "import atexit, resource, sys\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))\n"
        "atexit.register(resource.setrlimit, resource.RLIMIT_FSIZE, (hard, hard))\n"  # coverage writes its file then
        "sys.argv = ['kobert', *sys.argv[1:]]\nfrom kobert_pipeline.cli.main import main\nmain()"
    )
    argv = [sys.executable, "-c", code, "tokenizer", str(tiny.recipe), "--run-dir", str(run_dir)]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert "a file grew beyond its limit" in result.stderr.splitlines()[-1]
    assert not (run_dir / "tokenizer" / "manifest.json").exists()


def test_read_only_run_folder_is_one_sentence(tiny, tmp_path, kobert) -> None:
    place = tmp_path / "runs"
    if os.geteuid() == 0:
        with small_disk(place, 64) as remount:
            remount("ro")
            complaint = kobert("run", tiny.recipe, "--run-dir", place / "x", "--until", "corpus").complaint
    else:
        place.mkdir(mode=0o555)
        complaint = kobert("run", tiny.recipe, "--run-dir", place / "x", "--until", "corpus").complaint
    assert "no permission to read or write" in complaint
    assert str(place) in complaint


def test_run_folder_that_is_a_file_or_below_one_is_one_sentence(tiny, tmp_path, kobert) -> None:
    for number, below in enumerate(["", "x"]):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "file").write_text("")
        complaint = kobert("run", tiny.recipe, "--run-dir", place / "file" / below).complaint
        assert f"{place / 'file'} is not a folder" in complaint, below
        assert "--run-dir" in complaint, below


def test_unreadable_input_is_not_reported_as_an_unwritable_run_folder() -> None:
    said = os_error(PermissionError(errno.EACCES, "Permission denied", "data/x.txt"))
    assert said.startswith("no permission to read or write data/x.txt: Permission denied; ")
    assert "choose another --run-dir" not in said


def test_redo_beyond_until_is_refused_and_deletes_nothing(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "x")
    complaint = kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "corpus", "--redo", "pretrain").complaint
    assert "--redo pretrain is after --until corpus" in complaint
    assert tiny.manifests(run_dir) == tiny.manifests()


def test_stages_get_absolute_paths_and_messages_show_the_given_ones(tiny, tmp_path, monkeypatch, kobert) -> None:
    """Workers in other folders or on other machines get their paths from the stages."""
    given = []
    monkeypatch.setattr(
        stages.corpus_stage, "run", lambda options, data_dir, out, num_workers=None: given.extend([data_dir, out]) or {}
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(tiny_data := Path(recipe_file.load(str(tiny.recipe), [])["data_dir"]))
    rows = kobert("corpus", tiny.recipe, "--set", "data_dir=data", "--run-dir", "x", "--json").json["stages"]
    assert given == [tmp_path / "data", tmp_path / "x" / "corpus"]
    assert rows[0]["folder"] == "x/corpus"
    planned = stages.jobs(
        Recipe.model_validate(recipe_file.load(str(tiny.recipe), [])),
        stages.Run("tiny", tiny_data.relative_to("/"), Path("x")),
    )
    paths = [path for job in planned for path in path_arguments(job.run)]
    assert len(paths) > 15
    assert all(path.is_absolute() for path in paths)


def path_arguments(stage: Any) -> list[Path]:
    """The paths among the arguments of a `partial`."""
    values = [one for value in stage.args for one in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, Path)]


def test_list_names_recipes_and_every_variant(kobert) -> None:
    from kobert_pipeline.config import plugins, recipe_file

    found = kobert("list", "--json").json
    assert set(found["recipes"]) == set(recipe_file.shipped())
    assert {family: list(found[family]) for family in plugins.CONTRACTS} == {
        family: plugins.contract(family).names() for family in plugins.CONTRACTS
    }
    assert all(text for members in found.values() for text in members.values())
    table = kobert("list").out
    assert all(name in table for members in found.values() for name in members)
    assert all(text in table for members in found.values() for text in members.values()), (
        "a row is not shortened where there is no terminal"
    )
    assert set(kobert("list", "readers", "--json").json) == {"readers"}


def test_first_sentences_are_shown_whole_in_lists(kobert, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = " ".join(kobert("--help").out.split())
    for name, command in typer.main.get_command(main.app).commands.items():  # type: ignore[attr-defined]
        assert f"{name} {first_sentence(command.help)} " in f"{shown} "
    assert "..." not in shown.partition("Recipes:")[2]
    wrapped = "Reads a file,\n    plain or .gz, of 3.5 GB. Then more.\n\n    Example: none."
    assert first_sentence(wrapped) == "Reads a file, plain or .gz, of 3.5 GB."
    assert kobert("list", "tasks", "--json").json["tasks"]["span"].endswith("an empty answer means that there is none.")


def test_explain_shows_a_stage_with_type_default_and_help_of_every_option(kobert) -> None:
    for stage in STAGES:
        found = kobert("explain", stage, "--json").json
        assert found["title"] == f"stage {stage}"
        assert found["options"]
        shown = kobert("explain", stage).out
        for name, kind, default, text in found["options"]:
            assert name and kind and text
            assert default or kind.endswith("group") or kind.startswith("one of") or " of " in kind
            assert name in shown


@pytest.mark.parametrize(
    ("name", "title", "rows"),
    [
        ("pretrain.plan", "pretrain.plan", ["learning_rate", "max_minutes"]),
        ("corpus.filters.min_hangul", "corpus.filters.min_hangul", ["min_hangul"]),
        ("pretrain.objective", "pretrain.objective: one of the objectives", ["mlm_nsp"]),
        ("subwords", "subwords: a kind of plug-in", ["bpe", "unigram", "wordpiece"]),
        ("tasks.nsmc", "nsmc (tasks)", ["name"]),
        ("synthesize", "features.synthesize", ["questions", "per_context"]),
    ],
)
def test_explain_follows_dots_into_options_and_families(name: Any, title: Any, rows: Any, kobert) -> None:
    found = kobert("explain", name, "--json").json
    assert found["title"] == title
    assert set(rows) <= {row[0] for row in found["options"]}


def test_explain_gives_the_default_width_of_each_architecture(kobert) -> None:
    for name, default in [("bert", "four times hidden_size"), ("modernbert", "one and a half times hidden_size")]:
        options = {row[0]: row for row in kobert("explain", name, "--json").json["options"]}
        assert f"default: {default}" in " ".join(options["intermediate_size"])


def test_explain_prints_the_variants_of_a_kind_without_empty_columns(kobert) -> None:
    header, *rows = kobert("explain", "subwords").out.partition("\n\nname")[2].splitlines()
    assert header.split() == ["help"]
    assert [row.split()[0] for row in rows if row[:1].isalpha()] == ["bpe", "unigram", "wordpiece"]


def test_explain_shows_an_option_beside_the_stages(kobert) -> None:
    assert "Licence of the checkpoint" in kobert("explain", "checkpoint_license").out
    assert {"corpus", "checkpoint", "data_dir", "report_to"} <= {
        row[0] for row in kobert("explain", "recipe", "--json").json["options"]
    }
    assert "did you mean 'data_dir'?" in kobert("explain", "data_dirs").complaint


def test_explain_of_a_name_in_two_families_names_the_other(kobert) -> None:
    assert "kobert explain tasks.nsmc" in kobert("explain", "nsmc").out


def test_explain_shows_a_recipe(kobert) -> None:
    assert "sources:" in kobert("explain", "tiny").out


def test_version_is_that_of_the_package(kobert) -> None:
    from kobert_pipeline import __version__

    assert kobert("--version").out == f"kobert {__version__}\n"


def standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_standard_input_that_is_empty_and_texts_like_options_are_refused(tiny, monkeypatch, kobert) -> None:
    standard_input(monkeypatch, "")
    assert "standard input is empty" in kobert("tokenize", tiny.run_dir / "tokenizer", "-").complaint
    assert "put -- before" in kobert("tokenize", tiny.run_dir / "tokenizer", "-ㅋ").complaint
    assert "put -- before" not in kobert("check", "tiny", "-ㅋ").complaint, "it takes no texts"


def test_stages_after_a_stale_one_are_stale_too(tiny, kobert) -> None:
    rows = kobert(
        "status", tiny.recipe, "--run-dir", tiny.run_dir, "--set", "tokenizer.subword.vocab_size=1400", "--json"
    ).json["stages"]
    states = {row["job"]: row["status"].split(":")[0] for row in rows}
    assert states["analysis"] == "done"
    assert states["tokenizer"] == states["shards"] == states["pretrain"] == states["publish nsmc"] == "stale"


def test_explain_counts_an_architecture_like_its_real_model(kobert) -> None:
    assert re.search(r"parameters +count *\nembeddings +[\d,]+ *\n", kobert("explain", "bert").out)
    from kobert_pipeline.pretrain.architectures.bert import Bert

    found = kobert("explain", "bert", "--json").json
    model = Bert().model(Bert().config(32_000), "pretraining").base_model
    assert found["parameters"]["total"] == sum(parameter.numel() for parameter in model.parameters())
    assert "num_hidden_layers" in [row[0] for row in found["options"]]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"train": "text,label\n가,\n나,둘\n"}, "line 2: the label is ''"),
        ({"train": "text,label\n"}, "holds no examples"),
        ({"train": "text,label\n가,하나\n나,둘\n다,둘\n"}, "the dev split"),
        ({"test": "text,label\n새 글,셋\n"}, "test.csv, line 2: the label is '셋'; allowed are 둘, 하나"),
        ({"test": "text,label\n"}, "the test split"),
        ({"test": "text,label\n글 1,둘\n"}, "1 of the 1 examples"),
    ],
)
def test_check_reads_the_files_of_a_custom_task(
    files: dict[str, str], said: str, data_copy, tiny, tmp_path, monkeypatch, kobert
) -> None:
    good = {
        "train": "text,label\n" + "".join(f"글 {i},{'하나' if i % 2 else '둘'}\n" for i in range(60)),
        "test": "text,label\n새 글,둘\n",
    }
    monkeypatch.chdir(tmp_path)
    arguments = [
        "--set",
        f"data_dir={data_copy}",
        "--set",
        "features.own={task: classification, train: train.csv, test: test.csv}",
    ]
    for content, judge in (
        (good, lambda result: result.code == 0),
        (good | files, lambda result: said in result.complaint),
    ):
        for name, text in content.items():
            (data_copy / f"{name}.csv").write_text(text, encoding="utf-8")
        assert judge(kobert("check", tiny.recipe, *arguments))


def test_missing_library_of_publish_is_reported_before_anything_starts(tiny, tmp_path, monkeypatch, kobert) -> None:
    from kobert_pipeline.publish import onnx_file

    run_dir = tmp_path / "runs" / "x"
    wanted = ("--set", "publish={mood: {source: nsmc, onnx: true}}")
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("onnxgone",))
    assert (
        "requires onnxgone, not installed here; install what is missing"
        in kobert("check", tiny.recipe, *wanted).complaint
    )
    assert "onnxgone" in kobert("run", tiny.recipe, "--run-dir", run_dir, *wanted).complaint
    assert not list(run_dir.glob("*/*")), "no stage has started"
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("onnxgone", "ortgone", "numpy", "scriptgone"))
    assert (
        "requires onnxgone and ortgone and scriptgone, not installed here"
        in kobert("check", tiny.recipe, *wanted).complaint
    )
    tiny.copy(run_dir)
    assert kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "finetune", *wanted).code == 0
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("numpy",))
    assert kobert("check", tiny.recipe, *wanted).code == 0


def test_missing_library_of_the_analyzer_is_reported_before_the_corpus_is_read(
    tiny, tmp_path, monkeypatch, kobert
) -> None:
    from kobert_pipeline.morphemes import segmenter

    def gone(name: str) -> None:
        raise ImportError(f"no library for {name}; run: pip install it")

    monkeypatch.setattr(segmenter, "analyzer", gone)
    run_dir = tmp_path / "runs" / "x"
    for arguments in (["check"], ["run", "--run-dir", run_dir]):
        assert "analysis.analyzer: the analyzer kiwi cannot be imported" in kobert(*arguments, tiny.recipe).complaint
    assert not list(run_dir.glob("*/*")), "no stage has started"


def test_check_lists_the_jobs_and_does_nothing(tiny, tmp_path, monkeypatch, kobert) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = kobert("check", tiny.recipe, "--json").json["jobs"]
    assert jobs[0] == "corpus"
    assert jobs[-1] == "publish mlm"
    assert list(tmp_path.iterdir()) == []


def test_compare_prints_the_manifests_numbers(tiny, kobert) -> None:
    rows = kobert("compare", tiny.run_dir, "--json").json["runs"]
    made = tiny.manifests()
    assert [row["finetune"] for row in rows] == ["korquad", "nsmc"]
    score = made["finetune/nsmc/1"]["counts"]["test"]["accuracy"]
    assert rows[1]["scores"]["accuracy"] == {"mean": round(score, 2), "min": round(score, 2), "max": round(score, 2)}
    assert rows[0]["vocab_size"] == 1500
    assert rows[0]["held_out_loss"] == round(made["pretrain"]["counts"]["held_out_after"]["loss"], 4)
    table = kobert("compare", tiny.run_dir).out.splitlines()
    assert len(table) == 2 + len(rows)
    assert f"{score:.2f}" in table[3]
    # of the split of the scores, which is test
    scored = made["features/nsmc"]["counts"]["test_examples"]
    assert rows[1]["examples"] == scored and table[3].split(" | ")[-2] == f"{scored:,}"
    on_dev = made["finetune/nsmc/1"]["counts"]["dev"]["accuracy"]
    assert rows[1]["dev_scores"]["accuracy"]["mean"] == round(on_dev, 2)
    assert table[0].split(" | ")[-1].startswith("dev: mean")
    assert table[3].split(" | ")[-1].startswith(f"accuracy {on_dev:.2f} |")


def test_compare_names_runs_by_their_folders(tiny, kobert, monkeypatch) -> None:
    monkeypatch.chdir(tiny.run_dir)
    assert {row["run"] for row in kobert("compare", ".", "--json").json["runs"]} == {"tiny"}
    assert {row["run"] for row in kobert("compare", "corpus/..", "--json").json["runs"]} == {"tiny"}
    assert "there is no folder nope; give the folders" in kobert("compare", "nope").complaint


def test_the_time_of_a_stage_is_that_of_all_its_sessions(tiny, tmp_path, capsys) -> None:
    _, jobs = stages.plan(str(tiny.recipe), [], tiny.copy(tmp_path / "run", "corpus"), 1)
    path = jobs[0].folder / "manifest.json"
    write_json_with_digest(path, read_json_with_digest(path) | {"seconds": 752.0})
    outcomes = [Outcome(jobs[0], status, 3.0, {}) for status in ("done", "skipped")]
    for outcome, time in zip(outcomes, ("12:32", "3.0 s"), strict=True):
        print_results([outcome])
        assert time in capsys.readouterr().out


def test_compare_shows_the_options_that_differ(tiny, tmp_path, kobert) -> None:
    other = tiny.copy(tmp_path / "other")
    path = other / "pretrain" / "manifest.json"
    changed = read_json_with_digest(path)
    changed["options"]["plan"]["learning_rate"] = 7.0
    write_json_with_digest(path, changed)
    found = kobert("compare", tiny.run_dir, other, "--json").json
    assert found["differences"] == {"pretrain.plan.learning_rate": [0.002, 7.0]}
    assert "| pretrain.plan.learning_rate | 0.002 | 7.0 |" in kobert("compare", tiny.run_dir, other).out
    assert kobert("compare", tiny.run_dir, "--json").json["differences"] == {}


def test_losses_of_unlike_objectives_or_vocabularies_have_columns_of_their_own(tiny, tmp_path, kobert) -> None:
    """Also where only the share of masks differs, or where vocabularies are of equal size."""
    changes = [
        ("pretrain", ["options", "objective", "name"], "rtd", "held-out loss (rtd, vocabulary 1,500)"),
        ("pretrain", ["options", "objective", "mlm_probability"], 0.4, "mlm_probability=0.4, vocabulary 1,500)"),
        ("tokenizer", ["files", "morphemes.json", "sha256"], "0", "vocabulary 1,500 of run-2)"),
        ("pretrain", ["inputs", "shards"], "0", "vocabulary 1,500, texts of run-3)"),
        ("tokenizer", ["counts", "vocab_size"], 1500, None),
    ]
    for number, (stage, keys, value, title) in enumerate(changes):
        other = tiny.copy(tmp_path / f"run-{number}", "tokenizer", "pretrain", "finetune")
        path = other / stage / "manifest.json"
        content = read_json_with_digest(path)
        *inner, last = keys
        place = content
        for key in inner:
            place = place[key]
        place[last] = value
        write_json_with_digest(path, content)
        header, _, *rows = kobert("compare", tiny.run_dir, other).out.split("\n\n")[0].splitlines()
        columns = [i for i, cell in enumerate(header.split(" | ")) if "held-out loss" in cell]
        assert len(columns) == (1 if title is None else 2), title
        assert title is None or title in header
        for row in rows:
            assert sum(row.split(" | ")[column] != "-" for column in columns) == 1, title


def test_compare_shows_which_files_differ(tiny, tmp_path, kobert) -> None:
    other = tiny.copy(tmp_path / "other")
    path = other / "features" / "nsmc" / "manifest.json"
    changed = read_json_with_digest(path)
    name = next(name for name in changed["inputs"] if name.startswith("file "))
    before, changed["inputs"][name] = changed["inputs"][name], "0" * 64
    write_json_with_digest(path, changed)
    found = kobert("compare", tiny.run_dir, other, "--json").json["differences"]
    assert found == {f"features.nsmc: {name}": [f"sha256 {before[:12]}", f"sha256 {'0' * 12}"]}


def test_a_pretraining_of_an_earlier_recipe_is_not_the_start_of_a_model(tiny, tmp_path, kobert) -> None:
    run = tiny.copy(tmp_path / "run", "pretrain", "tokenizer", "finetune")
    shutil.copytree(run / "tokenizer", run / "checkpoint")
    path = run / "checkpoint" / "manifest.json"
    content = read_json_with_digest(path)
    content["counts"] |= {"source": "mini-nsmc", "parameters": 5}
    write_json_with_digest(path, content)
    assert {row["start"] for row in kobert("compare", run, "--json").json["runs"]} == {"own pretraining from mini-nsmc"}
    for path in run.glob("finetune/*/*/manifest.json"):
        content = read_json_with_digest(path)
        content["inputs"].pop("pretrain", None)
        content["inputs"]["checkpoint"] = input_hash(manifest.read(run / "checkpoint"), None)
        write_json_with_digest(path, content)
    assert {row["start"] for row in kobert("compare", run, "--json").json["runs"]} == {"mini-nsmc"}
    other = shutil.copytree(run, tmp_path / "other")
    shutil.rmtree(other / "pretrain")
    assert kobert("compare", run, other, "--json").json["differences"] == {}, "pretrain is no part of either model"


def test_compare_prints_latex_tables_that_no_name_breaks(tiny, tmp_path, kobert) -> None:
    other = tiny.copy(tmp_path / "50%_of [a]", "tokenizer", "pretrain", "finetune")
    printed = kobert("compare", other, tiny.run_dir, "--latex").out
    body = printed.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].splitlines()
    assert len(body) == 4
    assert body[0].startswith(r"50\%\_of {[}a{]} & own pretraining & ")
    columns = printed.partition(r"\begin{tabular}{")[2].partition("}")[0]
    assert all(row.count(" & ") == len(columns) - 1 and row.endswith(r" \\") for row in body)
    assert escaped("a--b {x} \\ ~ $1 & <c>|") == (
        r"a-{}-{}b \{x\} \textbackslash{} \textasciitilde{} \$1 \& \textless{}c\textgreater{}\textbar{}"
    )
    assert "leave one of them out" in kobert("compare", other, "--latex", "--json").complaint


def test_tokenize_shows_tokens_with_offsets_of_the_text(tiny, kobert) -> None:
    text = "아버지가 방에 들어가셨다."
    found = kobert("tokenize", tiny.run_dir / "tokenizer", text, "--json").json
    assert len(found["tokens"]) == len(found["input_ids"]) == len(found["offset_mapping"])
    assert found["tokens"][0] == "[CLS]"
    assert "".join(text[start:end] for start, end in found["offset_mapping"]) == text.replace(" ", "")
    table = kobert("tokenize", tiny.run_dir / "tokenizer", text).out.splitlines()
    assert [line.split()[0] for line in table[1:]] == found["tokens"]


def test_tokenize_reads_lines_from_standard_input(tiny, monkeypatch, kobert) -> None:
    standard_input(monkeypatch, "첫 줄\n\n둘째 줄\n")
    result = kobert("tokenize", tiny.run_dir / "tokenizer", "-", "--json")
    assert [json.loads(line)["text"] for line in result.out.splitlines()] == ["첫 줄", "", "둘째 줄"], (
        "results line up with lines"
    )


def test_predict_answers_a_line_before_the_next_one_is_written(tiny, monkeypatch) -> None:
    """The model is loaded once. Input and output are pipes, and Python buffers the output as that of a process."""
    (questions, asking), (answering, answers) = os.pipe(), os.pipe()
    texts, found = ["정말 재밌다", "", "지루했다"], []

    def ask() -> None:
        with os.fdopen(asking, "wb", buffering=0) as out, os.fdopen(answering, "rb", buffering=0) as answered:
            for text in texts:
                out.write(f"{text}\n".encode())
                if select.select([answered], [], [], 60)[0]:
                    found.append(json.loads(answered.readline())["text"])
            out.close()
            found.append(answered.read())

    asker = threading.Thread(target=ask)
    asker.start()
    with os.fdopen(questions, encoding="utf-8") as stdin, os.fdopen(answers, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        with contextlib.redirect_stdout(stdout):
            main.app(["predict", str(tiny.run_dir / "publish" / "nsmc"), "-", "--json"], standalone_mode=False)
    asker.join()
    assert found == [*texts, b""]


def test_lines_are_read_as_many_as_are_there() -> None:
    class Blocks(io.BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return super().read1(min(size, 5))

    text = "\ufeff\n가나\r\n\n다\x0c라\n끝"
    batches = list(input_lines.line_batches(Blocks(text.encode()), "-"))
    assert [line for batch in batches for line in batch] == ["", "가나", "", "다\x0c라", "끝"]
    assert len(batches) > 1
    assert list(input_lines.line_batches(io.BytesIO(text.encode()), "-")) == [["", "가나", "", "다\x0c라"], ["끝"]]


@pytest.mark.parametrize("text", ["가\r나\r\r다\r", "가\r나", "가\r\r\n나\r다\n", "가나다\r" * 20_000])
def test_standard_input_has_the_line_ends_of_files(tmp_path, text: str) -> None:
    (tmp_path / "mac.txt").write_bytes(text.encode())
    lines = [line for batch in input_lines.file_batches([str(tmp_path / "mac.txt")]) for line in batch]
    batches = input_lines.line_batches(io.BytesIO(text.encode()), "-")
    assert [line for batch in batches for line in batch] == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b"\n\n", "standard input is empty"),
        (
            b"ab\ncd\xff\n",
            r"standard input is not UTF-8 \(invalid start byte in line 2\); convert it first",
        ),
    ],
)
def test_standard_input_that_cannot_be_read_is_refused(monkeypatch, content: bytes, message: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(UserError, match=message):
        list(input_lines.stdin_batches())


def test_predict_labels_texts(tiny, kobert) -> None:
    result = kobert("predict", tiny.run_dir / "publish" / "nsmc", "정말 재밌다", "지루했다", "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["text"] for row in rows] == ["정말 재밌다", "지루했다"]
    for row in rows:
        assert set(row["scores"]) == {"negative", "positive"}
        assert sum(row["scores"].values()) == pytest.approx(1, abs=1e-3)
        assert row["label"] == max(row["scores"], key=row["scores"].get)
    assert "label: " in kobert("predict", tiny.run_dir / "publish" / "nsmc", "정말 재밌다").out


def test_predict_reads_tables_and_lines_from_files(tiny, tmp_path, kobert, monkeypatch) -> None:
    """More rows than are answered at once, and the answers of the same texts on the command line."""
    monkeypatch.setattr("kobert_pipeline.inference.table_fields.ROWS", 2)
    nsmc, korquad, mlm = (tiny.run_dir / "publish" / name for name in ("nsmc", "korquad", "mlm"))
    (tmp_path / "a.csv").write_text("id;document\n1;정말 재밌다\n2;지루했다\n3;좋다, 또\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("정말 재밌다\n지루했다\n좋다, 또\n", encoding="utf-8")
    expected = kobert("predict", nsmc, "정말 재밌다", "지루했다", "좋다, 또", "--json")
    assert expected.code == 0
    rows = [json.loads(line) for line in expected.out.splitlines()]
    found = kobert("predict", nsmc, "--in", tmp_path / "a.csv", "--json").out.splitlines()
    assert [json.loads(line) for line in found] == [{"row": n, "id": str(n)} | row for n, row in enumerate(rows, 1)]
    assert kobert("predict", nsmc, "--in", tmp_path / "a.txt", "--json") == expected
    (tmp_path / "b.tsv").write_text("where\tquestion\n한글은 세종대왕이 만들었다.\t누가?\n", encoding="utf-8")
    asked = kobert("predict", korquad, "--in", tmp_path / "b.tsv", "--column", "where", "--json").json
    assert (
        asked
        == {"row": 1} | kobert("predict", korquad, "한글은 세종대왕이 만들었다.", "--question", "누가?", "--json").json
    )
    (tmp_path / "c.jsonl").write_text('{"text": "오늘은 [MASK]."}\n', encoding="utf-8")
    filled = kobert("predict", mlm, "--in", tmp_path / "c.jsonl", "--json").json
    assert filled == {"row": 1} | kobert("predict", mlm, "오늘은 [MASK].", "--json").json
    (tmp_path / "d.csv").write_text('document,n\n,1\n,\n"좋\n다",2\n', encoding="utf-8")
    empty, full = map(json.loads, kobert("predict", nsmc, "--in", tmp_path / "d.csv", "--json").out.splitlines())
    assert empty == {"row": 1, "text": "", "label": None, "scores": None} and full["label"] in full["scores"]
    assert full["row"] == 3, "rows are those of a spreadsheet, with empty ones"
    (tmp_path / "d.txt").write_text("좋다\n \u200b\n", encoding="utf-8")
    full, empty = map(json.loads, kobert("predict", nsmc, "--in", tmp_path / "d.txt", "--json").out.splitlines())
    assert full["label"] and empty == {"text": " \u200b", "label": None, "scores": None}
    assert "row: 3  text: 좋 다  label: " in kobert("predict", nsmc, "--in", tmp_path / "d.csv").out
    for words, said in [
        ((), "give either texts or --in FILE"),
        (("글", "--in", tmp_path / "a.csv"), "give either texts or --in FILE"),
        (("--in", tmp_path / "a.csv", tmp_path / "d.csv"), "is read as one; run the command for each file"),
        (("글", "--column", "document"), "--column names columns of a table"),
        (("--in", tmp_path / "none.csv"), "none.csv is not a file"),
        (("--in", tmp_path / "a.csv", "--column", "text"), "there is no column 'text'"),
        (("--in", tmp_path / "a.csv", "--question", "누가?"), "does not answer questions"),
    ]:
        assert said in kobert("predict", nsmc, *words).complaint, words
    assert "leave --long out" in kobert("predict", mlm, "--in", tmp_path / "c.jsonl", "--long", "windows").complaint


def test_predict_answers_from_the_text(tiny, kobert) -> None:
    context = "한글은 세종대왕이 1443년에 만들었다."
    arguments = ("predict", tiny.run_dir / "publish" / "korquad", context, "--question", "누가 만들었는가?")
    found = kobert(*arguments, "--json").json
    assert found["answer"] == context[found["start"] : found["end"]] != ""
    assert f"answer: {found['answer']}" in kobert(*arguments).out


def test_predict_fills_masks(tiny, kobert) -> None:
    found = kobert(
        "predict", tiny.run_dir / "publish" / "mlm", "대한민국의 [MASK]는 [MASK]이다.", "--top-k", "3", "--json"
    ).json
    assert [len(mask) for mask in found["masks"]] == [3, 3]


@pytest.mark.parametrize(
    ("checkpoint", "arguments", "said"),
    [
        ("publish/nsmc", ["글", "--question", "무엇?"], "does not answer questions"),
        ("publish/korquad", ["글"], "--question"),
        ("publish/mlm", ["글"], "[MASK]"),
        ("tokenizer", ["글"], "not a published checkpoint"),
        ("pretrain/model", ["글"], "not a published checkpoint"),
        (".", ["글"], "not a published checkpoint"),
    ],
)
def test_predict_refuses_the_wrong_kind_of_checkpoint(checkpoint: Any, arguments: Any, said: Any, tiny, kobert) -> None:
    assert said in kobert("predict", tiny.run_dir / checkpoint, *arguments).complaint, (checkpoint, arguments, said)


def test_top_k_above_the_vocabulary_size_does_not_crash(tiny, kobert) -> None:
    assert kobert("predict", tiny.run_dir / "publish" / "mlm", "[MASK]", "--top-k", "100000").code in (0, 2)
