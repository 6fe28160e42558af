"""Recurring spans, the questions of Splinter (Ram et al. 2021): runs of tokens that occur several times in a text. All
occurrences of a span but one are replaced by a question token each, which asks for the one that remains.

    오바마 는 1961 년 에 ... 오바마 는 시카고 에서 ...   ->   오바마 는 1961 년 에 ... [MASK] 는 시카고 에서 ...

A span starts where an eojeol starts and ends where a morpheme ends, within a sentence. Its last token is not one of the
most frequent tokens: shards hold no tags, and particles, endings and punctuation are what is frequent. So a name is
asked for without its particle, and a particle alone is not asked for.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kobert_pipeline.pretrain.packing import Packed
from kobert_pipeline.shards.format import EOJEOL, MORPHEME, SENTENCE, Shards, ranges

SAMPLE = 100_000
"""Tokens of each shard that the most frequent tokens are counted in."""


class Cluster(NamedTuple):
    """The occurrences of a span of `length` tokens: the positions of their first tokens, ascending."""

    starts: list[int]
    length: int


class Asked(NamedTuple):
    """Packed sequences with question tokens. `maskable` of `packed` is False at questions and answers. `questions`:
    (n, Q, 3), for each question of a sequence the positions in it of the question token and of the first and last
    token of the answer; 0 where there is no question."""

    packed: Packed
    questions: np.ndarray


# cached, because every batch of the same shards needs them
@lru_cache(maxsize=4)
def frequent_tokens(shards: Shards, frequency: float) -> np.ndarray:
    """The tokens that make up more than the share `frequency` of the text, ascending."""
    sample = np.concatenate([np.empty(0, np.int64), *(shard.ids[:SAMPLE] for _, shard in shards)])
    frequent: np.ndarray = np.flatnonzero(np.bincount(sample) > frequency * len(sample))
    return frequent


def clusters_in(packed: Packed, frequent: np.ndarray, longest: int) -> list[Cluster]:
    """The spans of at most `longest` tokens that occur at least twice between two special tokens, longest first. None
    overlaps another, and a span that is also part of a longer one is left out."""
    # few spans recur, and plain lists are faster than arrays of two numbers
    taken, clusters = bytearray(len(packed.input_ids)), []
    for length, starts, kinds in reversed(list(_candidates(packed, frequent, longest))):
        # stable, so that the starts of each kind stay ascending
        order = np.argsort(kinds, kind="stable")
        for _, group in groupby(zip(kinds[order].tolist(), starts[order].tolist(), strict=True), key=itemgetter(0)):
            places = [start for _, start in group]
            # occurrences that overlap one another cannot all be replaced
            apart = all(after - before >= length for before, after in pairwise(places))
            if len(places) > 1 and apart and not any(any(taken[start : start + length]) for start in places):
                for start in places:
                    taken[start : start + length] = b"\1" * length
                clusters.append(Cluster(places, length))
    return clusters


def _candidates(packed: Packed, frequent: np.ndarray, longest: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The starts of the spans of each length, and the number of the kind of each span: spans with the same tokens in
    the same text are of one kind."""
    ids, special = packed.input_ids, ~packed.maskable
    text = np.cumsum(special)
    sentence = np.cumsum(special | (packed.boundaries & SENTENCE > 0))
    ends = np.append(packed.boundaries[1:] & MORPHEME > 0, True) & ~np.isin(ids, frequent)
    places = np.flatnonzero(packed.maskable & (packed.boundaries & EOJEOL > 0))
    kinds = text[places]
    for length in range(1, longest + 1):
        last = places + length - 1
        inside = np.flatnonzero(last < len(ids))
        inside = inside[sentence[last[inside]] == sentence[places[inside]]]
        places, last = places[inside], last[inside]
        # what is the same so far, and has the same next token
        keys = kinds[inside] * (ids.max() + 1) + ids[last]
        _, kinds, counts = np.unique(keys, return_inverse=True, return_counts=True)
        # a span recurs only if all that it begins with recurs, so few candidates are left for the next length
        again = counts[kinds] > 1
        places, last, kinds = places[again], last[again], kinds[again]
        yield length, places[ends[last]], kinds[ends[last]]


def ask(
    packed: Packed, clusters: list[Cluster], most_questions: int, question_token: int, rng: np.random.Generator
) -> Asked:
    """Replace all occurrences but one of random clusters, as long as a sequence has at most `most_questions`
    questions."""
    bounds = np.cumsum(packed.lengths).tolist()
    questions = np.zeros((len(packed.lengths), most_questions, 3), np.int64)
    counts = [0] * len(packed.lengths)
    ids, maskable, remaining = packed.input_ids.copy(), packed.maskable.copy(), np.ones(len(packed.input_ids), bool)
    drawn = rng.random(len(clusters)).tolist()
    for index in rng.permutation(len(clusters)).tolist():
        starts, length = clusters[index]
        # all occurrences are in one text, and so in one sequence
        row = bisect_right(bounds, starts[0])
        if counts[row] + len(starts) - 1 > most_questions:
            continue
        answer = starts[int(drawn[index] * len(starts))]
        for start in starts:
            maskable[start : start + length] = False
            if start != answer:
                questions[row, counts[row]] = start, answer, answer + length - 1
                counts[row] += 1
                ids[start] = question_token
                remaining[start + 1 : start + length] = False
    return _without(packed._replace(input_ids=ids, maskable=maskable), questions, remaining)


def _without(packed: Packed, questions: np.ndarray, remaining: np.ndarray) -> Asked:
    """The sequences with only the tokens marked in `remaining`, (T,) bool. Positions in `questions` count all tokens
    before, and the tokens of their sequence afterwards."""
    starts = np.cumsum(packed.lengths) - packed.lengths
    lengths = np.add.reduceat(remaining.astype(np.int64), starts)
    moved = np.cumsum(remaining) - 1  # (T,) the new position of each remaining token
    questions = np.where(questions > 0, moved[questions] - moved[starts][:, None, None], 0)
    return Asked(
        Packed(
            input_ids=packed.input_ids[remaining],
            token_type_ids=packed.token_type_ids[remaining],
            position_ids=ranges(np.zeros(len(lengths), np.int64), lengths),
            boundaries=packed.boundaries[remaining],
            maskable=packed.maskable[remaining],
            lengths=lengths,
        ),
        questions,
    )
