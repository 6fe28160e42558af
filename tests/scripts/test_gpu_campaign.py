"""The campaign on a machine with a GPU, rehearsed on the CPU by its real commands, and what its parts promise."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from kobert_pipeline.config import recipe_file
from kobert_pipeline.pipeline.recipe import Recipe

REPO = Path(__file__).resolve().parents[2]
CAMPAIGN = REPO / "scripts" / "gpu_campaign"
sys.path.insert(0, str(REPO / "scripts" / "campaign"))

import packs  # noqa: E402
import rehearsal  # noqa: E402
import slices  # noqa: E402


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole rehearsal."""
    work = tmp_path_factory.mktemp("campaign") / "work"
    result = subprocess.run(
        [sys.executable, str(CAMPAIGN), "--rehearse", str(work)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return work


def test_the_rehearsal_ends_with_a_report(rehearsed: Path) -> None:
    results = rehearsed / "results"
    assert sorted(path.name for path in results.iterdir()) == ["rehearsal.json", "rehearsal.md", "rehearsal.svg"]
    found = json.loads((results / "rehearsal.json").read_text(encoding="utf-8"))
    assert {job["status"] for job in found["jobs"]} == {"done"}
    assert [job["job"] for job in found["jobs"]] == [
        "pretrain",
        "finetune nsmc/1",
        "finetune nsmc/2",
        "finetune korquad/1",
    ]
    scores = {row["finetune"]: row for row in found["scores"]}
    assert scores["nsmc"]["seeds"] == 2
    assert set(scores["korquad"]["scores"]) == {"exact_match", "f1"}
    assert found["speed"]["median"] > 0
    assert found["stages"]["pretrain"]["parts"] >= 2, "the first slice was to stop early, and the next to go on"
    steps = [step for step, _ in found["curve"]["train"]]
    assert steps == list(range(1, found["stages"]["pretrain"]["counts"]["steps"] + 1)), "every step once, none left out"
    assert found["curve"]["held_out"][0][0] == 0
    text = (results / "rehearsal.md").read_text(encoding="utf-8")
    for said in (
        "scripts/gpu_campaign prepare DATA WORK",
        "## Spread over seeds",
        "| nsmc | accuracy |",
        "](rehearsal.svg)",
    ):
        assert said in text
    assert (results / "rehearsal.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_what_is_brought_back_is_small_and_holds_no_weights_or_texts(rehearsed: Path) -> None:
    with tarfile.open(rehearsed / "out" / slices.RESULTS) as tar:
        names = tar.getnames()
        corpus = json.load(tar.extractfile("run/corpus/manifest.json"))
    assert (rehearsed / "out" / slices.RESULTS).stat().st_size < 2**20
    assert not [
        name for name in names if name.endswith((".safetensors", ".npy", ".jsonl")) and not name.endswith("/log.jsonl")
    ]
    assert not [value for value in corpus["counts"].values() if isinstance(value, list)]
    assert {
        "run/pretrain/manifest.json",
        "run/pretrain/evaluations.json",
        "run/pretrain/logs/log.jsonl",
        "machine.json",
    } <= set(names)


def test_a_pack_holds_its_files_and_no_corpus(rehearsed: Path) -> None:
    index = json.loads((rehearsed / "here" / "packs" / packs.INDEX).read_text(encoding="utf-8"))
    assert len(index["packs"]) > 1
    assert all(pack["size"] <= 0.15 * packs.MIB for pack in index["packs"].values())
    read = [name.split("/")[1] for name in index["files"] if name.startswith("run/")]
    assert read.count("corpus") == read.count("analysis") == 2, "the manifests alone"
    content = yaml.safe_load((rehearsed / "there" / packs.RECIPE).read_text(encoding="utf-8"))
    assert "data_dir" not in content


def test_a_damaged_pack_is_refused(rehearsed: Path, tmp_path: Path) -> None:
    load = tmp_path / "load"
    load.mkdir()
    for name in (packs.INDEX, "000.tar"):
        (load / name).write_bytes((rehearsed / "here" / "packs" / name).read_bytes())
    data = bytearray((load / "000.tar").read_bytes())
    data[len(data) // 2] ^= 1
    (load / "000.tar").write_bytes(data)
    with pytest.raises(packs.Refused, match=r"000\.tar is damaged"):
        packs.unpack(load, tmp_path / "there")


def test_packs_of_another_run_are_refused(rehearsed: Path, tmp_path: Path) -> None:
    index = json.loads((rehearsed / "here" / "packs" / packs.INDEX).read_text(encoding="utf-8"))
    (tmp_path / packs.INDEX).write_text(json.dumps(index | {"settings": ["pretrain.total_tokens=1"]}), encoding="utf-8")
    with pytest.raises(packs.Refused, match="other packs"):
        packs.unpack(tmp_path, rehearsed / "there")


def test_a_file_too_large_for_a_pack_is_refused(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(100_000))
    with pytest.raises(packs.Refused, match="raise --pack-mib"):
        packs.pack([("noise", tmp_path / "noise")], tmp_path / "packs", 50_000, {})


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(75)); time.sleep(60)", slices.STOPPED),
        ("time.sleep(60)", slices.STOPPED),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)", slices.STOPPED),
        ("sys.exit(2)", 2),
        ("sys.exit(0)", 0),
    ],
    ids=["stops", "has not begun", "deaf", "refuses", "done"],
)
def test_a_slice_ends_in_time_whatever_its_process_does(code: str, status: int, tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\nimport signal, sys, time\n{code}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(slices, "sys", SimpleNamespace(executable=str(script)))
    began = time.monotonic()
    assert slices._watched(tmp_path, "pretrain", [], began + 1.0, began + 2.0) == status
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("status", [0, slices.STOPPED])
def test_an_interrupted_slice_stops_what_trains(status: int, tmp_path: Path, monkeypatch) -> None:
    """Ctrl-C, and SIGTERM, which the command makes one: nobody else would end a process with a session of its own."""
    script = tmp_path / "python"
    handler = f"signal.signal(signal.SIGTERM, lambda *_: sys.exit({status}))"
    code = f"{handler}; os.kill(os.getppid(), signal.SIGINT); time.sleep(60)"
    script.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{code}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(slices, "sys", SimpleNamespace(executable=str(script)))
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a suite that runs in the background has it ignored
    began = time.monotonic()
    try:
        assert slices._watched(tmp_path, "pretrain", [], began + 30, began + 40) == slices.STOPPED
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 20


def test_too_few_minutes_are_refused(tmp_path: Path) -> None:
    """Every slice would else be over before it began, and say that there is more to do."""
    with pytest.raises(packs.Refused, match="--margin"):
        slices.train(tmp_path, tmp_path / "out", 0.5, [], 25.0)


def test_what_is_not_there_yet_is_not_brought(tmp_path: Path) -> None:
    (tmp_path / slices.PROGRESS).write_text("[]", encoding="utf-8")
    with tarfile.open(slices.bring(tmp_path, tmp_path / "out")) as tar:
        assert tar.getnames() == [slices.PROGRESS]


def test_the_exit_status_of_a_stopped_training_is_that_of_the_command() -> None:
    from kobert_pipeline.cli.exit_codes import STOPPED

    assert slices.STOPPED == STOPPED
    assert -signal.SIGTERM < 0


def test_bench_says_what_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(slices, "REPO", tmp_path)
    with pytest.raises(packs.Refused, match="no scripts/bench/step"):
        slices.bench(tmp_path, tmp_path / "out", 1, [])


def test_every_setting_of_the_rehearsal_is_valid() -> None:
    Recipe.model_validate(recipe_file.load("quickstart", rehearsal.TINY))


def test_the_recipe_base_is_what_its_comments_say() -> None:
    """The budget, the phases, and that length 128 comes first."""
    options = Recipe.model_validate(recipe_file.load("base", []))
    parts = options.pretrain.parts()
    assert sum(tokens for tokens, _ in parts) == options.pretrain.total_tokens == 360_000_000
    assert [part.batch_tokens for _, part in parts] == [32_768, 65_536, 131_072, 262_144, 262_144]
    assert [part.max_length for _, part in parts] == [128, 128, 128, 128, 512]
    assert options.finetune["nsmc"].seeds == options.finetune["korquad"].seeds == [1, 2, 3]
    assert list(options.finetune)[-1] == "nsmc-random", "the control comes last, where it may be left out"
    assert options.tokenizer.subword.vocab_size < 2**16, "ids of two bytes"
