"""Two ranks with FSDP train the same as one process (or, with random draws of the device, as two ranks with DDP), and
their files do not depend on FSDP. With gloo on CPU, as `torchrun` starts them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ranks import options, prepare, pretrained
from safetensors.torch import load_file
from test_several_processes import TOLERANCE, TORCHRUN, difference, torchrun
from torch.testing._internal.distributed.fake_pg import FakeStore

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import sha256
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.training.checkpoint import checkpoints
from kobert_pipeline.training.evaluations import read_evaluations
from kobert_pipeline.training.fsdp import full_params, layer_lists, shard_model
from kobert_pipeline.training.loop import train
from kobert_pipeline.training.plan import Plan

DEEP = {"num_hidden_layers": 2}
"""Layers in a row; one alone is not gathered by itself."""
TIED = {**DEEP, "generator_share": 1.0, "tied": "encoder"}
"""Every layer is passed twice."""

CASES: list[dict[str, Any]] = [
    *(
        {"name": f"{objective} shared", "objective": objective, "architecture": DEEP, "fsdp": True}
        for objective in ("mlm_nsp", "mlm_sop")
    ),
    *({"name": f"rtd {fsdp}", "objective": "rtd", "architecture": DEEP, "fsdp": fsdp} for fsdp in (True, False)),
    {"name": "stopped", "objective": "mlm_nsp", "architecture": DEEP, "fsdp": True, "stops": 3},
    {"name": "left over", "objective": "mlm_nsp", "architecture": DEEP, "fsdp": True, "stops": 3, "ends": False},
    {
        "name": "begun by one",
        "objective": "mlm_nsp",
        "architecture": DEEP,
        "fsdp": True,
        "max_tokens_per_device": 64,
    },
]
SLOW: list[dict[str, Any]] = [
    *(
        {"name": f"{objective} shared", "objective": objective, "architecture": DEEP, "fsdp": True}
        for objective in ("mlm", "clm")
    ),
    *({"name": f"rtd {fsdp}", "objective": "rtd", "architecture": TIED, "fsdp": fsdp} for fsdp in (True, False)),
    *(
        {"name": f"rtd bf16 {fsdp}", "objective": "rtd", "architecture": TIED, "fsdp": fsdp, "mixed_precision": "bf16"}
        for fsdp in (True, False)
    ),
    *({**CASES[0], "name": f"bf16 {fsdp}", "mixed_precision": "bf16", "fsdp": fsdp} for fsdp in (True, False)),
    {**CASES[0], "name": "bf16 stopped", "mixed_precision": "bf16", "stops": 3},
    *(
        {
            **CASES[0],
            "name": f"residuals {fsdp}",
            "fsdp": fsdp,
            "mixed_precision": "bf16",
            "fp32_residual_connection": False,
        }
        for fsdp in (True, False)
    ),
]


def by_two(place: Path, cases: list[dict[str, Any]]) -> None:
    """Run every case with two processes."""
    (place / "cases.json").write_text(json.dumps(cases))
    worker = [str(Path(__file__).with_name("ranks.py")), str(place / "cases.json")]
    result = subprocess.run([*TORCHRUN, *worker], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of one process, and of two for every case."""
    place = tmp_path_factory.mktemp("shared")
    prepare(place)
    for objective in ("mlm_nsp", "mlm_sop"):
        pretrained(place, f"{objective} by one", objective, architecture=DEEP)
    pretrained(place, "begun by one", "mlm_nsp", stops=3, ends=False, architecture=DEEP)
    by_two(place, CASES)
    return place


@pytest.mark.parametrize("objective", ["mlm_nsp", "mlm_sop"])
@pytest.mark.slow
def test_two_processes_that_share_train_what_one_does(objective: Any, place: Path) -> None:
    assert difference(place, f"{objective} shared", f"{objective} by one") > 0, objective


@pytest.mark.slow
def test_two_processes_that_share_train_what_two_that_do_not_do(place: Path) -> None:
    difference(place, "rtd True", "rtd False")


@pytest.mark.parametrize(
    ("shared", "other"),
    (
        ("mlm_nsp shared", "mlm_nsp by one"),
        ("mlm_sop shared", "mlm_sop by one"),
        ("rtd True", "rtd False"),
    ),
)
@pytest.mark.slow
def test_files_do_not_tell_who_made_them(shared: Any, other: Any, place: Path) -> None:
    left = [
        {
            str(path.relative_to(place / name))
            for path in (place / name).rglob("*")
            if path.is_file() and "tfevents" not in path.name
        }
        for name in (shared, other)
    ]
    assert left[0] == left[1]
    configs = [file for file in left[0] if file.endswith("config.json")]
    assert configs
    assert [(place / shared / file).read_text() for file in configs] == [
        (place / other / file).read_text() for file in configs
    ]


@pytest.mark.parametrize("file", ("model.safetensors", "optimizer.safetensors"))
@pytest.mark.slow
def test_checkpoints_hold_whole_tensors(file: Any, place: Path) -> None:
    found, expected = (
        load_file(checkpoints(place / f"mlm_nsp {by}" / "checkpoints")[-1] / file) for by in ("shared", "by one")
    )
    torch.testing.assert_close(found, expected, **TOLERANCE)


@pytest.mark.slow
def test_the_best_model_is_saved_whole(place: Path) -> None:
    bests = [path.parent.parent.name for path in place.glob("*/best/config.json")]
    assert "mlm_nsp shared" in bests
    found, expected = (load_file(place / f"mlm_nsp {by}" / "best" / "model.safetensors") for by in ("shared", "by one"))
    torch.testing.assert_close(found, expected, **TOLERANCE)
    generators = [
        load_file(place / f"rtd {fsdp}" / "model" / "generator" / "model.safetensors") for fsdp in (True, False)
    ]
    torch.testing.assert_close(generators[0], generators[1], **TOLERANCE)


@pytest.mark.slow
def test_evaluations_are_those_of_the_whole_model(place: Path) -> None:
    found, expected = (read_evaluations(place / f"mlm_nsp {by}" / "evaluations.json") for by in ("shared", "by one"))
    assert found.keys() == expected.keys()
    for step in found:
        assert found[step] == pytest.approx(expected[step], abs=2e-6)


@pytest.mark.slow
def test_two_processes_that_were_stopped_go_on_to_the_same_bits(place: Path) -> None:
    models = [sha256(place / name / "model" / "model.safetensors") for name in ("stopped", "mlm_nsp shared")]
    assert models[0] == models[1]


@pytest.mark.slow
def test_one_process_resumes_where_two_with_shards_stopped(place: Path) -> None:
    assert [path.name for path in checkpoints(place / "left over" / "checkpoints")][-1] == "step-00000003"
    pretrained(place, "left over", "mlm_nsp", architecture=DEEP)
    difference(place, "left over", "mlm_nsp by one")


@pytest.mark.slow
def test_two_processes_that_share_go_on_from_where_one_stopped_and_accumulate(place: Path) -> None:
    assert difference(place, "begun by one", "mlm_nsp by one") > 0


@pytest.mark.slow
def test_other_architectures_layers_passed_twice_and_bf16(tmp_path: Path) -> None:
    prepare(tmp_path)
    by_two(tmp_path, SLOW)
    for objective in ("mlm", "clm"):
        pretrained(tmp_path, f"{objective} by one", objective, architecture=DEEP)
        difference(tmp_path, f"{objective} shared", f"{objective} by one")
    # in bf16 nearly as close as in fp32: gathered in bf16 is only what autocast rounds in the same way without FSDP
    for name in ("rtd", "rtd bf16", "bf16", "residuals"):
        difference(tmp_path, f"{name} True", f"{name} False", atol=1e-5)
    models = [sha256(tmp_path / name / "model" / "model.safetensors") for name in ("bf16 stopped", "bf16 True")]
    assert models[0] == models[1]


@pytest.mark.slow
def test_the_command_shares(tiny, tmp_path: Path) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    ran = torchrun("pretrain", tiny.recipe, "--run-dir", run_dir, "--set", "pretrain.plan.fsdp=true")
    assert ran.code == 0, ran.err[-3000:]
    made, expected = tiny.manifests(run_dir)["pretrain"], tiny.manifests()["pretrain"]
    assert made["fingerprint"] == expected["fingerprint"]
    assert made["files"].keys() == expected["files"].keys()
    assert made["counts"]["parameters"] == expected["counts"]["parameters"]
    assert made["counts"]["held_out_after"]["loss"] == pytest.approx(
        expected["counts"]["held_out_after"]["loss"], abs=1e-4
    )


# sharding


def test_every_process_keeps_its_slice_and_tied_weights_stay_tied() -> None:
    """The second of four ranks, the others simulated."""
    given = options("rtd", architecture=TIED)
    model = given.architecture.model(given.architecture.config(200), given.objective.head)
    module = LossModule(model, given.objective, given.architecture)
    sizes = {name: parameter.shape for name, parameter in module.named_parameters()}
    torch.distributed.init_process_group("fake", rank=1, world_size=4, store=FakeStore())
    try:
        shard_model(module, SimpleNamespace(num_processes=4, device=torch.device("cpu"), mixed_precision="no"))
        kept = {name: parameter.to_local().shape for name, parameter in module.named_parameters()}
    finally:
        torch.distributed.destroy_process_group()
    assert model.generator.generator_lm_head.weight is model.electra.embeddings.word_embeddings.weight
    assert {name: parameter.shape for name, parameter in module.named_parameters()} == sizes
    for name, (rows, *columns) in sizes.items():
        per_process = -(-rows // 4)
        assert kept[name] == (min(per_process, max(rows - per_process, 0)), *columns)


# what is a layer


@pytest.mark.parametrize(
    ("objective", "architecture", "expected"),
    [
        ("mlm_nsp", {"num_hidden_layers": 3}, ["BertLayer"] * 3),
        ("mlm_nsp", {"num_hidden_layers": 1}, []),
        ("mlm_sop", {"num_hidden_layers": 3}, []),  # one layer, passed three times
        ("rtd", DEEP, ["ElectraLayer"] * 4),
        ("rtd", TIED, ["ElectraLayer"] * 2),
        ("mlm", DEEP, ["ModernBertEncoderLayer"] * 2),
        ("clm", DEEP, ["GPT2Block"] * 2),
    ],
)
def test_layers_are_the_modules_in_a_row(objective: Any, architecture: Any, expected: Any) -> None:
    given = options(objective, architecture=architecture)
    with torch.device("meta"):
        model = given.architecture.model(given.architecture.config(200), given.objective.head)
    module = LossModule(model, given.objective, given.architecture)
    found = [layer for layers in layer_lists(module) for layer in layers]
    assert [type(layer).__name__ for layer in found] == expected
    assert len({id(layer) for layer in found}) == len(found)


def test_a_module_that_is_not_sharded_is_left_as_it_is() -> None:
    module = torch.nn.Linear(2, 2)
    before = dict(module.named_parameters())
    with full_params(module):
        assert all(parameter is before[name] for name, parameter in module.named_parameters())


# what is refused


def test_one_process_has_no_other_rank_to_shard_with(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"plan\.fsdp shards .* only one; start several by torchrun"):
        train(torch.nn.Linear(2, 2), lambda *step: None, Plan(fsdp=True), 3, tmp_path)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["pretrain.plan.optimizer=muon"], "pretrain.plan: fsdp shards every matrix"),
        (["pretrain.plan.torch_compile=true"], "pretrain.plan: fsdp and torch_compile cannot be combined"),
    ],
)
def test_what_wants_a_whole_model_is_refused(given: Any, complaint: Any, kobert: Callable[..., Any]) -> None:
    sets = [word for option in ("pretrain.plan.fsdp=true", *given) for word in ("--set", option)]
    assert complaint in kobert("check", "tiny", *sets).complaint, given


def test_fine_tuning_keeps_models_whole(kobert: Callable[..., Any]) -> None:
    name = "nsmc"
    complaint = kobert("check", "tiny", "--set", f"finetune.{name}.plan.fsdp=true").complaint
    assert f"finetune.{name}.plan.fsdp: fsdp is for pretraining only" in complaint


def test_sharing_is_not_in_the_fingerprint() -> None:
    assert Plan(fsdp=True).dump() == Plan().dump()
