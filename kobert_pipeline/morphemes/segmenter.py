"""From texts to `Cut`s, a batch at once: the one path that the analysis stage and the published tokenizer share."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from .analyzer_loader import analyzer
from .morpheme import Segmentation
from .segmentation import Span, Tokens, segment, units

BATCH_CHARACTERS = 200_000
"""Enough to keep all of an analyzer's threads busy, little enough to hold in memory."""

UserWord = tuple[str, str, float]
"""Form, tag and score."""


@dataclass(frozen=True)
class Segmenter:
    """An analyzer and how it is used: everything that a cut depends on, but for `version`.

    Raises ImportError where the analyzer's library is missing, ValueError for a name or style there is not.
    """

    analyzer: str = "kiwi"
    style: str = "surface"
    user_words: tuple[UserWord, ...] = ()

    def __post_init__(self) -> None:
        if self.style not in self._module.STYLES:
            raise ValueError(
                f"the analyzer {self.analyzer} has no style {self.style!r}; allowed: {', '.join(self._module.STYLES)}"
            )
        if self.user_words and not self._module.USER_WORDS:
            raise ValueError(f"the analyzer {self.analyzer} takes no user dictionary")

    @property
    def _module(self) -> ModuleType:
        try:
            return analyzer(self.analyzer)
        except ImportError as error:
            raise ImportError(f"texts are cut by {self.analyzer} here, which cannot be imported: {error}") from error

    @property
    def library(self) -> str:
        """What to `pip install` for it; empty where it needs nothing."""
        return str(self._module.LIBRARY)

    @property
    def version(self) -> str:
        """The analyzer and its model: another model cuts otherwise, so this belongs to a vocabulary."""
        return str(self._module.version())

    def segment(self, texts: Iterable[str], num_workers: int | None = None) -> Iterator[Segmentation]:
        """The cuts of `texts` in order. Texts are NFC and hold no lone surrogates (`cleaning` and the tokenizer see to
        it)."""
        waiting: deque[_Batch] = deque()
        tokens: list[Tokens] = []
        for columns in self._module.tokens(_units(texts, waiting), self.style, self.user_words, num_workers):
            tokens.append(Tokens(*columns))
            while waiting and len(tokens) >= waiting[0].total:  # the analyzer goes on with the next batch meanwhile
                yield from self._cut(waiting.popleft(), tokens)
        while waiting:
            yield from self._cut(waiting.popleft(), tokens)
        if tokens:
            raise RuntimeError(f"the analyzer {self.analyzer} gave {len(tokens)} analyses more than it got texts")

    def _cut(self, batch: "_Batch", tokens: list[Tokens]) -> list[Segmentation]:
        if len(tokens) < batch.total:  # all that follows would be cut by another text's analysis
            raise RuntimeError(
                f"the analyzer {self.analyzer} gave {batch.total - len(tokens)} analyses fewer than it got texts"
            )
        own, tokens[:] = tokens[: batch.total], tokens[batch.total :]
        return segment(batch.texts, batch.spans, own, self.style)


class _Batch(NamedTuple):
    """Texts that are cut together, the spans of each that are analysed one by one, and how many spans that are."""

    texts: list[str]
    spans: list[list[Span]]
    total: int


def _units(texts: Iterable[str], waiting: deque[_Batch]) -> Iterator[str]:
    """What is analysed, of one text after the other; puts the texts in batches behind one another in `waiting` as it
    goes."""
    for batch in _batches(texts):
        spans = [list(units(text)) for text in batch]
        waiting.append(_Batch(batch, spans, sum(map(len, spans))))
        yield from (text[start:end] for text, of_text in zip(batch, spans, strict=True) for start, end in of_text)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
