"""Sequences -> one flat array of tokens with [CLS], [SEP], segments and positions; and the grouping of sequences into
batches."""

from typing import NamedTuple

import numpy as np

from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import EOJEOL, MORPHEME, Shards, ranges

SPECIAL_TOKEN_BOUNDARY = MORPHEME | EOJEOL
"""The boundary bits of a special token: it is a unit of its own, whatever is masked together."""


class Packed(NamedTuple):
    """T tokens of n sequences: `lengths` is (n,), all other arrays (T,). `maskable` is False at special tokens."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    boundaries: np.ndarray
    maskable: np.ndarray
    lengths: np.ndarray


def pack(shards: Shards, sequences: Sequences, rows: np.ndarray) -> Packed:
    """The sequences `rows` one after another, each as [CLS] A [SEP] or [CLS] A [SEP] B [SEP], with another [SEP] at
    every document boundary inside A."""
    # A, B of one sequence -> [CLS] A1 A2 [SEP] B1 [SEP]
    #      sizes per span  ->  4 (with [CLS])    2
    spans = sequences.text_spans
    counts = spans.bounds[rows + 1] - spans.bounds[rows]
    chosen = ranges(spans.bounds[rows], counts)  # (R,) the spans of these sequences
    text = spans.ends[chosen] - spans.starts[chosen]
    firsts = np.cumsum(counts) - counts
    # every span has a [SEP] after it, and the first of a sequence a [CLS] before it
    has_cls = np.zeros(len(chosen), np.int64)
    has_cls[firsts] = 1
    sizes = has_cls + text + 1
    begins = np.cumsum(sizes) - sizes
    total, places = int(sizes.sum()), ranges(begins + has_cls, text)
    # filled with [SEP], and then all but the [SEP]s is overwritten
    input_ids, boundaries = np.full(total, shards.special.sep), np.full(total, SPECIAL_TOKEN_BOUNDARY, np.uint8)
    input_ids[begins[firsts]] = shards.special.cls
    input_ids[places], boundaries[places] = shards.gather(spans.starts[chosen], text)
    maskable = np.zeros(total, bool)
    maskable[places] = True
    # every sequence has a span; of an empty group `reduceat` would give the next group's first size
    lengths = np.add.reduceat(sizes, firsts)
    return Packed(
        input_ids=input_ids,
        # the [SEP] after a segment has the segment's type, as in BERT
        token_type_ids=np.repeat(spans.second[chosen].astype(np.int64), sizes),
        position_ids=ranges(np.zeros(len(rows), np.int64), lengths),
        boundaries=boundaries,
        maskable=maskable,
        lengths=lengths,
    )


def group(lengths: np.ndarray, order: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Split `order`, numbers of sequences, into batches of at most `tokens` tokens; a longer sequence is a batch of its
    own."""
    # sequences stay in random order, since packed batches have no padding that sorting by length could save
    totals = np.cumsum(lengths[order])
    batches, start, before = [], 0, 0
    while start < len(order):
        end = max(int(np.searchsorted(totals, before + tokens, side="right")), start + 1)
        batches.append(order[start:end])
        start, before = end, int(totals[end - 1])
    return batches
