"""Phrases of a context, which answers mostly are, and how well each fits its question."""

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from kobert_pipeline.features.asked_for import Asked, asked_for
from kobert_pipeline.features.candidates import answers, brackets, tagged_sentences

MOST_TOKENS = 255
"""Tokens of a phrase, whose number is stored in a byte."""
CHOICE = re.compile(r" 중(에서|에)? ?(어느|어떤|누|무엇|뭐|더)")
"""What a question has that names the answers to choose from: 백제와 신라 중 어느 나라가."""
SLOTS = 2
"""Phrases that may begin with the same token, such as a date and its year."""


class Phrase(NamedTuple):
    """Characters `start` to `end` (exclusive) of a context, and the kind of a `candidates.Answer`."""

    start: int
    end: int
    kind: str


@lru_cache(maxsize=64)
def phrases(context: str) -> tuple[Phrase, ...]:
    """All that can be asked for in a context, also in brackets, where no question is made of it. Kept, because
    questions share contexts."""
    found: dict[tuple[int, int], Phrase] = {}
    for sentence in tagged_sentences(context):
        # what is in brackets may be found in its sentence as well
        for part in (sentence, *(sentence[first + 1 : after] for first, after in brackets(sentence))):
            for answer in answers(context, part):
                found.setdefault((answer.start, answer.end), Phrase(answer.start, answer.end, answer.kind))
    return tuple(found.values())


def phrases_to_answer(question: str, context: str) -> list[tuple[int, int, int]]:
    """The (start, end, fit) of the phrases of a context, without those that the question contains, unless it lets one
    choose between them. The fit is one for the kind that the question asks for, and one for ending with the noun that
    it asks with."""
    asked, is_choice = asked_for(question), CHOICE.search(question)
    texts = ((phrase, context[phrase.start : phrase.end]) for phrase in phrases(context))
    return [
        (phrase.start, phrase.end, fit(text, phrase.kind, asked))
        for phrase, text in texts
        # as words: 5명 is no part of 15명
        if is_choice or not re.search(rf"(?<!\w){re.escape(text)}", question)
    ]


def fit(text: str, kind: str, asked: Asked) -> int:
    """How well a phrase fits what is asked for, 0 to 2."""
    ends = bool(asked.noun) and text.endswith(asked.noun) and text != asked.noun
    return (kind in asked.kinds) + ends


def phrase_arrays(
    offsets: list[list[tuple[int, int]]], found: list[list[tuple[int, int, int]]]
) -> dict[str, np.ndarray]:
    """For each token of all windows two places for phrases that begin with it: `phrases`, (tokens, 2), are their
    numbers of tokens, and `phrase_fits`, (tokens, 2), their fits; both are 0 where there are fewer.

    `offsets` are the characters of each window's tokens, and `found` the `phrases_to_answer` of each window. Phrases
    that do not begin and end where tokens do are left out.
    """
    rows = [_of_window(*window) for window in zip(offsets, found, strict=True)]
    both = np.array(list(chain.from_iterable(rows)), np.uint8).reshape(-1, 2, SLOTS)
    return {"phrases": both[:, 0], "phrase_fits": both[:, 1]}


def _of_window(offsets: list[tuple[int, int]], found: list[tuple[int, int, int]]) -> list[list[list[int]]]:
    """[lengths, fits] for each token of a window."""
    rows = [[[0] * SLOTS, [0] * SLOTS] for _ in offsets]
    # of tokens that share characters the outer ones, as in `span.answer_tokens`
    first = {start: place for place, (start, end) in reversed(list(enumerate(offsets))) if end > start}
    last = {end: place for place, (start, end) in enumerate(offsets) if end > start}
    for start, end, fits in found:
        tokens = last[end] - first[start] + 1 if start in first and end in last else 0
        if not 0 < tokens <= MOST_TOKENS:
            continue
        lengths, fits_there = rows[first[start]]
        if 0 in lengths:
            slot = lengths.index(0)
            lengths[slot], fits_there[slot] = tokens, fits
    return rows
