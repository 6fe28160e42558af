"""The contract of a subword model: it learns to spell morphemes, and a `tokenizers` model carries it."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer

from kobert_pipeline.config.options import Plugin

MIN_VOCAB_SIZE = 100

Lines = Callable[[], Iterator[str]]
"""The corpus, as often as needed: a document a line, its morphemes (marked) separated by spaces."""


class Subword(Plugin):
    """A family of subword models."""

    family: ClassVar[str] = "subwords"

    grows: ClassVar[bool] = False
    """Whether pieces can be added to a trained model without more (BPE would need merges, Unigram scores)."""

    vocab_size: int = Field(32_000, ge=MIN_VOCAB_SIZE, le=1_000_000)
    """Pieces in the vocabulary, special tokens included."""

    @abstractmethod
    def train(self, lines: Lines, alphabet: list[str], special_tokens: list[str]) -> Tokenizer:
        """A backend with a trained model, `special_tokens` as the first ids, no characters but those of `alphabet`, and
        nothing else. Every character of `alphabet` has a piece, and `vocab_size` has room for them and
        `special_tokens`. Nothing is ever merged across two morphemes. Deterministic."""


def spelled_by(lines: Lines, alphabet: list[str]) -> Iterator[str]:
    """`lines` without the morphemes that hold other characters: trainers drop such a character and merge what stood on
    its sides."""
    known = {" ", *alphabet}
    return (" ".join(piece for piece in line.split(" ") if known.issuperset(piece)) for line in lines())


def alphabet_of(lines: Iterable[str], limit: int) -> list[str]:
    """The `limit` commonest characters in code order. Ties are broken by code, so that the same corpus gives the same
    vocabulary (the trainers' own limit breaks them by chance)."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    counts.pop(" ", None)
    commonest = sorted(counts, key=lambda character: (-counts[character], character))[:limit]
    return sorted(commonest)
