"""The memory of a training step, its peak and what is written to it, counted on fake tensors: shapes and types without
numbers.

They are on a CPU, with the attention kernel and the chunks of logits of a GPU. What CUDA's autocast does otherwise does
not matter for BERT: its peaks on fake CUDA tensors are within 2 % (docs/results/engine).
"""

import weakref
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.pretrain import linear_cross_entropy, losses
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.memory import MemoryModel
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.training.device import make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.loop import take_step
from kobert_pipeline.training.optimizer import optimizer_of

GIB = 2**30


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that exist, their largest number so far, and those of all tensors that were ever
    made (`written`)."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self.peak, self.written = 0, 0, 0
        self.sizes: dict[int, int] = {}

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.sizes:  # else a view
            self.sizes[storage._cdata] = storage.nbytes()
            self.live += storage.nbytes()
            self.written += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self.remove, storage._cdata)

    def remove(self, key: int) -> None:
        self.live -= self.sizes.pop(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return True  # the loop asks whether loss and gradient are finite
        result = func(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        return result


def batch_of(options: PretrainOptions, tokens: int, vocab_size: int) -> Batch:
    """Full sequences of `tokens` tokens in all, of which the objective's share is predicted."""
    count = tokens // options.max_length
    predicted = np.arange(round(tokens * options.objective.predicted_share))
    return Batch(
        input_ids=np.full(tokens, vocab_size - 1),
        token_type_ids=np.zeros(tokens, np.int64),
        position_ids=np.tile(np.arange(options.max_length), count),
        lengths=np.full(count, options.max_length),
        masked_positions=predicted,
        labels=np.full(len(predicted), vocab_size - 1),
        next_sentence_label=np.zeros(count, np.int64),
    )


def counted(options: PretrainOptions, tokens: int, vocab_size: int) -> LiveBytes:
    """The counts of the second step, when the optimizer has its moments."""
    accelerator, fake = make_accelerator(options.plan), FakeTensorMode(allow_non_fake_inputs=True)
    # on one thread, so that the mode sees the backward pass too
    with torch.autograd.set_multithreading_enabled(False), fake, LiveBytes() as live:
        architecture = options.architecture
        model = architecture.model(architecture.config(vocab_size), options.objective.head)
        module = LossModule(model, options.objective, architecture, options.plan.fp32_residual_connection)
        optimizer = optimizer_of(module, options.plan)
        finite = FiniteCheck(optimizer, accelerator.device)
        part = to_device(batch_of(options, tokens, vocab_size), varlen=True)
        for _ in range(2):
            live.peak = live.written = 0
            take_step(accelerator, module, optimizer, [part], options.plan, finite)
    return live


@pytest.fixture(autouse=True)
def _on_a_cpu_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(transformers.PreTrainedModel, "initialize_weights", lambda self: None)
    monkeypatch.setattr(linear_cross_entropy, "CACHED_LOGITS", losses.CHUNK_LOGITS)  # a chunk at once


@pytest.mark.slow
def test_a_part_of_recipe_base_fits_an_h100_with_either_vocabulary() -> None:
    recipe, _ = plan("base", None, None, None)
    options, tokens = recipe.pretrain, 131_072
    for vocab_size, fp32_residuals, most in ((64_000, True, 55), (128_000, True, 59), (64_000, False, 45)):
        plan_of_these = options.plan.model_copy(update={"fp32_residual_connection": fp32_residuals})
        peak = counted(options.model_copy(update={"plan": plan_of_these}), tokens, vocab_size).peak
        model = MemoryModel(options.architecture, options.objective, vocab_size, True, fp32_residuals=fp32_residuals)
        assert peak < most * GIB
        assert peak == pytest.approx(model.peak(tokens).total, rel=0.05)


WRITTEN = {
    ("bert", True): ("mlm_nsp", 1345), ("bert", False): ("mlm_nsp", 913),
    ("modernbert", True): ("mlm", 1523), ("modernbert", False): ("mlm", 1237),
    ("gpt2", True): ("clm", 1738), ("gpt2", False): ("clm", 1451),
}  # fmt: skip
"""{(architecture, whether residuals are fp32): (objective, KiB that a step writes per token)}, counted with torch 2.13
and transformers 5.23. ALBERT and ELECTRA are missing, because their residuals are bf16 on a CPU anyway."""
SLACK = 25
"""KiB per token that a step may write more: less than the 36 of a copy of the hidden states that creeps into each of
twelve layers, in bf16, forward and backward."""


@pytest.mark.parametrize("name, fp32_residuals", WRITTEN)
def test_a_step_writes_no_more_to_memory_than_it_did(name: str, fp32_residuals: bool) -> None:
    """Counted are the bytes of all tensors that the operators of a step make, forward, backward and optimizer. Views,
    and what is changed in place, count nothing. On fake CUDA tensors (docs/results/engine) BERT's step writes as
    much."""
    objective, before = WRITTEN[name, fp32_residuals]
    masked = {} if objective == "clm" else {"mlm_probability": 0.2}
    sizes = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}
    options = PretrainOptions(
        objective={"name": objective, **masked}, architecture={"name": name, **sizes}, batch_tokens=65_536,
        plan={"mixed_precision": "bf16", "fp32_residual_connection": fp32_residuals},
    )  # fmt: skip
    written = counted(options, 65_536, 64_000).written / 65_536 / 2**10
    assert 0.9 * before < written < before + SLACK
