"""Where a text holds added tokens, found by the very rules of `tokenizers` (`single_word`, `lstrip`, `rstrip`), and
what they stand for.

A *marker* stands for nothing: a special token or one in brackets (`[SUBJ]`, `</e>`), which annotates the text around
it. The text is analysed as if it were not there, so an entity is spelled as without its markers. Every other added
token *stands for characters*: the mask, the unknown token, an added word. What follows it without white space continues
its eojeol, as 는 does in `[MASK]는`.
"""

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

NOTHING = "\0\0"
"""What the finder calls everything between added tokens."""


class FoundToken(NamedTuple):
    """An added token in a text: characters `start` to `end`, of which `left` to `right` are its `content` and the rest
    is white space that it takes along (`lstrip`, `rstrip`)."""

    start: int
    end: int
    left: int
    right: int
    content: str
    marker: bool


class AddedTokens:
    """Finds added tokens in NFC texts. `placeholders` are the special tokens that stand for characters; with
    `split_special_tokens` special tokens are ordinary text."""

    def __init__(self, tokens: Iterable[AddedToken], placeholders: set[str | None], split_special_tokens: bool) -> None:
        self.tokens: dict[str, AddedToken] = {}
        for token in tokens:
            self.tokens.setdefault(unicodedata.normalize("NFC", token.content), token)
        self.placeholders = placeholders
        # a backend that knows no word finds exactly the added tokens: whatever lies between two of them is one unknown
        # token
        self.finder = Tokenizer(WordLevel({NOTHING: 0}, unk_token=NOTHING))
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
        if not any(content in text for content in self.tokens):
            return []
        encoding = self.finder.encode(text, add_special_tokens=False)
        return [self._found(text, id_, *span) for id_, span in zip(encoding.ids, encoding.offsets, strict=True) if id_]

    def _found(self, text: str, id_: int, start: int, end: int) -> FoundToken:
        content = str(self.finder.id_to_token(id_))
        left, token = text.index(content, start), self.tokens[content]
        marker = token.content not in self.placeholders and (token.special or _bracketed(content))
        return FoundToken(start, end, left, left + len(content), token.content, marker)


def _bracketed(content: str) -> bool:
    opens, closes = content[0], content[-1]
    return (opens == "<" or unicodedata.category(opens) == "Ps") and (
        closes == ">" or unicodedata.category(closes) == "Pe"
    )
