"""Sequences -> one flat run of pieces with [CLS], [SEP], segments and positions, and the grouping of sequences into batches."""

from typing import NamedTuple

import numpy as np

from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import EOJEOL, MORPHEME, Shards
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, SEP_ID

SPECIAL = MORPHEME | EOJEOL
"""Border bits of a special token: it begins a unit of its own and ends the one before."""


class Packed(NamedTuple):
    """T pieces of n sequences: all (T,) but `lengths` (n,). `maskable` is False at special tokens."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    borders: np.ndarray
    maskable: np.ndarray
    lengths: np.ndarray


def pack(shards: Shards, sequences: Sequences, rows: np.ndarray) -> Packed:
    """Lay the sequences `rows` out behind one another: [CLS] A [SEP] or [CLS] A [SEP] B [SEP], with a [SEP] more at every border of
    documents inside A."""
    ids: list[np.ndarray] = []
    borders: list[np.ndarray] = []
    segments: list[int] = []  # lengths of runs with the same token type, A and B in turn
    cls, sep, special = np.array([CLS_ID]), np.array([SEP_ID]), np.array([SPECIAL], np.uint8)
    for row in rows:
        (a_start, a_end), (b_start, b_end) = sequences.a[row], sequences.b[row]
        a_ids, a_borders = shards.pieces(a_start, a_end)
        places = [place - a_start for place in sequences.separated.get(int(row), ())]
        ids.append(cls)
        borders.append(special)
        parts = zip(np.split(a_ids, places), np.split(a_borders, places), strict=True) if places else [(a_ids, a_borders)]
        for part_ids, part_borders in parts:
            ids += [part_ids, sep]
            borders += [part_borders, special]
        segments += [len(a_ids) + 2 + len(places), 0]
        if b_end > b_start:
            b_ids, b_borders = shards.pieces(b_start, b_end)
            ids += [b_ids, sep]
            borders += [b_borders, special]
            segments[-1] = len(b_ids) + 1
    lengths = np.array(segments, np.int64).reshape(-1, 2).sum(1)
    input_ids = np.concatenate(ids).astype(np.int64)
    return Packed(
        input_ids=input_ids,
        token_type_ids=np.repeat(np.tile([0, 1], len(rows)), segments),
        position_ids=np.arange(len(input_ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths),
        borders=np.concatenate(borders),
        maskable=(input_ids != CLS_ID) & (input_ids != SEP_ID),
        lengths=lengths,
    )


def group(lengths: np.ndarray, order: np.ndarray, pieces: int) -> list[np.ndarray]:
    """Cut `order` into batches of at most `pieces` pieces (a longer sequence is a batch of its own)."""
    batches, start, total = [], 0, 0
    for i, length in enumerate(lengths[order].tolist()):
        if total + length > pieces and i > start:
            batches.append(order[start:i])
            start, total = i, 0
        total += length
    batches.append(order[start:])
    return batches
