"""A backend's `Encoding` whose places are those of the text as given.

The backend only arranges tokens (truncation, windows, pairs, padding) and numbers them as words; `LocatedEncoding`
answers for the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Encoding

from .fast_encoding import EncodedText
from .pretokenization import Span


@dataclass
class LocatedEncoding:
    """An encoding of one or two sides. See `tokenizers.Encoding` for what the methods give."""

    encoding: Encoding
    sides: tuple[EncodedText, ...]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "encoding":  # while unpickling nothing is there yet
            raise AttributeError(name)
        return getattr(self.encoding, name)

    def __len__(self) -> int:
        return len(self.encoding)

    @property
    def overflowing(self) -> list["LocatedEncoding"]:
        """What truncation cut off."""
        return [LocatedEncoding(encoding, self.sides) for encoding in self.encoding.overflowing]

    @cached_property
    def offsets(self) -> list[Span]:
        """Characters of each token in its side (or given word); (0, 0) for added ones."""
        return [at[0].spans[at[1]] if at else (0, 0) for at in self._tokens_of_sides()]

    @cached_property
    def word_ids(self) -> list[int | None]:
        """The morpheme of each token, or the given word where the side was split already."""
        return [at[0].words[at[1]] if at else None for at in self._tokens_of_sides()]

    def _tokens_of_sides(self) -> Iterator[tuple[EncodedText, int] | None]:
        """The side of each token and its number there; None for those that frame the sides."""
        for side, number in zip(self.encoding.sequence_ids, self.encoding.word_ids, strict=True):
            yield None if side is None or number is None else (self.sides[side], number)

    @property
    def words(self) -> list[int | None]:
        """As `word_ids`."""
        return self.word_ids

    def _tokens(self, sequence_index: int) -> Iterator[tuple[int, int | None, Span]]:
        for token, side in enumerate(self.encoding.sequence_ids):
            if side == sequence_index:
                yield token, self.word_ids[token], self.offsets[token]

    def token_to_chars(self, token_index: int) -> Span | None:
        """The characters of a token."""
        return None if self.encoding.sequence_ids[token_index] is None else self.offsets[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        """The word of a token."""
        return self.word_ids[token_index]

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """The tokens of a word, the last one exclusive."""
        found = [token for token, word, _ in self._tokens(sequence_index) if word == word_index]
        return (found[0], found[-1] + 1) if found else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """The characters of a word."""
        found = [span for _, word, span in self._tokens(sequence_index) if word == word_index]
        return (found[0][0], found[-1][1]) if found else None

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The first token over a character."""
        return next((token for token, _, (start, end) in self._tokens(sequence_index) if start <= char_pos < end), None)

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The word over a character."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.word_ids[token]
