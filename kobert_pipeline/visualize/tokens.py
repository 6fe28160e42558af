"""The tokens of a text or of a pair of texts, each with its place, its word and its morphemes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kobert_pipeline.morphemes.normalization import character_end, replace_surrogates
from kobert_pipeline.tokenizer.loading import token_types
from kobert_pipeline.tokenizer.tagged_morphemes import morphemes_of_tokens


@dataclass(frozen=True)
class Token:
    """A token as the vocabulary spells it, with its characters `start` to `end` and `text` in its side.

    `side` is 0 or 1, the text of a pair; `word` the number of its word in that side, with a tokenizer over morphemes
    the morpheme. Both are None for a token that the tokenizer added, such as [CLS]. `morpheme` and `tag` are None where
    the analyzer gives none.
    """

    token: str
    id: int
    start: int
    end: int
    text: str
    side: int | None
    word: int | None
    morpheme: str | None
    tag: str | None

    @property
    def label(self) -> str:
        """What a reader sees: the characters in the text, or the token where it has none."""
        return self.text.strip() or self.token

    @property
    def detail(self) -> str:
        """All else about it, in one line."""
        location = [] if self.side is None else [f"characters {self.start} to {self.end}"]
        tagged = [f"{self.morpheme} ({self.tag})"] if self.morpheme else []
        return ", ".join([f"{self.token} (id {self.id})", *location, *tagged])


@dataclass(frozen=True)
class Tokens:
    """The S tokens of one text or of a pair, in order, and their token types `type_ids`, (S,). `truncated` says whether
    the texts have more."""

    texts: list[str]
    tokens: list[Token]
    type_ids: list[int]
    truncated: bool

    @classmethod
    def of(cls, tokenizer: Any, texts: Sequence[str], max_length: int | None = None) -> "Tokens":
        """The tokens of a text, or of two as a pair, truncated to `max_length` as for the model."""
        texts = [replace_surrogates(text) for text in texts]  # a command line may have them
        limit = {} if max_length is None else {"truncation": True, "max_length": max_length}
        # batches of one text: their encodings are at hand
        encoded = tokenizer(
            *([text] for text in texts), return_offsets_mapping=True, return_token_type_ids=True, **limit
        )
        ids, sides = encoded["input_ids"][0], encoded.sequence_ids(0)
        offsets = [
            (start, end if side is None else character_end(texts[side], end))
            for (start, end), side in zip(encoded["offset_mapping"][0], sides, strict=True)
        ]
        tagged = _morphemes(tokenizer, texts, ids, offsets, sides)
        rows = zip(tokenizer.convert_ids_to_tokens(ids), ids, offsets, sides, encoded.word_ids(0), tagged, strict=True)
        tokens = [
            Token(token, id_, start, end, "" if side is None else texts[side][start:end], side, word, *morpheme)
            for token, id_, (start, end), side, word, morpheme in rows
        ]
        # shorter ones were not truncated, so few texts are tokenized twice
        truncated = max_length is not None and len(ids) == max_length and _has_more(tokenizer, texts, max_length)
        return cls(texts, tokens, token_types(tokenizer, encoded)[0], truncated)


def _has_more(tokenizer: Any, texts: Sequence[str], count: int) -> bool:
    """Whether texts have more than `count` tokens."""
    longer = tokenizer(*([text] for text in texts), truncation=True, max_length=count + 1)
    return len(longer["input_ids"][0]) > count


def _morphemes(
    tokenizer: Any,
    texts: Sequence[str],
    ids: list[int],
    offsets: list[tuple[int, int]],
    sides: list[int | None],
) -> list[tuple[str | None, str | None]]:
    """The morpheme and the tag of each token."""
    tagged: list[tuple[str | None, str | None]] = [(None, None)] * len(ids)
    for side, text in enumerate(texts):
        indices = [index for index, of_token in enumerate(sides) if of_token == side]
        columns = morphemes_of_tokens(tokenizer, [text], [[ids[i] for i in indices]], [[offsets[i] for i in indices]])
        if columns:
            for index, morpheme, tag in zip(indices, columns["morpheme"], columns["tag"], strict=True):
                tagged[index] = (morpheme, tag)
    return tagged
