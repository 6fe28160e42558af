"""BM25 (Robertson et al., TREC-3 1994) over morphemes and pairs of characters: the search that knows words only, which
vectors must beat.

An analyzer cuts compounds such as 손해배상청구권 in its own ways, so that one in a query and the same in a text may
share no morpheme; pairs of neighbouring characters inside nouns and verbs (손해, 해배, 배상, …) they do share. On
questions that people asked, pairs bring more than a trained encoder (docs/results/retrieval.md).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Self
from unicodedata import normalize

import numpy as np

from kobert_pipeline.morphemes.normalization import remove_invisible, replace_surrogates
from kobert_pipeline.morphemes.runs import runs_of
from kobert_pipeline.morphemes.segmenter import Segmenter, batches_of
from kobert_pipeline.progress import report

K1, B = 1.2, 0.75
"""The usual constants: how fast repetitions of a term count less, and how much the length of a text matters."""
K1_OF_PAIRS = 0.9
"""The first of them where pairs of characters are terms, too; chosen on TyDi QA and silver questions."""
NO_CONTENT = ("J", "E", "S", "X", "W")
"""First letters of the tags of morphemes that are no terms: particles, endings, symbols, affixes, web addresses."""
CONTENT = ("SL", "SH", "SN", "XR")
"""Exceptions: foreign letters, Chinese characters, numbers, roots."""
CHARACTERS_AT_ONCE = 50_000
"""Characters of the texts that are analysed together, between two reports of how many are."""
_QUESTION_WORDS = """
무엇/NP 뭐/NP 누구/NP 누/NP 어디/NP 언제/NP 언제/MAG 몇/MM 몇/NR 얼마/NNG 어떤/MM 어느/MM 왜/MAG
"""
QUESTION_WORDS = frozenset(_QUESTION_WORDS.split())
"""Pronouns, determiners and adverbs that only ask."""


class Bm25:
    """The texts to search in, indexed by their morphemes and pairs of characters. Raises ImportError where the analyzer
    is not installed."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # not at the top: a server without searches needs neither it nor the analyzer

        # lucene: a text without any term of a query has the score 0, unlike by bm25l and bm25+
        self.index, self.count = bm25s.BM25(method="lucene", k1=K1_OF_PAIRS, b=B), len(texts)
        terms = list[list[str]]()
        for batch in batches_of(texts, CHARACTERS_AT_ONCE):
            report("indexing words", len(terms), len(texts), "texts")
            terms += search_terms(batch)
        self.vocabulary = {term for text in terms for term in text}
        # bm25s cannot index a corpus without terms
        if self.vocabulary:
            self.index.index(terms, show_progress=False)

    def save(self, folder: Path) -> None:
        """Write the index to `folder` in the format of bm25s; nothing where no text has a term."""
        if self.vocabulary:
            self.index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path, count: int) -> Self:
        """The index of `count` texts that `save` wrote; what a query does not need stays on the disk."""
        import bm25s

        # not by `__init__`, which would segment all texts again
        bm25 = cls.__new__(cls)
        bm25.count, bm25.vocabulary = count, set()
        if folder.is_dir():
            bm25.index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
            bm25.vocabulary = set(bm25.index.vocab_dict)
        return bm25

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of every text for every query, (Q, N) float32; 0 where they share no term."""
        scores = np.zeros((len(queries), self.count), np.float32)
        for row, terms in enumerate(search_terms(queries, QUESTION_WORDS)):
            # bm25s raises an error for a query without terms
            if known := [term for term in terms if term in self.vocabulary]:
                scores[row] = self.index.get_scores(known)
        return scores


def largest(scores: np.ndarray, count: int) -> np.ndarray:
    """The indices of the `count` largest of the scores (N,), or of all, largest first; of equal ones the first comes
    first."""
    # all that reach the last of them, because a partition leaves the order of equal ones open
    least = np.partition(scores, -count)[-count] if count < len(scores) else -np.inf
    best = np.flatnonzero(scores >= least)
    return best[np.argsort(-scores[best], kind="stable")][:count]


def search_terms(texts: Sequence[str], left_out: Collection[str] = ()) -> list[list[str]]:
    """The terms of each text: its morphemes that carry meaning, as form/TAG, without those that are `left_out`, and the
    pairs of neighbouring characters in each run of such morphemes. All morphemes of a text without any that carries
    meaning."""
    return [[term for _, term in placed] for placed in placed_terms(list(map(composed, texts)), left_out)]


def placed_terms(texts: Sequence[str], left_out: Collection[str] = ()) -> list[list[tuple[int, str]]]:
    """`search_terms` of `composed` texts, each with the place of its first character."""
    placed = []
    for text, segmentation in zip(texts, Segmenter(style="tagged").segment(texts), strict=True):
        morphemes = [(start, end, tagged) for start, end, _, tagged in segmentation if tagged]
        content = [morpheme for morpheme in morphemes if is_content(morpheme[2]) and morpheme[2] not in left_out]
        runs = runs_of((start, end) for start, end, _ in content)
        pairs = [pair for start, end in runs for pair in pairs_of(text, start, end)]
        placed.append([(start, tagged) for start, _, tagged in content or morphemes] + pairs)
    return placed


def composed(text: str) -> str:
    """What the analyzer needs: composed text without invisible characters, in which the places of morphemes are."""
    return remove_invisible(normalize("NFC", replace_surrogates(text)))


def pairs_of(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """The pairs of neighbouring letters and digits of a word of the text, each with the place of the first."""
    positions = [position for position in range(start, end) if text[position].isalnum()]
    return ((first, text[first] + text[second]) for first, second in pairwise(positions))


def is_content(morpheme: str) -> bool:
    """Whether a morpheme, spelled as form/TAG, is a term."""
    tag = morpheme.rpartition("/")[2]
    return tag.startswith(CONTENT) or not tag.startswith(NO_CONTENT)


def passages_of(lines: Sequence[str], terms: Collection[str], width: int) -> list[str]:
    """Of each one-line text the part, at most `width` characters long, that has the most different `terms` of a search;
    its beginning where it has none."""
    lines = list(map(composed, lines))
    placed = iter(placed_terms([line for line in lines if len(line) > width]))
    return [passage_of(line, next(placed), terms, width) if len(line) > width else line for line in lines]


def passage_of(line: str, placed: Sequence[tuple[int, str]], terms: Collection[str], width: int) -> str:
    """The part of a longer line with the most different of the `terms`; `placed` are all terms in it."""
    hits = sorted((start, term) for start, term in placed if term in terms)
    before, shown = width // 4, width - 2  # characters before the first term, and without the ellipses
    begin = densest(hits, shown - before) - before if hits else 0
    begin = max(0, min(begin, len(line) - shown))
    return "…" * (begin > 0) + line[begin : begin + shown] + "…" * (begin + shown < len(line))


def densest(hits: Sequence[tuple[int, str]], reach: int) -> int:
    """The place of the first of the `hits`, in order, from which the next `reach` characters have the most different
    terms."""
    inside, end, most, best = Counter[str](), 0, 0, 0
    for start, term in hits:
        while end < len(hits) and hits[end][0] < start + reach:
            inside[hits[end][1]] += 1
            end += 1
        if len(inside) > most:
            most, best = len(inside), start
        inside[term] -= 1
        inside += Counter()  # without what is counted 0 times
    return best
