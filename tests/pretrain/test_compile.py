"""A compiled pretraining gives the same weights and evaluations as a plain one, up to rounding."""

from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import SMALL, sample_the_likeliest
from safetensors.torch import load_file
from sgd import train_by_sgd

from kobert_pipeline.pretrain import losses, stage
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.progress import Display, Progress, shown_on
from kobert_pipeline.training.evaluations import read_evaluations

ROWS = {
    "bert": "mlm_nsp",
    "albert": "mlm_sop",
    "roberta": "mlm",
    "roformer": "mlm",
    "modernbert": "mlm",
    "gpt2": "clm",
    "electra": "rtd",
}
REGIONAL = {"torch_compile": True, "use_regional_compilation": True}


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what was compiled for other tests, and train by SGD."""
    train_by_sgd(monkeypatch)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def pretrain_options(name: str, layers: int, **more: Any) -> PretrainOptions:
    """A short pretraining of a small model of this architecture."""
    architecture = {"name": name, **SMALL, "num_hidden_layers": layers}
    sizes = {"max_length": 48, "batch_tokens": 256, "total_tokens": 1600}
    return PretrainOptions(objective=ROWS[name], architecture=architecture, **(sizes | more))


def both(name: str, folders: tuple[Path, Path], tmp_path: Path, layers: int, **plan: Any) -> list[dict[str, Any]]:
    """Counts, evaluations and weights of a plain pretraining and of a compiled one."""
    found = []
    for compiled in (False, True):
        used = plan if compiled else {key: value for key, value in plan.items() if key != "use_regional_compilation"}
        options = pretrain_options(name, layers, plan={"torch_compile": compiled, "evaluate_every": 3, **used})
        out = tmp_path / str(compiled)
        counts = stage.run(options, *folders, out)
        weights = load_file(out / stage.MODEL / "model.safetensors")
        found.append({"counts": counts, "evaluations": read_evaluations(out / "evaluations.json"), "weights": weights})
    return found


class Activities(Display):
    """Keeps what a run did, one after another."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def report(self, progress: Progress) -> None:
        if progress.activity not in self.names[-1:]:
            self.names.append(progress.activity)


def assert_equal(plain: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert compiled["counts"]["steps"] == plain["counts"]["steps"] > 5
    assert compiled["weights"].keys() == plain["weights"].keys()
    for name, weight in plain["weights"].items():
        torch.testing.assert_close(
            compiled["weights"][name], weight, rtol=1e-4, atol=1e-5, msg=lambda message, name=name: f"{name}: {message}"
        )
    assert compiled["evaluations"].keys() == plain["evaluations"].keys()
    for step, values in plain["evaluations"].items():
        assert compiled["evaluations"][step] == pytest.approx(values, rel=1e-4, abs=1e-4)


def test_batches_to_compile_for_come_to_the_same(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layers are left uncompiled, which takes no time; their batches are those of a compiled training."""
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **options: compiled.append(module))
    with shown_on(shown := Activities()):
        assert_equal(*both("bert", folders, tmp_path, layers=1))
    assert compiled
    # a step may take minutes to compile, in which a count of finished steps would look like a training that hangs
    assert shown.names == ["evaluating", "training", "evaluating", "compiling", "training"]


@pytest.mark.parametrize(
    ("name", "layers"),
    [("bert", ["BertLayer"] * 3), ("albert", ["AlbertLayerGroup"]), ("electra", ["ElectraLayer"] * 6)],
)
def test_regional_compilation_has_all_layers_and_their_surroundings(
    name: str, layers: list[str], folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ELECTRA's generator has layers, too."""
    compiled: list[str] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module: compiled.append(type(module).__name__))
    stage.run(pretrain_options(name, 3, total_tokens=300, plan=REGIONAL), *folders, tmp_path / name)
    assert [kind for kind in compiled if "Layer" in kind] == layers
    assert f"{layers[0].removesuffix('LayerGroup').removesuffix('Layer')}Embeddings" in compiled
    assert "LogitsGradient" in compiled


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_regions_traced_one_by_one_come_to_the_same(
    name: str, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_the_likeliest(monkeypatch)
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(torch.nn.Module.compile, backend="aot_eager"))
    assert_equal(*both(name, folders, tmp_path, layers=2, use_regional_compilation=True))


@pytest.mark.slow
@pytest.mark.parametrize("chunk_logits", [losses.CHUNK_LOGITS, 2**14])
def test_traced_shapes_and_graphs_come_to_the_same(
    chunk_logits: int, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything of compiling but the machine code, which takes most of the time; with logits in one chunk, and in
    several, as a large vocabulary has them."""
    monkeypatch.setattr(losses, "CHUNK_LOGITS", chunk_logits)
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(torch.nn.Module.compile, backend="aot_eager"))
    torch._dynamo.utils.counters.clear()
    assert_equal(*both("bert", folders, tmp_path, layers=1))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 3, "it was compiled"
    assert not torch._dynamo.utils.counters["recompile_limit"]


@pytest.mark.slow
@pytest.mark.parametrize("max_tokens", [None, 128])
@pytest.mark.parametrize("name", ROWS)
def test_machine_code_comes_to_the_same(
    name: str, max_tokens: int | None, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_the_likeliest(monkeypatch)
    assert_equal(*both(name, folders, tmp_path, layers=2, max_tokens_per_device=max_tokens))
