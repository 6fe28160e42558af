"""What a GPU compiles, on the CPU: whole training steps with PyTorch's operator for packed sequences, traced into
graphs without the machine code."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_steps
import pytest
import reference_kernel
import torch
from gpu_steps import FULL_PRECISION, MANY_BUCKETS, PHASES, begun, take_step, trained
from rows import sample_the_likeliest
from safetensors.torch import load_file
from torch._dynamo import lookup_backend
from torch._dynamo.utils import counters

from kobert_pipeline.files import read_json
from kobert_pipeline.pretrain import linear_cross_entropy
from kobert_pipeline.pretrain import model as pretraining
from kobert_pipeline.training.compilation import regions_of

ROWS = {
    "gpt2": "clm", "electra": "rtd", "albert": "mlm_sop", "roberta": "mlm", "modernbert": "mlm",
    "roformer": "mlm",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    reference_kernel.register()
    monkeypatch.setattr(pretraining, "uses_varlen", lambda place, plan: True)
    monkeypatch.setattr(linear_cross_entropy, "CACHED_LOGITS", 2**60)  # all rows of a chunk at once
    sample_the_likeliest(monkeypatch)
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


PRECISIONS = {"electra": "no"}
"""In bf16 a likeliest token of ELECTRA's generator becomes another by rounding; in fp32 all losses are equal."""


def compiles_to_few_graphs(name: str, objective: Any, regions: int = 1, **plan: Any) -> None:
    plain, compiled = (trained({"name": name}, objective, backend, **plan)[0] for backend in (None, "aot_eager"))
    assert len(plain) > 15
    torch.testing.assert_close(torch.tensor(compiled), torch.tensor(plain), rtol=2e-3, atol=0)
    assert not counters["graph_break"] and not counters["recompile_limit"], counters
    assert 0 < counters["stats"]["unique_graphs"] <= regions * len(PHASES)


@pytest.mark.slow
def test_a_compiled_step_has_no_break_and_at_most_one_graph_a_phase() -> None:
    compiles_to_few_graphs("bert", "mlm_nsp")


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_so_have_the_steps_of_the_other_architectures(name: str) -> None:
    compiles_to_few_graphs(name, ROWS[name], mixed_precision=PRECISIONS.get(name, "bf16"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "modernbert"])
def test_so_have_steps_with_residuals_in_16_bits(name: str) -> None:
    compiles_to_few_graphs(name, ROWS.get(name, "mlm_nsp"), fp32_residual_connection=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", *ROWS])
def test_so_have_regions_that_are_compiled_one_by_one(name: str) -> None:
    # embeddings, layers, head and loss; of ELECTRA's generator, too
    regions = 8 if name == "electra" else 4
    precision = PRECISIONS.get(name, "bf16")
    objective = ROWS.get(name, "mlm_nsp")
    compiles_to_few_graphs(name, objective, regions, use_regional_compilation=True, mixed_precision=precision)


@pytest.mark.slow
def test_regions_are_compiled_in_the_first_step_of_a_phase_and_none_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ModernBERT's first layer has no norm, and others attend to the whole sequence or to a window."""
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)
    steps, compiled_in = list[int](), list[int]()
    monkeypatch.setattr(gpu_steps, "take_step", lambda *args: (take_step(*args), steps.append(1))[0])

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        compiled_in.append(len(steps))
        return lookup_backend("aot_eager")(graph, inputs)

    architecture = {"name": "modernbert", "num_hidden_layers": 4, "local_attention": 8}
    _, schedule, module = begun(architecture, "mlm")
    assert Counter(type(region).__name__ for region in regions_of(module)) == {
        "ModernBertEmbeddings": 1, "ModernBertRotaryEmbedding": 1, "ModernBertEncoderLayer": 4,
        "ModernBertPredictionHead": 1, "GELUActivation": 1, "LogitsGradient": 2,
    }  # fmt: skip
    trained(architecture, "mlm", backend, use_regional_compilation=True)
    assert set(compiled_in) <= {0, *schedule.ends[:-1]}
    assert compiled_in.count(0) == 8, "three kinds of layers, two kinds of angles, embeddings, head and loss"
    assert counters["frames"]["total"] == counters["frames"]["ok"]
    assert len(compiled_in) > 8 < torch._dynamo.config.recompile_limit, "PyTorch's own limit is 8"


@pytest.mark.slow
def test_two_compiled_ranks_with_many_buckets_train_what_plain_ones_do(tmp_path: Path) -> None:
    """torch.compile cuts a graph where DDP begins a new bucket of gradients, so that it can send one while the next is
    computed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", gpu_steps.__file__]
    result = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    plain, compiled = (read_json(tmp_path / f"{way}.json") for way in ("plain", "compiled"))
    losses, _ = trained(MANY_BUCKETS, "mlm_nsp", None, **FULL_PRECISION)
    assert plain["losses"] == pytest.approx(losses, rel=1e-5)
    assert compiled["losses"] == pytest.approx(plain["losses"], rel=1e-5)
    weights, expected = (load_file(tmp_path / f"{way}.safetensors") for way in ("compiled", "plain"))
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=2e-6)
    assert not compiled["breaks"] and 1 < compiled["graphs"] <= len(PHASES)
    assert compiled["parts"] > 2 * compiled["graphs"]
