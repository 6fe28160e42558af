"""Several ranks, or a step in several parts, train the same as one process: a step's batch is split, so only rounding
changes. With gloo on CPU, as `torchrun` starts them or, where that proves no more, forked from one process."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from ranks import MODELS, prepare, pretrained
from safetensors.torch import load_file

from kobert_pipeline.distributed import is_main_process, refuse_unsupported_launch
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import sha256
from kobert_pipeline.training.checkpoint import checkpoints
from kobert_pipeline.training.device import check_same_step

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
TOLERANCE = {"rtol": 1e-5, "atol": 2e-6}
"""Of weights after ten steps of SGD in fp32."""

CASES: list[dict[str, Any]] = [
    {"name": "mlm_nsp by two", "objective": "mlm_nsp"},
    {"name": "by two in two parts each", "objective": "mlm_nsp", "max_tokens_per_device": 64},
    {"name": "few sequences by two", "objective": "mlm_nsp", "batch_tokens": 100, "max_tokens_per_device": 48},
    {"name": "stopped", "objective": "mlm_nsp", "stops": 3},
    {"name": "left over", "objective": "mlm_nsp", "stops": 3, "ends": False},
    {"name": "stopped at every third step", "objective": "mlm_nsp", "stops": 2, "check_every": 3},
    {"name": "left over at a third step", "objective": "mlm_nsp", "stops": 2, "check_every": 3, "ends": False},
]
"""What two processes do, in one go."""


def by_two(place: Path, cases: list[dict[str, Any]], launcher: list[str], *more: str) -> None:
    """Let two processes train all `cases`."""
    prepare(place)
    (place / "cases.json").write_text(json.dumps(cases))
    worker = [str(Path(__file__).with_name("ranks.py")), str(place / "cases.json"), *more]
    result = subprocess.run([*launcher, *worker], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two processes for every case, and of one."""
    place = tmp_path_factory.mktemp("several")
    by_two(place, CASES, [sys.executable], "2")
    pretrained(place, "mlm_nsp by one", "mlm_nsp")
    return place


def difference(place: Path, name: str, other: str, atol: float = TOLERANCE["atol"]) -> float:
    """The largest between two models' weights, which must be within the tolerance."""
    found, expected = (load_file(place / one / "model" / "model.safetensors") for one in (name, other))
    assert found.keys() == expected.keys()
    torch.testing.assert_close(found, expected, rtol=TOLERANCE["rtol"], atol=atol)
    largest = max(float((found[key] - expected[key]).abs().max()) for key in found)
    print(f"{name}: {largest:.2g}")
    return largest


def test_two_processes_train_what_one_does(place: Path) -> None:
    assert difference(place, "mlm_nsp by two", "mlm_nsp by one") > 0


@pytest.mark.slow
def test_two_processes_train_what_one_does_with_every_objective(tmp_path: Path) -> None:
    by_two(tmp_path, [{"name": f"{objective} by two", "objective": objective} for objective in MODELS], TORCHRUN)
    for objective in MODELS:
        pretrained(tmp_path, f"{objective} by one", objective)
        assert difference(tmp_path, f"{objective} by two", f"{objective} by one") > 0


def test_a_step_in_three_parts_trains_what_one_in_one_token_does(place: Path) -> None:
    pretrained(place, "in three parts", "mlm_nsp", max_tokens_per_device=86)
    assert difference(place, "in three parts", "mlm_nsp by one") > 0


def test_two_processes_with_two_parts_each_train_what_one_does(place: Path) -> None:
    assert difference(place, "by two in two parts each", "mlm_nsp by one") > 0


def test_processes_without_a_sequence_of_their_own_change_nothing(place: Path) -> None:
    pretrained(place, "few sequences by one", "mlm_nsp", batch_tokens=100)
    difference(place, "few sequences by two", "few sequences by one")


def test_two_processes_that_were_stopped_go_on_to_the_same_bits(place: Path) -> None:
    names = ("mlm_nsp by two", "stopped", "stopped at every third step")
    models = [sha256(place / name / "model" / "model.safetensors") for name in names]
    assert models == models[:1] * 3


def test_processes_that_ask_each_other_every_third_step_stop_there(place: Path) -> None:
    saved = [path.name for path in checkpoints(place / "left over at a third step" / "checkpoints")]
    assert saved[-1] == "step-00000006"


def test_one_process_resumes_where_two_stopped(place: Path) -> None:
    assert [path.name for path in checkpoints(place / "left over" / "checkpoints")][-1] == "step-00000003"
    pretrained(place, "left over", "mlm_nsp")
    difference(place, "left over", "mlm_nsp by one")


def test_the_loss_is_logged_once_and_is_that_of_the_whole_batch(place: Path) -> None:
    found, expected = (
        [json.loads(line) for line in (place / name / "logs" / "log.jsonl").read_text().splitlines()]
        for name in ("mlm_nsp by two", "mlm_nsp by one")
    )
    assert [(line["step"], line.keys() - {"seconds"}) for line in found] == [
        (line["step"], line.keys() - {"seconds"}) for line in expected
    ]
    for name in ("loss", "mlm_loss", "nsp_loss", "nsp_accuracy"):
        assert [line.get(name) for line in found] == pytest.approx([line.get(name) for line in expected], abs=2e-6)


# what is refused


@pytest.mark.parametrize("command", ["run", "features", "publish", "status", "serve"])
def test_several_processes_only_train(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        with pytest.raises(UserError, match=f"kobert {command} was started as 2 ranks.*--until features"):
            refuse_unsupported_launch(command)
        refuse_unsupported_launch("pretrain")
        refuse_unsupported_launch("finetune")


@pytest.mark.parametrize("way", ["FSDP", "DEEPSPEED", "MEGATRON_LM"])
def test_a_model_cut_up_by_the_launcher_is_refused(
    way: Any, monkeypatch: pytest.MonkeyPatch, kobert: Callable[..., Any]
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(f"ACCELERATE_USE_{way}", "true")
        complaint = kobert("pretrain", "tiny").complaint
        assert f"ACCELERATE_USE_{way}" in complaint, way
        assert "--set pretrain.plan.fsdp=true" in complaint, way


def test_ranks_that_resume_from_different_steps_are_refused(tmp_path: Path) -> None:
    ranks: Any = SimpleNamespace(num_processes=2, device="cpu", gather=lambda own: torch.cat([own, own + 5]))
    with pytest.raises(UserError, match=r"different steps \(40, 45\); put .* on a file system that every node shares"):
        check_same_step(ranks, 40, tmp_path)
    ranks.gather = lambda own: torch.cat([own, own])
    check_same_step(ranks, 40, tmp_path)


def test_a_process_alone_leads_whatever_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert is_main_process()
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert not is_main_process()


# the command


class Ran:
    """The result of `torchrun ... kobert`."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def said(self) -> list[str]:
        """The lines of kobert's mistakes."""
        return [line for line in self.err.splitlines() if line.startswith("kobert: ")]

    @property
    def statuses(self) -> list[int]:
        """The exit statuses of the processes that failed, as torchrun reports them."""
        return [int(line.split()[2]) for line in self.err.splitlines() if line.split()[:2] == ["exitcode", ":"]]


def torchrun(*arguments: object) -> Ran:
    command = [*TORCHRUN, "-m", "kobert_pipeline", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return Ran(result.returncode, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def pretrained_run(tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """The tiny run up to pretrain, which two processes ran."""
    run_dir = tiny.copy_before(tmp_path_factory.mktemp("two") / "runs" / "x", "pretrain")
    return run_dir, torchrun("pretrain", tiny.recipe, "--run-dir", run_dir)


@pytest.mark.slow
def test_two_processes_make_one_stage(pretrained_run: tuple[Path, Ran], tiny, kobert: Callable[..., Any]) -> None:
    run_dir, ran = pretrained_run
    assert ran.code == 0, ran.err[-3000:]
    assert ran.err.count("running  pretrain") == 1
    assert ran.err.count("done     pretrain") == 1
    assert ran.out.count("pretrain") == 1  # its row in the table
    made, expected = tiny.manifests(run_dir)["pretrain"], tiny.manifests()["pretrain"]
    assert made["fingerprint"] == expected["fingerprint"]
    assert made["files"].keys() == expected["files"].keys()
    assert made["counts"]["held_out_after"]["loss"] == pytest.approx(
        expected["counts"]["held_out_after"]["loss"], abs=1e-4
    )
    steps = [
        json.loads(line)["step"] for line in (run_dir / "pretrain" / "logs" / "log.jsonl").read_text().splitlines()
    ]
    kept = [
        json.loads(line)["step"] for line in (tiny.run_dir / "pretrain" / "logs" / "log.jsonl").read_text().splitlines()
    ]
    assert steps == kept
    rows = {
        row["job"]: row["status"]
        for row in kobert("status", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]
    }
    assert rows["pretrain"] == "done"


@pytest.mark.slow
def test_a_second_call_skips(pretrained_run: tuple[Path, Ran], tiny) -> None:
    ran = torchrun("pretrain", tiny.recipe, "--run-dir", pretrained_run[0])
    assert ran.code == 0, ran.err[-3000:]
    assert ran.err.count("skipped  pretrain") == 1


@pytest.mark.slow
def test_another_option_is_refused_once(pretrained_run: tuple[Path, Ran], tiny) -> None:
    run_dir, _ = pretrained_run
    before = sha256(run_dir / "pretrain" / "manifest.json")
    ran = torchrun("pretrain", tiny.recipe, "--run-dir", run_dir, "--set", "pretrain.plan.seed=9")
    assert ran.statuses == [2, 2], ran.err[-3000:]
    assert len(ran.said) == 1
    assert "option pretrain.plan.seed was 1 and is now 9" in ran.said[0]
    assert sha256(run_dir / "pretrain" / "manifest.json") == before


@pytest.mark.slow
def test_kobert_run_is_refused_once_by_all(tiny, tmp_path: Path) -> None:
    ran = torchrun("run", tiny.recipe, "--run-dir", tmp_path / "runs" / "x")
    assert ran.statuses == [2, 2], ran.err[-3000:]
    assert len(ran.said) == 1
    assert "kobert run was started as 2 ranks" in ran.said[0]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_terminated_processes_stop_with_75_and_go_on_to_the_same_bits(
    pretrained_run: tuple[Path, Ran], tiny, tmp_path: Path, wait_for_step: Callable[[Path, int], None]
) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    arguments = [
        "pretrain",
        str(tiny.recipe),
        "--run-dir",
        str(run_dir),
        "--set",
        "pretrain.plan.checkpoint_every=100000",
        "--set",
        "pretrain.plan.log_every=1",
    ]
    process = subprocess.Popen(
        [*TORCHRUN, "-m", "kobert_pipeline", *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    wait_for_step(run_dir / "pretrain", 3)
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode != 0
    stopped = [line for line in said.splitlines() if line.startswith("kobert: ")]
    assert len(stopped) == 1, said
    assert "the same command resumes" in stopped[0]
    assert not (run_dir / "pretrain" / "manifest.json").exists()
    assert len(checkpoints(run_dir / "pretrain" / "checkpoints")) == 1
    ran = torchrun(*arguments)
    assert ran.code == 0, ran.err[-3000:]
    made, expected = (tiny.manifests(one)["pretrain"] for one in (run_dir, pretrained_run[0]))
    assert made["files"] == expected["files"]
    assert made["counts"] == expected["counts"]


@pytest.mark.slow
def test_a_time_limit_ends_every_process_with_75(tiny, tmp_path: Path) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    ran = torchrun("pretrain", tiny.recipe, "--run-dir", run_dir, "--set", "pretrain.plan.max_minutes=1e-9")
    assert ran.statuses == [75, 75], ran.err[-3000:]
    assert len(ran.said) == 1


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_once(tiny, tmp_path: Path) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    arguments = ("pretrain", tiny.recipe, "--run-dir", run_dir)
    torchrun(*arguments, "--set", "pretrain.plan.max_minutes=1e-9")
    weights = checkpoints(run_dir / "pretrain" / "checkpoints")[-1] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    ran = torchrun(*arguments)
    assert ran.statuses == [2, 2], ran.err[-3000:]
    assert len(ran.said) == 1
    assert str(weights) in ran.said[0]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--redo", "reuse"])
def test_the_others_follow_when_the_first_deletes_or_takes_over(
    pretrained_run: tuple[Path, Ran], tiny, tmp_path: Path, how: str
) -> None:
    source, _ = pretrained_run
    runs = tmp_path / "runs"
    tiny.copy_before(runs / "made", "pretrain")
    (runs / "made" / "pretrain").mkdir()
    for path in (source / "pretrain").rglob("*"):
        if path.is_file():
            target = runs / "made" / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    run_dir = runs / "made" if how == "--redo" else tiny.copy_before(runs / "other", "pretrain")
    ran = torchrun("pretrain", tiny.recipe, "--run-dir", run_dir, *(["--redo"] if how == "--redo" else []))
    assert ran.code == 0, ran.err[-3000:]
    assert ("done     pretrain" if how == "--redo" else "reused   pretrain") in ran.err
    assert tiny.manifests(run_dir)["pretrain"]["files"] == tiny.manifests(source)["pretrain"]["files"]


@pytest.mark.slow
def test_two_processes_finetune_what_one_does(tiny, tmp_path: Path, kobert_process: Callable[..., Any]) -> None:
    """Except for dropout, which every process draws for itself."""
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    for tuned in recipe["finetune"].values():
        tuned["plan"] |= {"dropout": 0.0}
    path = tmp_path / "plain.yaml"
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    one, two = (tiny.copy_before(tmp_path / name / "runs" / "x", "finetune") for name in ("one", "two"))
    assert kobert_process("finetune", path, "--run-dir", one).code == 0
    ran = torchrun("finetune", path, "--run-dir", two)
    assert ran.code == 0, ran.err[-3000:]
    for name in ("nsmc", "korquad"):
        made, expected = (tiny.manifests(run_dir)[f"finetune/{name}/1"] for run_dir in (two, one))
        assert made["counts"]["best_step"] == expected["counts"]["best_step"]
        assert made["counts"]["test"] == pytest.approx(expected["counts"]["test"], abs=1)
        # AdamW takes whole steps from the rounding of gradients near zero, so that single weights may differ
        found, known, start = (
            torch.cat([tensors[weight].flatten() for weight in sorted(tensors) if weight.startswith("bert.encoder")])
            for folder in (two / "finetune" / name / "1", one / "finetune" / name / "1", one / "pretrain")
            for tensors in [load_file(folder / "model" / "model.safetensors")]
        )
        assert (found - known).norm() < 1e-2 * (known - start).norm()


@pytest.mark.slow
def test_two_nodes_do_what_two_processes_of_one_do(pretrained_run: tuple[Path, Ran], tiny, tmp_path: Path) -> None:
    """As the Slurm script of docs/scaling.md starts them."""
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    node = [
        "--nnodes=2",
        "--nproc_per_node=1",
        "--rdzv_backend=c10d",
        f"--rdzv_endpoint=localhost:{port}",
        "--rdzv_id=7",
    ]
    command = [*TORCHRUN[:3], *node, "-m", "kobert_pipeline", "pretrain", str(tiny.recipe), "--run-dir", str(run_dir)]
    nodes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [node.communicate()[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert sum(text.count("done     pretrain") for text in said) == 1
    assert tiny.manifests(run_dir)["pretrain"]["files"] == tiny.manifests(pretrained_run[0])["pretrain"]["files"]


@pytest.mark.slow
def test_accelerate_launch_does_the_same(pretrained_run: tuple[Path, Ran], tiny, tmp_path: Path) -> None:
    """Its own option for gradient accumulation changes nothing."""
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    launch = [
        str(Path(sys.executable).with_name("accelerate")),
        "launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    more = [
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
        "--gradient_accumulation_steps",
        "4",
        "-m",
        "kobert_pipeline",
    ]
    command = [*launch, *more, "pretrain", str(tiny.recipe), "--run-dir", str(run_dir)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert tiny.manifests(run_dir)["pretrain"]["files"] == tiny.manifests(pretrained_run[0])["pretrain"]["files"]
