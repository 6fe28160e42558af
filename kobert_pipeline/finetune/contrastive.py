"""The loss of a sentence encoder, and how a batch that is too large for a device is computed in chunks."""

from typing import Any

import torch
from torch.nn.functional import cross_entropy, normalize
from torch.utils.checkpoint import checkpoint

from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.finetune.model import drop_unsupported_inputs
from kobert_pipeline.finetune.pooling import SentenceVectors


class ContrastiveModule(torch.nn.Module):
    """`forward(batch)` is the loss `info_nce` of a batch, times the batch's `share` of its step.

    The loss compares all texts of a batch, which can therefore not be split as others are. Instead at most `max_tokens`
    tokens, padding included, are computed at once by gradient caching (Gao et al. 2021, *Scaling Deep Contrastive
    Learning Batch Size under Memory Limited Setup*): only vectors are kept of a chunk of rows, and each chunk is
    computed a second time, with the same dropout, once the gradient of its vectors is known.
    """

    def __init__(self, model: Any, task: Contrastive, max_tokens: int | None = None) -> None:
        super().__init__()
        self.vectors = SentenceVectors(model, task.pooling)
        self.temperature, self.max_tokens = task.temperature, max_tokens

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, {}): there is nothing else to log."""
        inputs = {name: tensor for name, tensor in batch.items() if name != "share"}
        vectors = self._vectors(drop_unsupported_inputs(self.vectors, inputs))
        # in bf16 a cosine would be wrong by up to 0.004, which the temperature multiplies
        with torch.autocast(vectors.device.type, enabled=False):
            loss = info_nce(vectors, text_numbers(batch["input_ids"]), self.temperature)
        return loss * batch["share"], {}

    def _vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The vectors (B, C, H) of inputs (B, C, L)."""
        rows, choices, width = inputs["input_ids"].shape
        at_once = max(1, self.max_tokens // (choices * width)) if self.max_tokens else rows
        if at_once >= rows:
            return self.vectors(**inputs)["vectors"]
        chunks = zip(*(tensor.split(at_once) for tensor in inputs.values()), strict=True)
        # `checkpoint` computes a chunk again in the backward pass, from the random state that it had
        # not reentrant: for inputs without gradients, such as token ids, the reentrant one computes none
        outputs = [
            checkpoint(self.vectors, use_reentrant=False, **dict(zip(inputs, chunk, strict=True))) for chunk in chunks
        ]
        return torch.cat([output["vectors"] for output in outputs])


def text_numbers(input_ids: torch.Tensor) -> torch.Tensor:
    """A number for each text, the same for equal texts: (B, C) for padded inputs (B, C, L)."""
    _, numbers = input_ids.flatten(0, 1).unique(dim=0, return_inverse=True)
    return numbers.unflatten(0, input_ids.shape[:2])


def info_nce(vectors: torch.Tensor, texts: torch.Tensor, temperature: float) -> torch.Tensor:
    """The mean cross-entropy of finding, by the cosine, the second text of each row among the texts of all rows except
    the first ones.

    `vectors` (B, C, H) are the vectors of a text, of the one that belongs to it, and of C - 2 others; `texts` (B, C)
    has the same number for the same text. A text is never compared with itself, nor with a copy of the text that
    belongs to it.
    """
    unit = normalize(vectors, dim=-1)
    # (B, C - 1, H) -> ((C - 1) * B, H): the first B belong to the rows
    candidates, numbers = unit[:, 1:].transpose(0, 1).flatten(0, 1), texts[:, 1:].T.flatten()
    scores = unit[:, 0] @ candidates.T / temperature  # (B, (C - 1) * B)
    same = (numbers == texts[:, :1]) | (numbers == texts[:, 1:2])
    # a row's own pair is its label, so it stays, also where it is the text itself (SimCSE)
    same[:, : len(texts)].fill_diagonal_(False)
    return cross_entropy(scores.masked_fill(same, -torch.inf), torch.arange(len(texts), device=scores.device))
