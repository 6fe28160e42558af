"""The contract of a subword model: it learns to split morphemes into pieces, and a `tokenizers` model stores it."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer

from kobert_pipeline.config.options import Plugin

MIN_VOCAB_SIZE = 100

Lines = Callable[[], Iterator[str]]
"""Iterates over the corpus, as often as it is called: one document per line, its marked morphemes separated by
spaces."""


class Subword(Plugin):
    """A family of subword models."""

    family: ClassVar[str] = "subwords"

    grows: ClassVar[bool] = False
    """Whether pieces can simply be added to a trained model (BPE would need merges, Unigram scores)."""

    vocab_size: int = Field(32_000, ge=MIN_VOCAB_SIZE, le=1_000_000)
    """Tokens in the vocabulary, special tokens included."""

    @abstractmethod
    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """A backend with a trained model and nothing else: no normalizer, no template.

        `special_tokens` are its first ids; every character of `alphabet` is a piece, and no other character is part of
        one. `vocab_size` has room for both. Training is deterministic and never merges across two morphemes.
        """


def lines_within_alphabet(lines: Lines, alphabet: list[str]) -> Iterator[str]:
    """`lines` without the morphemes that hold characters outside `alphabet`."""
    # a trainer would drop only the character, and merge what was on its two sides
    known = {" ", *alphabet}
    return (" ".join(word for word in line.split(" ") if known.issuperset(word)) for line in lines())


def alphabet_of(lines: Iterable[str], limit: int) -> list[str]:
    """The `limit` commonest characters in code point order."""
    return sorted(commonest(count_characters(lines))[:limit])


def count_characters(lines: Iterable[str]) -> Counter[str]:
    """How often each character occurs, without the spaces between morphemes."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    counts.pop(" ", None)
    return counts


def commonest(counts: Counter[str]) -> list[str]:
    """The characters, the commonest first."""
    # ties are broken by code point: the trainers' own limit breaks them by chance, and the same corpus must give the
    # same vocabulary
    return sorted(counts, key=lambda character: (-counts[character], character))
