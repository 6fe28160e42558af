# SPDX-License-Identifier: Apache-2.0
"""From texts to `Segmentation`s in batches: the one code path of both the analysis stage and the published
tokenizer."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from .analyzer_loader import analyzer
from .morpheme import Segmentation
from .segmentation import Span, Tokens, segment, units

BATCH_CHARACTERS = 200_000
"""Enough to keep all threads of an analyzer busy, little enough to hold in memory."""

UserWord = tuple[str, str, float]
"""Form, tag and score."""


@dataclass(frozen=True)
class Segmenter:
    """An analyzer and its settings: together with `version`, everything that a segmentation depends on.

    The fields are also written as they are to `analyzer.json` and passed to `MorphemeTokenizer`.

    Raises ImportError where the analyzer's library is missing, ValueError for an unknown name or style.
    """

    analyzer: str = "kiwi"
    style: str = "surface"
    user_words: tuple[UserWord, ...] = ()

    def __post_init__(self) -> None:
        if self.style not in self._module.STYLES:
            raise ValueError(
                f"the analyzer {self.analyzer} has no style {self.style!r}; allowed: {', '.join(self._module.STYLES)}"
            )
        if self.user_words and not self._module.USER_TAGS:
            raise ValueError(f"the analyzer {self.analyzer} takes no user dictionary")

    @property
    def _module(self) -> ModuleType:
        # looked up each time: a module as a field could be neither pickled to workers nor written as JSON
        try:
            return analyzer(self.analyzer)
        except ImportError as error:
            raise ImportError(f"the analyzer {self.analyzer} cannot be imported: {error}") from error

    @property
    def library(self) -> str:
        """The name to `pip install`; empty where the analyzer needs no library."""
        return str(self._module.LIBRARY)

    @property
    def version(self) -> str:
        """The analyzer and its model; recorded with every vocabulary, since another model segments differently."""
        return str(self._module.version())

    def segment(self, texts: Iterable[str], num_workers: int | None = None) -> Iterator[Segmentation]:
        """The segmentations of `texts` in order, on `num_workers` threads of the analyzer (None: one per core).

        Texts must be NFC without invisible characters: the corpus stage and the tokenizer see to it. Raises
        RuntimeError for an analyzer that does not answer once per unit.
        """
        return (of_text for (of_text,) in self.segment_in((self.style,), texts, num_workers))

    def segment_in(
        self, styles: Sequence[str], texts: Iterable[str], num_workers: int | None = None
    ) -> Iterator[tuple[Segmentation, ...]]:
        """As `segment`, but in each of `styles`, of which the analyzer may spell only the last, by one analysis."""
        pending: deque[_Batch] = deque()
        tokens: list[Tokens] = []
        # the other styles need no spellings, only the places of the same tokens
        for columns in self._module.tokens(_queue_units(texts, pending), styles[-1], self.user_words, num_workers):
            tokens.append(Tokens(*columns))
            # a batch as soon as it is complete, while the analyzer's threads already work on the next one
            while pending and len(tokens) >= pending[0].unit_count:
                yield from self._segment_batch(pending.popleft(), tokens, styles)
        while pending:
            yield from self._segment_batch(pending.popleft(), tokens, styles)
        if tokens:
            raise RuntimeError(f"the analyzer {self.analyzer} gave {len(tokens)} analyses more than it got texts")

    def _segment_batch(
        self, batch: "_Batch", tokens: list[Tokens], styles: Sequence[str]
    ) -> Iterator[tuple[Segmentation, ...]]:
        # one analysis too few would shift all later ones to the wrong text, and nobody would notice
        if len(tokens) < batch.unit_count:
            raise RuntimeError(
                f"the analyzer {self.analyzer} gave {batch.unit_count - len(tokens)} analyses fewer than it got texts"
            )
        own, tokens[:] = tokens[: batch.unit_count], tokens[batch.unit_count :]
        return zip(*(segment(batch.texts, batch.spans, own, style) for style in styles), strict=True)


class _Batch(NamedTuple):
    """Texts that are segmented together, and the spans of each that the analyzer gets one by one."""

    texts: list[str]
    spans: list[list[Span]]
    unit_count: int


def _queue_units(texts: Iterable[str], pending: deque[_Batch]) -> Iterator[str]:
    """The strings for the analyzer; as they are consumed, each batch is appended to `pending` before its units."""
    for batch in batches_of(texts, BATCH_CHARACTERS):
        spans = [list(units(text)) for text in batch]
        pending.append(_Batch(batch, spans, sum(map(len, spans))))
        yield from (text[start:end] for text, of_text in zip(batch, spans, strict=True) for start, end in of_text)


def batches_of(texts: Iterable[str], characters: int) -> Iterator[list[str]]:
    """Lists of neighbouring texts, each closed as soon as its texts have so many characters in total."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
