# SPDX-License-Identifier: Apache-2.0
"""Token ids of morphemes from a cache, and the rows of single texts built in Python.

A text consists of the same few thousand morphemes over and over, so each is encoded once. Truncation and padding of
single texts are done here too, because the backend's own way would cost a fifth of the analyzer's time. The rows equal
the backend's.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from tokenizers import Encoding
from tokenizers.models import Model

from .pretokenization import PreTokens, Span

CACHE_SIZE = 200_000
"""Most morphemes in the cache of a `CachedEncoder`, which is emptied beyond that."""


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Pause Python's cycle collector, unless it is paused already."""
    # A batch is hundreds of thousands of small tuples without a cycle. Each time enough of them exist the collector
    # would go through all live objects, torch and transformers included: an eighth of the time of a large batch.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class WordTokens(NamedTuple):
    """The tokens of one morpheme: their ids, and the characters of its spelling that each covers."""

    ids: tuple[int, ...]
    offsets: tuple[Span, ...]


class CachedEncoder:
    """Encodes morphemes with a subword model, each of them once.

    The model is called directly, so the normalizer and added tokens of a backend cannot interfere. Threads may share an
    encoder without a lock: each works on the dictionary it got first, and adds entries that any other would add.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.cache: dict[str, WordTokens] = {}

    def encode(self, pretokens: PreTokens, added: dict[str, int]) -> "EncodedText":
        """The tokens of a side; `added` are the ids of added tokens by content."""
        cache = self.cache
        new = [spelling for spelling in dict.fromkeys(pretokens.spellings) if spelling not in cache]
        if len(cache) + len(new) > CACHE_SIZE:
            # a new dictionary, not `clear`: another thread may be reading the old one
            cache, new = {}, list(dict.fromkeys(pretokens.spellings))
            self.cache = cache
        for spelling in new:
            cache[spelling] = self._encode_word(spelling)
        words = [cache[spelling] for spelling in pretokens.spellings]
        for index in pretokens.added:
            content = pretokens.spellings[index]
            words[index] = WordTokens((added[content],), ((0, len(content)),))
        return EncodedText(pretokens, words)

    def _encode_word(self, spelling: str) -> WordTokens:
        tokens = self.model.tokenize(spelling)
        ids = tuple(token.id for token in tokens)
        if spelling.isascii():
            return WordTokens(ids, tuple(token.offsets for token in tokens))
        # the model counts UTF-8 bytes: entry i is the character that byte i belongs to
        characters: list[int] = []
        for number, character in enumerate(spelling):
            characters += [number] * len(character.encode())
        characters.append(len(spelling))
        return WordTokens(ids, tuple((characters[token.offsets[0]], characters[token.offsets[1]]) for token in tokens))


@dataclass
class EncodedText:
    """A side of T tokens: its morphemes and the tokens of each."""

    pretokens: PreTokens
    word_tokens: list[WordTokens]

    @cached_property
    def ids(self) -> list[int]:
        """Token ids, (T,)."""
        return list(chain.from_iterable(word.ids for word in self.word_tokens))

    @cached_property
    def word_ids(self) -> list[int]:
        """The index of each token's morpheme, (T,); of its given word where the side was split already."""
        numbers = range(len(self.word_tokens)) if self.pretokens.words is None else self.pretokens.words
        return [number for number, word in zip(numbers, self.word_tokens, strict=True) for _ in word.ids]

    @cached_property
    def offsets(self) -> list[Span]:
        """The characters of each token in the text (or word) as given, (T,)."""
        return _offsets(self.pretokens, self.word_tokens)


def _offsets(pretokens: PreTokens, word_tokens: list[WordTokens]) -> list[Span]:
    places = zip(pretokens.starts, pretokens.ends, strict=True)
    begins, finishes = pretokens.begins, pretokens.finishes
    if isinstance(begins, range):  # the text was NFC as given, so there is nothing to translate
        whole = list(places)
    else:
        whole = [
            (begins[start], finishes[end - 1]) if start < end else pretokens.locate(index, 0, 0)
            for index, (start, end) in enumerate(places)
        ]
    # most morphemes are one token, whose span is the morpheme's; only the others are located token by token
    offsets: list[Span] = []
    done = 0
    for index in [index for index, word in enumerate(word_tokens) if len(word.ids) != 1]:
        offsets += whole[done:index]
        offsets += [pretokens.locate(index, *span) for span in word_tokens[index].offsets]
        done = index + 1
    return offsets + whole[done:] if done else whole


@dataclass(frozen=True)
class RowShape:
    """Truncation and padding of rows: at most `max_length` tokens, removed on `truncation_side`; padded to `length`
    (None: to the longest row; 0: not at all), rounded up to a multiple of `multiple`, on `padding_side`."""

    max_length: int | None
    truncation_side: str
    length: int | None
    multiple: int | None
    padding_side: str

    def kept(self, count: int, special: int) -> slice:
        """The part of a text's `count` tokens that truncation leaves, given the number of `special` tokens around
        it."""
        if self.max_length is None or count + special <= self.max_length:
            return slice(None)
        room = max(self.max_length - special, 0)
        return slice(room) if self.truncation_side == "right" else slice(count - room, count)

    def padded_length(self, lengths: list[int]) -> int:
        """The length of padded rows, given their own lengths."""
        length = max(lengths) if self.length is None else self.length
        return -(-length // self.multiple) * self.multiple if self.multiple else length

    def pad(self, row: list[Any], length: int, filler: Any) -> list[Any]:
        """`row` with `filler` up to `length`; a longer row stays as it is."""
        padding = [filler] * (length - len(row))
        return padding + row if self.padding_side == "left" else row + padding


def build_rows(
    texts: Sequence[EncodedText],
    special_ids: tuple[list[int], list[int]],
    shape: RowShape,
    pad_ids: tuple[int, int],
    with_offsets: bool,
) -> dict[str, list[Any]]:
    """`input_ids`, `token_type_ids`, `attention_mask`, `special_tokens_mask` and, `with_offsets`, `offset_mapping`:
    one row per text. `special_ids` are the ids before and after a text, `pad_ids` the token id and the token type id of
    padding."""
    before, after = special_ids
    rows: dict[str, list[list[Any]]] = {"input_ids": [], "special_tokens_mask": []}
    if with_offsets:
        rows["offset_mapping"] = []
    for text in texts:
        kept = shape.kept(len(text.ids), len(before) + len(after))
        ids = text.ids[kept]
        rows["input_ids"].append([*before, *ids, *after])
        rows["special_tokens_mask"].append([1] * len(before) + [0] * len(ids) + [1] * len(after))
        if with_offsets:
            rows["offset_mapping"].append([(0, 0)] * len(before) + text.offsets[kept] + [(0, 0)] * len(after))
    lengths = [len(row) for row in rows["input_ids"]]
    rows["token_type_ids"] = [[0] * length for length in lengths]
    rows["attention_mask"] = [[1] * length for length in lengths]
    if shape.length == 0:
        return rows
    fillers = {
        "input_ids": pad_ids[0],
        "token_type_ids": pad_ids[1],
        "attention_mask": 0,
        "special_tokens_mask": 1,
        "offset_mapping": (0, 0),
    }
    length = shape.padded_length(lengths)
    return {name: [shape.pad(row, length, fillers[name]) for row in column] for name, column in rows.items()}


class LazyEncodings(Sequence[Encoding]):
    """The `encodings` of a `BatchEncoding`, built by the backend at the first access, since few callers need them."""

    def __init__(self, length: int, build: Callable[[], Sequence[Any]]) -> None:
        self.length, self.build = length, build
        self.built: Sequence[Any] | None = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        if self.built is None:
            self.built = self.build()
        return self.built[index]

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled as a plain list: `build` holds the whole tokenizer
        return list, (list(self),)
