# SPDX-License-Identifier: Apache-2.0
"""A `tokenizers.Encoding` whose offsets and words are those of the text as given.

The backend gets tokens as if they were words, only to arrange them (truncation, windows, pairs, padding), so its own
offsets and word numbers say nothing about the text. `LocatedEncoding` replaces them.
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
    """The encoding of one or two sides, with the interface of `tokenizers.Encoding`."""

    encoding: Encoding
    sides: tuple[EncodedText, ...]

    def __getattr__(self, name: str) -> Any:
        # unpickling asks for attributes before `encoding` is set, which would recurse for ever
        if name.startswith("__") or name == "encoding":
            raise AttributeError(name)
        return getattr(self.encoding, name)

    def __len__(self) -> int:
        return len(self.encoding)

    @property
    def overflowing(self) -> list["LocatedEncoding"]:
        """What truncation removed."""
        return [LocatedEncoding(encoding, self.sides) for encoding in self.encoding.overflowing]

    @cached_property
    def offsets(self) -> list[Span]:
        """The characters of each token in its side (or given word); (0, 0) for special tokens and padding."""
        return [place[0].offsets[place[1]] if place else (0, 0) for place in self._places()]

    @cached_property
    def word_ids(self) -> list[int | None]:
        """The index of each token's morpheme, or of its given word where the side was split already."""
        return [place[0].word_ids[place[1]] if place else None for place in self._places()]

    def _places(self) -> Iterator[tuple[EncodedText, int] | None]:
        """The side of each token and its index there; None for special tokens and padding."""
        # the backend's "word" is a token of ours, so its word ids are indices into `sides`
        for side, index in zip(self.encoding.sequence_ids, self.encoding.word_ids, strict=True):
            yield None if side is None or index is None else (self.sides[side], index)

    @property
    def words(self) -> list[int | None]:
        """The same as `word_ids`."""
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
        """The first token of a word and the one after its last."""
        tokens = [token for token, word, _ in self._tokens(sequence_index) if word == word_index]
        return (tokens[0], tokens[-1] + 1) if tokens else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """The characters of a word."""
        spans = [span for _, word, span in self._tokens(sequence_index) if word == word_index]
        return (spans[0][0], spans[-1][1]) if spans else None

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The first token over a character."""
        return next((token for token, _, (start, end) in self._tokens(sequence_index) if start <= char_pos < end), None)

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The word over a character."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.word_ids[token]
