"""Answer priors: what rules add to the scores of answers, without having been learned.

The rules see the texts and not the logits, so what they find is stored with the features, and the weights of the priors
can be changed without reading the texts again.
"""

import re
from itertools import chain

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.morphemes.normalization import nfc_with_offsets, replace_surrogates
from kobert_pipeline.questions.answer_candidates import candidates_in_text
from kobert_pipeline.questions.lexical_overlap import sentence_overlaps, token_overlaps
from kobert_pipeline.questions.question_type import QuestionType, classify_question

MOST_TOKENS = 255
"""Tokens of a candidate, whose number is stored in a byte."""
CHOICE = re.compile(r" 중(에서|에)? ?(어느|어떤|누|무엇|뭐|더)")
"""What a question has that names the answers to choose from: 백제와 신라 중 어느 나라가."""
YEAR_ENDS = ("년도", "년대")
SLOTS = 2
"""Candidates that may begin with the same token, such as a date and its year."""

Offsets = list[list[tuple[int, int]]]
"""Characters of each token of each window; negative for tokens outside the context."""


class AnswerPriors(Options):
    """What is added to the score of an answer, a sum of two logits, by rules. {phrase: 4, type: 8, overlap: 12} suits a
    model with little training."""

    phrase: float = Field(0, ge=0)
    """Added to the score of every answer that is a phrase by Kiwi's tags: a date, a number with its unit, a title, a
    name or nouns before a particle, as `synthesize` asks for, unless the question contains it. Starts and ends
    are chosen independently, so a model with little training joins what does not belong together; 4 makes it choose
    phrases wherever it is not sure of something else."""
    type: float = Field(0, ge=0)
    """Added to the score of phrases of the type that the question asks for by its words (a date for 언제, a number for
    몇), and again where they end with the noun it asks with (어느 대학교) or with a unit of what it asks for (원 for a
    price). 8 suits a model with little training, which has not learned what each question word asks for."""
    overlap: float = Field(0, ge=0)
    """Added to the score of every answer, times the lexical overlap (0 to 1) of the sentence in which it begins: its
    share of those words of the question that are in the context. Counting words finds the right sentence more often
    than a model with little training does; 12 suits such a model."""

    def arrays(self, texts: list[tuple[str, str]], offsets: Offsets, text_of: list[int]) -> dict[str, np.ndarray]:
        """What the rules find, for each token of all windows. `texts` are (question, context), `offsets` the
        characters of each window's tokens in its context, and `text_of` the index of each window's texts.

        With `phrase` or `type`, `candidate_lengths` and `candidate_type_matches`, (tokens, SLOTS): the tokens of up to
        two candidates that begin there, 0 for none, and how well they match the question's type. With `overlap`,
        `sentence_overlaps`, (tokens,).
        """
        candidates, overlaps = [], []
        for pair in texts:
            # as tokenizers read them: the rules find nothing in decomposed text (NFD) and in words with invisible marks
            (question, *_), (context, starts, ends) = (nfc_with_offsets(replace_surrogates(text)) for text in pair)
            # both for one text at a time, because its analysis is cached only for a while
            of_context = candidates_for(question, context) if self.phrase or self.type else []
            candidates.append([(starts[start], ends[end - 1], matches) for start, end, matches in of_context])
            sentences = sentence_overlaps(question, context) if self.overlap else []
            overlaps.append([(starts[start], ends[end - 1], overlap) for start, end, overlap in sentences])
        arrays = dict[str, np.ndarray]()
        if self.phrase or self.type:
            arrays |= candidate_arrays(offsets, [candidates[index] for index in text_of])
        if self.overlap:
            of_windows = [token_overlaps(row, overlaps[i]) for row, i in zip(offsets, text_of, strict=True)]
            arrays["sentence_overlaps"] = np.concatenate(of_windows)
        return arrays

    def of_starts(self, arrays: dict[str, np.ndarray], window: slice) -> np.ndarray | float:
        """What is added to the score of every answer that begins with a token of a window, (L,)."""
        return self.overlap * arrays["sentence_overlaps"][window] if self.overlap else 0.0

    def of_candidates(self, arrays: dict[str, np.ndarray], window: slice) -> tuple[np.ndarray, np.ndarray] | None:
        """The lengths in tokens of the candidates that begin with each token of a window, and what is added to their
        scores, (L, SLOTS) both; None where nothing is added."""
        if not (self.phrase or self.type):
            return None
        type_matches = arrays["candidate_type_matches"][window]
        return arrays["candidate_lengths"][window], self.phrase + self.type * type_matches


NO_PRIORS = AnswerPriors()


def candidates_for(question: str, context: str) -> list[tuple[int, int, int]]:
    """The (start, end, type matches) of the answer candidates in a context, except those in the question itself, unless
    it lets one choose between them."""
    question_type, is_choice = classify_question(question), CHOICE.search(question)
    texts = ((candidate, context[candidate.start : candidate.end]) for candidate in candidates_in_text(context))
    return [
        (candidate.start, candidate.end, count_type_matches(text, candidate.type, question_type))
        for candidate, text in texts
        # as words: 5명 is no part of 15명
        if is_choice or not re.search(rf"(?<!\w){re.escape(text)}", question)
    ]


def count_type_matches(text: str, answer_type: str, question_type: QuestionType) -> int:
    """How well a candidate matches the question's type: 1 for the type of answer that it asks for, and 1 for ending
    with the noun that it asks with, or with a unit of what it asks for."""
    # 1974년도 and 1980년대 say when, whatever number they begin with
    if answer_type == "number" and text.endswith(YEAR_ENDS):
        answer_type = "year"
    has_noun = bool(question_type.noun) and text.endswith(question_type.noun) and text != question_type.noun
    has_unit = answer_type == "number" and text.endswith(question_type.units)
    return (answer_type in question_type.types) + (has_noun or has_unit)


def candidate_arrays(offsets: Offsets, candidates: list[list[tuple[int, int, int]]]) -> dict[str, np.ndarray]:
    """The `candidate_lengths` and `candidate_type_matches` of `AnswerPriors.arrays`, (tokens, SLOTS) uint8 both.
    `candidates` are the `candidates_for` of each window. Candidates that do not begin and end where tokens do are left
    out."""
    rows = [_slots(*window) for window in zip(offsets, candidates, strict=True)]
    # (tokens, 2, SLOTS): lengths, then type matches; reshaped, since without tokens the array is (0,)
    both = np.array(list(chain.from_iterable(rows)), np.uint8).reshape(-1, 2, SLOTS)
    return {"candidate_lengths": both[:, 0], "candidate_type_matches": both[:, 1]}


def _slots(offsets: list[tuple[int, int]], candidates: list[tuple[int, int, int]]) -> list[list[list[int]]]:
    """[lengths, type matches] of the candidates that begin with each token of a window."""
    rows = [[[0] * SLOTS, [0] * SLOTS] for _ in offsets]
    # of tokens that share characters the outer ones, as in `answer_spans.answer_tokens`
    first = {start: index for index, (start, end) in reversed(list(enumerate(offsets))) if end > start}
    last = {end: index for index, (start, end) in enumerate(offsets) if end > start}
    for start, end, type_matches in candidates:
        length = last[end] - first[start] + 1 if start in first and end in last else 0
        if not 0 < length <= MOST_TOKENS:
            continue
        lengths, matches = rows[first[start]]
        if 0 in lengths:
            slot = lengths.index(0)
            lengths[slot], matches[slot] = length, type_matches
    return rows
