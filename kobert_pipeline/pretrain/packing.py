"""Sequences -> one flat run of tokens with [CLS], [SEP], segments and positions, and the grouping of sequences into
batches."""

from typing import NamedTuple

import numpy as np

from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import EOJEOL, MORPHEME, Shards, ranges
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, SEP_ID

SPECIAL = MORPHEME | EOJEOL
"""Border bits of a special token: it begins a unit of its own and ends the one before."""


class Packed(NamedTuple):
    """T tokens of n sequences: all (T,) but `lengths` (n,). `maskable` is False at special tokens."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    boundaries: np.ndarray
    maskable: np.ndarray
    lengths: np.ndarray


def pack(shards: Shards, sequences: Sequences, rows: np.ndarray) -> Packed:
    """Lay the sequences `rows` out behind one another: [CLS] A [SEP] or [CLS] A [SEP] B [SEP], with a [SEP] more at
    every border of documents inside A."""
    runs = sequences.text_spans
    counts = runs.bounds[rows + 1] - runs.bounds[rows]
    chosen = ranges(runs.bounds[rows], counts)  # (R,) the runs of text in these sequences
    text = runs.ends[chosen] - runs.starts[chosen]
    firsts = np.cumsum(counts) - counts
    opens = np.zeros(len(chosen), np.int64)
    opens[firsts] = 1  # the first run of a sequence has a [CLS] before it, each a [SEP] behind it
    sizes = opens + text + 1
    begins = np.cumsum(sizes) - sizes
    total, places = int(sizes.sum()), ranges(begins + opens, text)
    input_ids, boundaries, maskable = np.full(total, SEP_ID), np.full(total, SPECIAL, np.uint8), np.zeros(total, bool)
    input_ids[begins[firsts]] = CLS_ID
    input_ids[places], boundaries[places] = shards.gather(runs.starts[chosen], text)
    maskable[places] = True
    lengths = np.add.reduceat(sizes, firsts)
    return Packed(
        input_ids=input_ids,
        token_type_ids=np.repeat(runs.second[chosen].astype(np.int64), sizes),
        position_ids=ranges(np.zeros(len(rows), np.int64), lengths),
        boundaries=boundaries,
        maskable=maskable,
        lengths=lengths,
    )


def group(lengths: np.ndarray, order: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Cut `order` into batches of at most `tokens` tokens (a longer sequence is a batch of its own)."""
    totals = np.cumsum(lengths[order])
    batches, start, before = [], 0, 0
    while start < len(order):
        end = max(int(np.searchsorted(totals, before + tokens, side="right")), start + 1)
        batches.append(order[start:end])
        start, before = end, int(totals[end - 1])
    return batches
