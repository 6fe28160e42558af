"""The peak memory of pretraining on a GPU, estimated from shapes alone.

The peak is at the end of the forward pass, in a chunk of logits. Three things exist then: weights and what the
optimizer keeps of them; what every layer has saved for its backward pass (`Architecture.activation_bytes`), which grows
with the number of tokens processed at once; and the matrices of the chunk. Everything else (inputs, embeddings, the
prediction head before its output layer, gradients on their way) is a few percent. The estimate is one of code that is
not compiled; torch.compile saves less.
"""

from bisect import bisect_right
from typing import NamedTuple

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.losses import chunk_rows
from kobert_pipeline.pretrain.objective import Objective

STATE_BYTES, COPY_BYTES = 16, 2
"""Bytes per parameter: of weight, gradient and AdamW's two moments in fp32; of the 16-bit copy that the backward pass
needs."""
MOMENT_BYTES = 4
"""Bytes per parameter that Muon saves: it has one moment for the matrices of hidden layers."""
GATHERED_BYTES, GATHERED_LAYERS = 8, 2
"""Bytes per parameter that FSDP has gathered: of parameters outside the layers, for weight and gradient in fp32; of so
many layers, the one that is computed and the next, for both in bf16 and the gradient in fp32, to be reduced."""
LOGIT_BYTES = 10
"""Bytes per logit of a chunk: in 16 bits, in fp32, and its log-probability, which becomes the gradient in place."""
FULL_LOGIT_BYTES = 8
"""Bytes per logit without mixed precision, where no copy is made."""
FULL_PRECISION = 1.6
"""How much more activations take without mixed precision: less than twice, since the inputs of layer norms are fp32 in
both and no 16-bit copies are made."""
# assumed: what CUDA's context and fragmentation take was not measured (docs/results/engine)
USABLE = 0.9
"""Share of a GPU's memory that tensors can take; the rest is for CUDA's context, workspaces and fragmentation."""
TOKENS_MULTIPLE, MOST_TOKENS = 1024, 2**24
"""The numbers of tokens that are tried for whether they fit: multiples of the first up to the second."""


class PeakMemory(NamedTuple):
    """Bytes at the peak, by what takes them; `weights` with gradients and optimizer."""

    weights: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """The bytes of all three."""
        return sum(self)


class MemoryModel(NamedTuple):
    """What peak memory depends on, besides the number of tokens processed at once."""

    architecture: Architecture
    objective: Objective
    vocab_size: int
    bf16: bool
    muon: bool = False
    shards: int = 1
    """The number of ranks over which FSDP shards weights, gradients and optimizer; 1: without it."""
    fp32_residuals: bool = True
    """Whether residuals are fp32 beside bf16, too (`plan.fp32_residual_connection`)."""

    def peak(self, tokens: int) -> PeakMemory:
        """The peak where `tokens` tokens are processed at once: the part of a step's batch that a rank takes between
        two backward passes."""
        head, predicted = self.objective.head, round(tokens * self.objective.predicted_share)
        rows = min(predicted, chunk_rows(self.vocab_size))
        parameters = self.architecture.parameter_count(self.vocab_size, head)
        # the smaller one, since `encoder_weights` counts a layer that is shared each time it is used
        encoder = parameters - self.architecture.head_weights(self.vocab_size, head)
        hidden = min(encoder, self.architecture.encoder_weights(head))
        weights = (STATE_BYTES * parameters - MOMENT_BYTES * hidden * self.muon) // self.shards
        if self.shards > 1:
            gathered = parameters - hidden + GATHERED_LAYERS * hidden // self.architecture.num_hidden_layers
            weights += (GATHERED_BYTES + COPY_BYTES) * gathered
        else:
            weights += COPY_BYTES * parameters
        per_number = tokens * (1.0 if self.bf16 else FULL_PRECISION)
        at_logits = round(per_number * self.architecture.activation_bytes_at_logits(head, self.fp32_residuals))
        in_all = round(per_number * self.architecture.activation_bytes(head, self.fp32_residuals))
        return max(
            PeakMemory(weights, at_logits, rows * self.vocab_size * (LOGIT_BYTES if self.bf16 else FULL_LOGIT_BYTES)),
            PeakMemory(weights, in_all, 0),  # may be larger with a discriminator
            key=lambda peak: peak.total,
        )

    def tokens_that_fit(self, gpu_bytes: float) -> int:
        """How many tokens can be processed at once on a GPU with `gpu_bytes` of memory, rounded down to a multiple of
        1,024."""
        counts = range(TOKENS_MULTIPLE, MOST_TOKENS + 1, TOKENS_MULTIPLE)
        return TOKENS_MULTIPLE * bisect_right(counts, USABLE * gpu_bytes, key=lambda tokens: self.peak(tokens).total)
