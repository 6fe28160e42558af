"""The noun of pretraining: a `Batch`, sequences packed behind one another without padding.

A step's batch may be taken in parts, one after the other or by several processes. A part knows what the whole step
holds, so the losses of the parts add up to the loss of the whole.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kobert_pipeline.tokenizer.special_tokens import PAD_ID

IGNORE_INDEX = -100
"""A label that no loss counts (PyTorch's and HF's number)."""


class LossDenominators(NamedTuple):
    """What sums over a step are divided by: its tokens, those to predict, and its pairs."""

    tokens: float
    labels: float
    pairs: float


NOTHING = LossDenominators(float("inf"), float("inf"), float("inf"))
"""Of a part that only keeps a process in step with the others: whatever it sums up counts nothing."""


@dataclass(frozen=True)
class Batch:
    """n sequences of T tokens in all, of which K are to be predicted.

    `input_ids`, `token_type_ids`, `position_ids`: (T,) int64. `lengths`: (n,) tokens of each sequence.
    `masked_positions`: (K,) places among the T, ascending. `labels`: (K,) the tokens that stood there.
    `next_sentence_label`: (n,) 0 next, 1 random, -100 no pair. `step`: the counts of the whole step where this is a
    part of one.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    lengths: np.ndarray
    masked_positions: np.ndarray
    labels: np.ndarray
    next_sentence_label: np.ndarray
    step: LossDenominators | None = None

    @property
    def starts(self) -> np.ndarray:
        """(n,) where each sequence begins: its [CLS]."""
        starts: np.ndarray = np.minimum(np.cumsum(self.lengths) - self.lengths, len(self.input_ids) - 1)
        return starts

    @property
    def counts(self) -> LossDenominators:
        """What the step holds of which this is the whole or a part."""
        pairs = int(np.count_nonzero(self.next_sentence_label != IGNORE_INDEX))
        return self.step or LossDenominators(len(self.input_ids), len(self.labels), pairs)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything by name, `starts` included."""
        return {name: array for name, array in vars(self).items() if name != "step"} | {"starts": self.starts}

    def part(self, number: int, parts: int) -> "Batch":
        """Part `number` (from 0) of `parts`: whole sequences, with about equally many tokens in each part."""
        ends = np.cumsum(self.lengths)
        bounds = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts, side="left")
        edges = [0, *np.minimum(bounds + 1, len(ends)).tolist(), len(ends)]
        left, right = edges[number : number + 2]
        return self._part(left, right) if left < right else self._nothing()

    def _nothing(self) -> "Batch":
        """One sequence that counts nothing. Without a pair in the whole step it logs nothing of pairs either, as all
        its parts do."""
        return replace(self._part(0, 1), step=NOTHING if self.counts.pairs else NOTHING._replace(pairs=0))

    def _part(self, left: int, right: int) -> "Batch":
        start, end = int(self.starts[left]), int(self.starts[right - 1] + self.lengths[right - 1])
        first, last = np.searchsorted(self.masked_positions, (start, end)).tolist()
        return Batch(
            input_ids=self.input_ids[start:end],
            token_type_ids=self.token_type_ids[start:end],
            position_ids=self.position_ids[start:end],
            lengths=self.lengths[left:right],
            masked_positions=self.masked_positions[first:last] - start,
            labels=self.labels[first:last],
            next_sentence_label=self.next_sentence_label[left:right],
            step=self.counts,
        )

    def pad_to(self, tokens: int, max_length: int, multiple: int = 256) -> "Batch":
        """The same rounded up to `tokens` tokens (or a multiple of that), so that one shape is compiled for all:
        sequences of [PAD] behind the others (one at least, of at most `max_length` tokens each), and up to a `multiple`
        labels that no loss counts, which point at the last of them."""
        more = -len(self.input_ids) % tokens or tokens
        lengths = [max_length] * (more // max_length) + [more % max_length] * (more % max_length > 0)
        rows = -(len(self.lengths) + len(lengths)) % multiple
        missing = -len(self.labels) % multiple
        none = np.zeros(more, np.int64)
        return Batch(
            input_ids=np.append(self.input_ids, np.full(more, PAD_ID)),
            token_type_ids=np.append(self.token_type_ids, none),
            position_ids=np.append(self.position_ids, np.concatenate([np.arange(length) for length in lengths])),
            lengths=np.concatenate([self.lengths, lengths, np.zeros(rows, np.int64)]),
            masked_positions=np.append(self.masked_positions, np.full(missing, len(self.input_ids) + more - 1)),
            labels=np.append(self.labels, np.full(missing, IGNORE_INDEX)),
            next_sentence_label=np.append(self.next_sentence_label, np.full(len(lengths) + rows, IGNORE_INDEX)),
            step=self.counts,
        )
