"""`Batch`: sequences packed one after another without padding.

A step's batch may be split into parts, which are computed one after another or by several ranks. Each part knows the
denominators of the whole step, so that the losses of the parts add up to the loss of the whole.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX, PAD_ID


class LossDenominators(NamedTuple):
    """What the loss sums of a step are divided by: the numbers of its tokens, labels and sequence pairs."""

    tokens: float
    labels: float
    pairs: float


INFINITE_DENOMINATORS = LossDenominators(*[float("inf")] * 3)
"""Denominators of a placeholder part, which is computed only because every rank must take part in the step: its losses
become 0."""


@dataclass(frozen=True)
class Batch:
    """n sequences with T tokens in total, of which K are to be predicted.

    `input_ids`, `token_type_ids`, `position_ids`: (T,) int64. `lengths`: (n,) tokens of each sequence.
    `masked_positions`: (K,) positions among the T tokens, ascending. `labels`: (K,) the tokens to predict there.
    `next_sentence_label`: (n,) 0 next or in order, 1 random or swapped, -100 no pair. `step_denominators`: the
    denominators of the whole step, if this is a part of one.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    lengths: np.ndarray
    masked_positions: np.ndarray
    labels: np.ndarray
    next_sentence_label: np.ndarray
    step_denominators: LossDenominators | None = None

    @property
    def starts(self) -> np.ndarray:
        """(n,) the position of each sequence's first token, its [CLS]."""
        # sequences of length 0, which `pad_to` adds at the end, would start after the last token
        starts: np.ndarray = np.minimum(np.cumsum(self.lengths) - self.lengths, len(self.input_ids) - 1)
        return starts

    @property
    def denominators(self) -> LossDenominators:
        """The denominators of the whole step, whether this batch is all of it or a part."""
        pairs = int(np.count_nonzero(self.next_sentence_label != IGNORE_INDEX))
        return self.step_denominators or LossDenominators(len(self.input_ids), len(self.labels), pairs)

    def part(self, index: int, parts: int) -> "Batch":
        """Part `index` (from 0) of `parts`: whole sequences, with about the same number of tokens in each part."""
        ends = np.cumsum(self.lengths)
        # the sequence in which each share of the tokens ends; it goes to the part before the border
        bounds = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts, side="left")
        edges = [0, *np.minimum(bounds + 1, len(ends)).tolist(), len(ends)]
        left, right = edges[index : index + 2]
        return self._slice(left, right) if left < right else self._placeholder_part()

    def _placeholder_part(self) -> "Batch":
        """One sequence whose losses become 0, for a rank that is left without sequences."""
        # where the step has no pairs its other parts log NaN for them, and so must this one: 0 / 0
        nothing = {} if self.denominators.pairs else {"pairs": 0}
        return replace(self._slice(0, 1), step_denominators=INFINITE_DENOMINATORS._replace(**nothing))

    def _slice(self, left: int, right: int) -> "Batch":
        """Sequences `left` to `right` (exclusive)."""
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
            step_denominators=self.denominators,
        )

    def pad_to(
        self, tokens: int, max_length: int, labels: int = 256, sequences: int = 256, pad_id: int = PAD_ID
    ) -> "Batch":
        """This batch with its numbers of tokens, labels and sequences rounded up to multiples of `tokens`, `labels` and
        `sequences`, so that batches have one shape to compile, or few.

        Sequences of [PAD], of at most `max_length` tokens each, are added at the end, and then empty ones; the added
        labels are ignored by losses and point at the last [PAD].
        """
        more = -len(self.input_ids) % tokens or tokens  # at least one [PAD], for the added labels to point at
        # several sequences and not one, because the model has no positions beyond its longest sequence
        lengths = [max_length] * (more // max_length) + [more % max_length] * (more % max_length > 0)
        rows = -(len(self.lengths) + len(lengths)) % sequences
        missing = -len(self.labels) % labels
        positions = np.concatenate([np.arange(length) for length in lengths])
        return Batch(
            input_ids=np.append(self.input_ids, np.full(more, pad_id)),
            token_type_ids=np.append(self.token_type_ids, np.zeros(more, np.int64)),
            position_ids=np.append(self.position_ids, positions),
            lengths=np.concatenate([self.lengths, lengths, np.zeros(rows, np.int64)]),
            masked_positions=np.append(self.masked_positions, np.full(missing, len(self.input_ids) + more - 1)),
            labels=np.append(self.labels, np.full(missing, IGNORE_INDEX)),
            next_sentence_label=np.append(self.next_sentence_label, np.full(len(lengths) + rows, IGNORE_INDEX)),
            # counted before the padding, which the losses are not divided by
            step_denominators=self.denominators,
        )
