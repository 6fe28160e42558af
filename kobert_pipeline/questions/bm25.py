"""BM25 over morphemes (Robertson et al., TREC-3 1994): the search that knows words only, which vectors must beat."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from kobert_pipeline.morphemes.segmenter import Segmenter

K1, B = 1.2, 0.75
"""The usual constants: how fast repetitions of a term count less, and how much the length of a text matters."""
NO_CONTENT = ("J", "E", "S", "X", "W")
"""First letters of the tags of morphemes that are no terms: particles, endings, symbols, affixes, web addresses."""
CONTENT = ("SL", "SH", "SN", "XR")
"""Exceptions: foreign letters, Chinese characters, numbers, roots."""


class Bm25:
    """The texts to search in, indexed by their morphemes. Raises ImportError where the analyzer is not installed."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # not at the top: a server without searches needs neither it nor the analyzer

        self.index, self.count = bm25s.BM25(method="lucene", k1=K1, b=B), len(texts)
        terms = content_morphemes(texts)
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

        bm25 = cls.__new__(cls)
        bm25.count, bm25.vocabulary = count, set()
        if folder.is_dir():
            bm25.index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
            bm25.vocabulary = set(bm25.index.vocab_dict)
        return bm25

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of every text for every query, (Q, N) float32; 0 where they share no term."""
        scores = np.zeros((len(queries), self.count), np.float32)
        for row, terms in enumerate(content_morphemes(queries)):
            if known := [term for term in terms if term in self.vocabulary]:
                scores[row] = self.index.get_scores(known)
        return scores


def content_morphemes(texts: Sequence[str]) -> list[list[str]]:
    """The morphemes of each text that carry meaning, as form/TAG; for a text without such morphemes, all of its
    morphemes."""
    morphemes = []
    for segmentation in Segmenter(style="tagged").segment(texts):
        tagged = segmentation.spellings or []
        morphemes.append([morpheme for morpheme in tagged if is_content(morpheme)] or tagged)
    return morphemes


def is_content(morpheme: str) -> bool:
    """Whether a morpheme, spelled as form/TAG, is a term."""
    tag = morpheme.rpartition("/")[2]
    return tag.startswith(CONTENT) or not tag.startswith(NO_CONTENT)


def passage_of(line: str, terms: Collection[str], width: int) -> str:
    """The part of a one-line text, at most `width` characters long, that has the most different `terms` (form/TAG);
    the beginning of the text where it has none."""
    if len(line) <= width:
        return line
    (segmentation,) = Segmenter(style="tagged").segment([line])
    positions = zip(segmentation.starts.tolist(), segmentation.spellings or [], strict=False)
    hits = [(start, term) for start, term in positions if term in terms]
    before, inside = width // 4, width - 2  # characters before the first term, and without the ellipses
    reach = inside - before
    counts = [len({term for position, term in hits if start <= position < start + reach}) for start, _ in hits]
    begin = hits[int(np.argmax(counts))][0] - before if hits else 0
    begin = max(0, min(begin, len(line) - inside))
    return "…" * (begin > 0) + line[begin : begin + inside] + "…" * (begin + inside < len(line))
