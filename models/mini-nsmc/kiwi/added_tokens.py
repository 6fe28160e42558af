# SPDX-License-Identifier: Apache-2.0
"""Finds added tokens in a text, by the very rules of `tokenizers` (`single_word`, `lstrip`, `rstrip`).

There are two kinds. A *marker* annotates the text around it: a special token, or one in brackets (`[SUBJ]`, `</e>`).
The text is analysed as if the marker were not there, so an entity gets the tokens it has without its markers. Every
other added token replaces characters of the text: the mask, the unknown token, an added word. What follows such a token
without white space continues its eojeol, as 는 does in `[MASK]는`.
"""

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

ORDINARY_TEXT = "\0\0"
"""The finder's token for everything between added tokens."""


class FoundToken(NamedTuple):
    """An added token in a text: characters `start` to `end`, of which `left` to `right` are its `content` and the rest
    is white space that it absorbs (`lstrip`, `rstrip`)."""

    start: int
    end: int
    left: int
    right: int
    content: str
    marker: bool


class AddedTokens:
    """Finds added tokens in NFC texts.

    `placeholders` are the special tokens that replace characters; with `split_special_tokens` special tokens are
    ordinary text.
    """

    def __init__(self, tokens: Iterable[AddedToken], placeholders: set[str | None], split_special_tokens: bool) -> None:
        self.tokens: dict[str, AddedToken] = {}
        for token in tokens:
            self.tokens.setdefault(unicodedata.normalize("NFC", token.content), token)
        self.placeholders = placeholders
        # a backend whose model knows no word finds exactly the added tokens: anything between two is one unknown token
        self.finder = Tokenizer(WordLevel({ORDINARY_TEXT: 0}, unk_token=ORDINARY_TEXT))
        for content, token in self.tokens.items():
            flags = {
                "single_word": token.single_word,
                "lstrip": token.lstrip,
                "rstrip": token.rstrip,
                "normalized": token.normalized,
            }
            add = self.finder.add_special_tokens if token.special else self.finder.add_tokens
            add([AddedToken(content, special=token.special, **flags)])
        self.finder.encode_special_tokens = split_special_tokens

    def find(self, text: str) -> list[FoundToken]:
        """The added tokens of `text` in order."""
        # most texts hold none, and a substring search is cheaper than the backend
        if not any(content in text for content in self.tokens):
            return []
        encoding = self.finder.encode(text, add_special_tokens=False)
        rows = zip(encoding.ids, encoding.offsets, strict=True)
        # id 0 is `ORDINARY_TEXT`
        return [self._found_token(text, id_, start, end) for id_, (start, end) in rows if id_]

    def _found_token(self, text: str, id_: int, start: int, end: int) -> FoundToken:
        content = str(self.finder.id_to_token(id_))
        left, token = text.index(content, start), self.tokens[content]
        marker = token.content not in self.placeholders and (token.special or _in_brackets(content))
        return FoundToken(start, end, left, left + len(content), token.content, marker)


def _in_brackets(content: str) -> bool:
    first, last = content[0], content[-1]
    opened = first == "<" or unicodedata.category(first) == "Ps"
    closed = last == ">" or unicodedata.category(last) == "Pe"
    return opened and closed
