"""What a GPU compiles, on the CPU: whole training steps in bf16 with PyTorch's operator for packed sequences, traced
into graphs without the machine code."""

from collections.abc import Iterator
from typing import Any

import pytest
import reference_kernel
import torch
from rows import SMALL, VOCAB_SIZE, sample_the_likeliest
from synthetic_shards import articles, reviews, shards_of
from torch._dynamo.utils import counters

from kobert_pipeline.pretrain import model as pretraining
from kobert_pipeline.pretrain.model import LossModule, batches
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.pretrain.stage import PretrainOptions
from kobert_pipeline.training.device import make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.loop import take_step
from kobert_pipeline.training.optimizer import optimizer_of
from kobert_pipeline.training.prefetch import prefetch

PHASES = [
    {"share": 0.1, "batch_tokens": 256},
    {"share": 0.2, "batch_tokens": 512},
    {"share": 0.3, "batch_tokens": 1024},
    {"share": 0.3, "batch_tokens": 2048},
    {"share": 0.1, "batch_tokens": 2048, "max_length": 64},
]
"""As in recipe `base`: batches grow, and the last phase has longer sequences."""
ROWS = {"gpt2": "clm", "electra": "rtd", "albert": "mlm_sop", "roberta": "mlm", "modernbert": "mlm"}


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    reference_kernel.register()
    monkeypatch.setattr(pretraining, "uses_varlen", lambda place, plan: True)
    sample_the_likeliest(monkeypatch)
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


def losses(name: str, objective: str, compiled: bool) -> list[float]:
    """The loss of every step of a small schedule."""
    plan = {"mixed_precision": "bf16", "torch_compile": True, "max_tokens_per_device": 1024}
    options = PretrainOptions(
        objective=objective, architecture={"name": name, **SMALL}, max_length=48, batch_tokens=256, total_tokens=26_000,
        phases=PHASES, plan=plan,
    )  # fmt: skip
    schedule = PhaseSchedule(shards_of(articles(40), reviews(10)), options.parts(), VOCAB_SIZE, 1)
    torch.manual_seed(0)
    model = options.architecture.model(options.architecture.config(VOCAB_SIZE), options.objective.head)
    module: Any = LossModule(model, options.objective, options.architecture)
    accelerator, optimizer = make_accelerator(options.plan), optimizer_of(module, options.plan)
    if compiled:
        module.compile(backend="aot_eager")
    module, optimizer = accelerator.prepare(module, optimizer)
    finite = FiniteCheck(optimizer.optimizer, accelerator.device)
    steps = prefetch(batches(schedule, options.plan), 0, schedule.steps, accelerator, options.plan, schedule.parts_at)
    return [float(take_step(accelerator, module, optimizer, parts, options.plan, finite)[0]) for parts in steps]


def compiles_to_few_graphs(name: str, objective: str) -> None:
    plain, compiled = (losses(name, objective, compiled) for compiled in (False, True))
    assert len(plain) > 15
    torch.testing.assert_close(torch.tensor(compiled), torch.tensor(plain), rtol=2e-3, atol=0)
    assert not counters["graph_break"] and not counters["recompile_limit"], counters
    assert 1 < counters["stats"]["unique_graphs"] <= len(PHASES)


def test_a_compiled_step_has_no_break_and_at_most_one_graph_a_phase() -> None:
    compiles_to_few_graphs("bert", "mlm_nsp")


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_so_have_the_steps_of_the_other_architectures(name: str) -> None:
    compiles_to_few_graphs(name, ROWS[name])
