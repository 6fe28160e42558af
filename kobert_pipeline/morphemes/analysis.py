"""From texts to `Cut`s, a batch at once: the one path that the analysis stage and the published tokenizer share."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .cutting import Token, cut, units
from .morpheme import Cut

TokensOf = Callable[[list[str], int | None], Iterator[list[Token]]]

BATCH_CHARACTERS = 200_000
"""Enough to keep all of Kiwi's threads busy, little enough to hold in memory."""


class Borders(NamedTuple):
    """An analyzer: what gives the tokens of texts, and the version that a vocabulary depends on."""

    tokens: TokensOf
    version: str


def borders(name: str) -> Borders:
    """The analyzer called `name`. Raises ImportError when its library is missing, ValueError when nobody knows it."""
    if name == "kiwi":
        try:
            from .kiwi import tokens, version
        except ImportError as error:
            raise ImportError(
                f"this tokenizer cuts Korean text with kiwipiepy, which cannot be imported here ({error}); run: pip install kiwipiepy"
            ) from error
        return Borders(tokens, version())
    if name == "whitespace":
        from .whitespace import tokens as eojeols
        from .whitespace import version as whitespace_version

        return Borders(eojeols, whitespace_version())
    raise ValueError(f"there is no analyzer {name!r}; allowed: kiwi, whitespace")


def cut_texts(analyzer: Borders, texts: Iterable[str], num_workers: int | None = None) -> Iterator[Cut]:
    """The cuts of `texts` in order. Texts are NFC and hold no lone surrogates (`cleaning` and the tokenizer see to it)."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield from _cut_batch(analyzer, batch, num_workers)
            batch, size = [], 0
    if batch:
        yield from _cut_batch(analyzer, batch, num_workers)


def _cut_batch(analyzer: Borders, texts: list[str], num_workers: int | None) -> Iterator[Cut]:
    spans = [list(units(text)) for text in texts]
    pieces = [text[start:end] for text, of_text in zip(texts, spans, strict=True) for start, end in of_text]
    tokens = analyzer.tokens(pieces, num_workers)
    for text, of_text in zip(texts, spans, strict=True):
        yield cut(text, of_text, [next(tokens) for _ in of_text])
