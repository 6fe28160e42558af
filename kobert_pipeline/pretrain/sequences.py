"""The stretches that sequences are made of: sentences of ordered documents, paragraphs of the others, and which of them
go together.

A corpus has a billion tokens, so nothing here takes a Python step for each sentence: where a sequence that begins at
any unit would end is found for all units at once, and only the way from one beginning to the next is walked.
"""

from typing import NamedTuple

import numpy as np

from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE, Shard


class Units(NamedTuple):
    """U stretches of a shard in order, (U,) each: where they start and end (exclusive), where their document starts,
    whether it is ordered, whether they are parts of a stretch that was too long (`cut`), and whether they begin that
    stretch (`first`)."""

    starts: np.ndarray
    ends: np.ndarray
    documents: np.ndarray
    ordered: np.ndarray
    cut: np.ndarray
    first: np.ndarray

    @property
    def open_documents(self) -> np.ndarray:
        """(U,) bool: the units that begin a document."""
        opens: np.ndarray = np.diff(self.documents, prepend=-1) != 0
        return opens


def units_of(shard: Shard, ordered_room: int, unordered_room: int) -> Units:
    """The sentences of ordered documents and the paragraphs of the others, cut into parts of `ordered_room` or
    `unordered_room` tokens where they are longer."""
    bits = np.where(shard.ordered, SENTENCE, PARAGRAPH).astype(np.uint8).repeat(np.diff(shard.documents))
    starts = np.flatnonzero(shard.boundaries & bits)
    ends = np.append(starts[1:], len(shard.ids))[: len(starts)]
    document = np.searchsorted(shard.documents, starts, side="right") - 1
    room = np.where(shard.ordered[document], ordered_room, unordered_room)
    parts = -(-(ends - starts) // room)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    starts, ends, document, room, parts = (column.repeat(parts) for column in (starts, ends, document, room, parts))
    starts = starts + part * room
    return Units(
        starts,
        np.minimum(starts + room, ends),
        np.asarray(shard.documents)[document],
        shard.ordered[document],
        parts > 1,
        part == 0,
    )


def fitting(starts: np.ndarray, ends: np.ndarray, room: np.ndarray | int, opens: np.ndarray) -> np.ndarray:
    """For each unit the first one behind it that no longer goes with it: (U,). As many go together as lie within
    `room`, at least one; those that `opens` begin anew."""
    count = len(starts)
    barriers = np.append(np.flatnonzero(opens), count)
    barrier = barriers[np.searchsorted(barriers, np.arange(count), side="right")]
    return np.clip(np.searchsorted(ends, starts + room, side="right"), np.arange(count) + 1, barrier)


def sequence_starts(after: np.ndarray) -> np.ndarray:
    """The units that begin a sequence: the first, the one `after` it, the one after that, and so on. (U,) -> (H,)"""
    follow, place, heads = after.tolist(), 0, []
    while place < len(follow):
        heads.append(place)
        place = follow[place]
    return np.array(heads, np.int64)
