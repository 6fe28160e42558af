"""BM25 over morphemes (Robertson et al., TREC-3 1994): the search that knows words only, which vectors must beat."""

from collections.abc import Sequence

import numpy as np

from kobert_pipeline.inference.token_weights import K1, B
from kobert_pipeline.morphemes.segmenter import Segmenter

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

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of every text for every query, (Q, N) float32; 0 where they share no term."""
        scores = np.zeros((len(queries), self.count), np.float32)
        for row, terms in enumerate(content_morphemes(queries)):
            if known := [term for term in terms if term in self.vocabulary]:
                scores[row] = self.index.get_scores(known)
        return scores


def content_morphemes(texts: Sequence[str]) -> list[list[str]]:
    """The morphemes of each text that carry meaning, as form/TAG; all of a text that has none of these."""
    found = []
    for segmentation in Segmenter(style="tagged").segment(texts):
        tagged = segmentation.spellings or []
        found.append([morpheme for morpheme in tagged if is_content(morpheme)] or tagged)
    return found


def is_content(morpheme: str) -> bool:
    """Whether a morpheme, spelled as form/TAG, is a term."""
    tag = morpheme.rpartition("/")[2]
    return tag.startswith(CONTENT) or not tag.startswith(NO_CONTENT)
