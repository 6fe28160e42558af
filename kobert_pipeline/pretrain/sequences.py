"""The sentences of a shard, and which of them form a sequence.

A corpus has a billion tokens, so there is no Python loop over all sentences: where a sequence starting at any sentence
would end is computed for all of them at once with NumPy, and only the step from one sequence to the next is a loop.
"""

from typing import NamedTuple

import numpy as np

from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE, Shard


class Sentences(NamedTuple):
    """The S sentences of a shard in order: the spans of text that sequences are built from. In documents without an
    order they are paragraphs, and long ones are split.

    All (S,): `starts` and `ends` (exclusive) are positions in the shard, `documents` the start of each one's document,
    `ordered` whether that document is an ordered one, `is_split` whether this is a part of a sentence that was too
    long, and `is_first_part` whether it is a sentence's first part.
    """

    starts: np.ndarray
    ends: np.ndarray
    documents: np.ndarray
    ordered: np.ndarray
    is_split: np.ndarray
    is_first_part: np.ndarray

    @property
    def starts_document(self) -> np.ndarray:
        """(S,) bool: the first sentence of each document."""
        opens: np.ndarray = np.diff(self.documents, prepend=-1) != 0
        return opens

    @property
    def follows_gap(self) -> np.ndarray:
        """(S,) bool: the sentences that do not start where the one before them ends, because of documents that were not
        chosen; and the first of all."""
        return np.append(True, self.starts[1:] != self.ends[:-1])[: len(self.starts)]


def sentences_of(shard: Shard, ordered_room: int, unordered_room: int) -> Sentences:
    """The sentences of ordered documents and the paragraphs of the others, of chosen documents only. What is longer
    than `ordered_room` or `unordered_room` tokens is split into parts of that length."""
    # (documents,) -repeat-> (T,): the bit that counts at each token
    bits = np.where(shard.ordered, SENTENCE, PARAGRAPH).astype(np.uint8).repeat(np.diff(shard.documents))
    starts = np.flatnonzero(shard.boundaries & bits)
    ends = np.append(starts[1:], len(shard.ids))[: len(starts)]
    document = np.searchsorted(shard.documents, starts, side="right") - 1
    room = np.where(shard.ordered[document], ordered_room, unordered_room)
    # parts (S,) of each sentence, rounded up; part (sum of parts,) counts 0, 1, ... within each
    parts = -(-(ends - starts) // room)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    starts, ends, document, room, parts = (column.repeat(parts) for column in (starts, ends, document, room, parts))
    starts = starts + part * room
    sentences = Sentences(
        starts=starts,
        ends=np.minimum(starts + room, ends),
        documents=np.asarray(shard.documents)[document],
        ordered=shard.ordered[document],
        is_split=parts > 1,
        is_first_part=part == 0,
    )
    return sentences if shard.chosen is None else Sentences(*(column[shard.chosen[document]] for column in sentences))


def sequence_ends(starts: np.ndarray, ends: np.ndarray, room: np.ndarray | int, opens: np.ndarray) -> np.ndarray:
    """For each sentence, where a sequence that starts with it ends: the number of the first sentence that is not part
    of it, (S,). A sequence has at least one sentence and as many as fit into `room` tokens, but ends before the next
    sentence that `opens` marks as the start of a sequence."""
    count = len(starts)
    # barrier (S,): the next sentence that must start a sequence; the limit by length is clipped to it
    barriers = np.append(np.flatnonzero(opens), count)
    # side="right", because a sentence that opens a sequence is no barrier for itself
    barrier = barriers[np.searchsorted(barriers, np.arange(count), side="right")]
    return np.clip(np.searchsorted(ends, starts + room, side="right"), np.arange(count) + 1, barrier)


def sequence_starts(after: np.ndarray) -> np.ndarray:
    """The numbers of the sentences at which a sequence starts, (N,): the first, the one after its sequence, and so on.
    `after`: the result of `sequence_ends`, (S,)."""
    following, sentence, starts = after.tolist(), 0, []  # a list, because single elements of an array are slow to read
    while sentence < len(following):
        starts.append(sentence)
        sentence = following[sentence]
    return np.array(starts, np.int64)
