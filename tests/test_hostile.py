"""Absurd and hostile input to the whole command: one sentence that names it, in bounded time and memory, and nothing
half-written."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import did_you_mean, os_error
from kobert_pipeline.files import parse_json, read_json_lines, write_array, write_json_lines

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 12)
)
MERGES = f"a: &a {{b: 1, c: 2}}\nd: &d {{<<: [{', '.join(['*a'] * 300)}]}}\ne: &e {{<<: [{', '.join(['*d'] * 300)}]}}\n"
RECIPES = {
    "description: 2020-13-45": "month must be in 1..12",
    "description: !!int abc": "invalid literal",
    f"description: {'9' * 5000}": "digits",
    "description: 0x" + "f" * 9000: "too large",
    "description: !!timestamp abc": "put text in quotes",
    "description: !!bool abc": "put text in quotes",
    "[" * 90_000: "nested too deep",
    "- " * 40_000: "nested too deep",
    BOMB: "more than 20,000 values",
    MERGES: "more than 20,000 values",
    "a: &a [*a]": "inside the value that it repeats",
    "&a {<<: *a}": "inside the value that it repeats",
    "<<: 3": "for merging",
    "? [a]\n: b": "unhashable",
    '"a\\0": 1': "null byte",
    'description: "\\ud800"': "half a character",
    "description: \0": "special characters",
    "#" * 200_000: "more than 100,000 characters",
    "!!python/object/apply:os.system ['false']": "could not determine a constructor",
    "1: x": "unknown key '1'",
    "? ~\n: x": "unknown key 'None'",
}


def test_hostile_recipes_are_refused_in_one_sentence(tmp_path, kobert) -> None:
    for text, said in RECIPES.items():
        (tmp_path / "r.yaml").write_text(text, encoding="utf-8")
        complaint = kobert("check", tmp_path / "r.yaml").complaint
        assert said in complaint, text[:40]
        assert "r.yaml" in complaint


SETTINGS = {
    "pretrain.total_tokens=!!int abc": "pretrain.total_tokens",
    f"pretrain.total_tokens={'9' * 5000}": "pretrain.total_tokens",
    f"pretrain.total_tokens={'[' * 90_000}": "pretrain.total_tokens",
    "pretrain.plan.learning_rate=.nan": "finite",
    "pretrain.plan.learning_rate=.inf": "finite",
    "pretrain.plan.seed=99999999999999999999": "pretrain.plan.seed",
    "pretrain.plan.seed=-1": "pretrain.plan.seed",
    "description=\udcff": "not UTF-8",
    "corpus.sources.².path=x": "is not an index",
    f"corpus.sources.{'9' * 5000}.path=x": "is not an index",
    "corpus.sources.0.path=**b": "not a pattern",
    f"corpus.sources.0.path={'**/' * 400}*.zzz": "no file is named",
    f"corpus.sources.0.path={'a' * 5000}": "File name too long",
    f"{'a.' * 20_000}b=1": "unknown key",
    f"{'k' * 100_000}=1": "unknown key",
}


def test_hostile_settings_are_refused_in_one_sentence(corpora, kobert) -> None:
    for setting, said in SETTINGS.items():
        complaint = kobert("check", "tiny", "--set", f"data_dir={corpora}", "--set", setting).complaint
        assert said in complaint, setting[:40]


def test_text_that_only_looks_like_yaml_stays_text_in_a_setting() -> None:
    content: dict[str, Any] = {}
    for value in ("2020-13-45", "!!int abc", "[" * 90_000):
        recipe_file.apply_setting(content, f"description={value}")
        assert content["description"] == value


def test_json_that_no_program_could_take_in_is_refused() -> None:
    for text, said in {
        "9" * 5000: "digits",
        "[" * 100_000: "nested",
        '{"a":' * 150 + "1" + "}" * 150: "nested",
        "{": "Expecting",
    }.items():
        with pytest.raises(ValueError, match=said):
            parse_json(text)
    assert parse_json("[" * 100 + "]" * 100)


def test_a_lone_surrogate_survives_being_stored(tmp_path) -> None:
    rows = [json.loads('{"document": "나쁜 \\ud83d 영화", "label": 0}'), {"document": "좋은 영화", "label": 1}]
    write_json_lines(tmp_path / "rows.jsonl", iter(rows))
    assert read_json_lines(tmp_path / "rows.jsonl") == rows


def test_a_guess_stays_short_whatever_it_chooses_from() -> None:
    assert len(did_you_mean("x" * 10**6, ("y" * 1000 + str(i) for i in range(2000)))) < 10_000


def test_a_short_form_of_a_name_is_understood() -> None:
    assert "did you mean 'learning_rate'?" in did_you_mean("lr", ["epochs", "learning_rate", "layer"])
    assert "did you mean" not in did_you_mean("l", ["learning_rate", "layer"])


def test_an_array_that_does_not_fit_says_that_the_disk_is_full(tmp_path) -> None:
    """/dev/full is a disk without room. numpy alone would say "1000000 requested and 0 written", without a number."""
    (tmp_path / "a.npy.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        write_array(tmp_path / "a.npy", np.zeros(10**6, np.uint8))
    assert raised.value.errno == errno.ENOSPC
    assert "no space is left" in (os_error(raised.value) or "")
    write_array(tmp_path / "b.npy", np.arange(12, dtype=np.uint16).reshape(3, 4))
    assert (np.load(tmp_path / "b.npy", mmap_mode="r") == np.arange(12).reshape(3, 4)).all()


def test_what_the_system_lacks_is_said_also_where_a_library_wrapped_it() -> None:
    for number, said in {
        errno.ENOSPC: "disk",
        errno.EFBIG: "limit",
        errno.EMFILE: "ulimit -n",
        errno.ENOMEM: "memory",
    }.items():
        for error in (
            OSError(number, os.strerror(number)),
            RuntimeError(f"I/O error: {os.strerror(number)} (os error {number})"),
        ):
            assert said in (os_error(error) or "")
    assert os_error(ValueError("a mistake of ours")) is None


def test_a_run_folder_where_none_can_be_is_refused(tmp_path, kobert) -> None:
    for place in ("/proc/x", "/dev/null/x", "/sys/x", tmp_path / ("a" * 300)):
        complaint = kobert("corpus", "tiny", "--run-dir", place).complaint
        assert str(place)[:100] in complaint
        assert "--run-dir" in complaint


def test_too_few_open_files_are_said_to_be_too_few(tmp_path, corpora, kobert_process) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))  # noqa: E731
    result = kobert_process(
        "corpus", "tiny", "--set", f"data_dir={corpora}", "--run-dir", tmp_path / "x", preexec_fn=limit
    )
    assert "ulimit -" in result.complaint


@pytest.mark.parametrize("arguments", (["list"], ["--help"], ["check", "nosuch"]))
def test_output_that_is_not_read_ends_the_command_quietly_as_sigpipe_would(arguments: Any, tmp_path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "kobert_pipeline", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert result.returncode == (2 if "nosuch" in arguments else 141), result.stderr
    assert "Broken" not in result.stderr
    assert "Traceback" not in result.stderr


def test_output_that_an_encoding_cannot_hold_is_escaped(kobert_process) -> None:
    result = kobert_process("list", "readers", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.code == 0, result.err
    result = kobert_process("list", "recipes", "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.code == 0, result.err


@pytest.mark.parametrize(("stage", "sign"), (("corpus", "corpus/*.json"), ("pretrain", "pretrain/*.json")))
@pytest.mark.slow
def test_a_stage_that_is_terminated_says_so_with_75_and_resumes(
    stage: Any, sign: Any, tiny, tmp_path, start_kobert, kobert
) -> None:
    """Before the training loop, which has a way of its own: while the corpus is read by workers, and while pretraining
    starts."""
    run_dir = tiny.copy_before(tmp_path / stage, stage)
    arguments = (stage, tiny.recipe, "--run-dir", run_dir, "--num-workers", 2)
    process = start_kobert(*arguments)
    while not list(run_dir.glob(sign)):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[0]
    assert process.returncode == 75, said
    assert "kobert: " in said
    assert "the same command" in said
    assert "Traceback" not in said
    assert kobert(*arguments).code == 0
    assert tiny.manifests(run_dir)[stage]["files"] == tiny.manifests()[stage]["files"]
