"""From morphemes to rows of ids. A morpheme is spelled once and remembered, since texts are made of the same few
thousand, and single texts are cut off and filled up right here: the backend's own way would cost a fifth of the
analyzer's time. The rows equal the backend's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from tokenizers import Encoding
from tokenizers.models import Model

from .pretokenization import PreTokens, Span

REMEMBERED = 200_000
"""Spellings that are kept; beyond that it begins anew."""


class WordTokens(NamedTuple):
    """A morpheme in tokens: their ids, and the characters of its spelling that each stands for."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]


class CachedEncoder:
    """What a subword model makes of morphemes. It is asked directly: a backend's normalizer and added tokens never come
    between.

    Threads may share it: each works on the dictionary that it saw first, and adds to it what any other would add.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.known: dict[str, WordTokens] = {}

    def encode(self, pretokens: PreTokens, added: dict[str, int]) -> "EncodedText":
        """The side in tokens; `added` are the ids of added tokens."""
        known = self.known
        new = [one for one in dict.fromkeys(pretokens.spellings) if one not in known]
        if len(known) + len(new) > REMEMBERED:
            known, new = {}, list(dict.fromkeys(pretokens.spellings))
            self.known = known
        for one in new:
            known[one] = self._spell(one)
        parts = [known[one] for one in pretokens.spellings]
        for number in pretokens.added:
            content = pretokens.spellings[number]
            parts[number] = WordTokens((added[content],), ((0, len(content)),))
        return EncodedText(pretokens, parts)

    def _spell(self, spelling: str) -> WordTokens:
        tokens = self.model.tokenize(spelling)
        if spelling.isascii():
            return WordTokens(tuple(token.id for token in tokens), tuple(token.offsets for token in tokens))
        characters: list[int] = []  # the model counts bytes
        for number, character in enumerate(spelling):
            characters += [number] * len(character.encode())
        characters.append(len(spelling))
        spans = ((characters[token.offsets[0]], characters[token.offsets[1]]) for token in tokens)
        return WordTokens(tuple(token.id for token in tokens), tuple(spans))


@dataclass
class EncodedText:
    """A side of T tokens: its morphemes and the tokens of each."""

    pretokens: PreTokens
    parts: list[WordTokens]

    @cached_property
    def ids(self) -> list[int]:
        """(T,)"""
        return list(chain.from_iterable(one.ids for one in self.parts))

    @cached_property
    def words(self) -> list[int]:
        """(T,), the morpheme of each token, or the given word where the side was split already."""
        numbers = range(len(self.parts)) if self.pretokens.words is None else self.pretokens.words
        return [number for number, one in zip(numbers, self.parts, strict=True) for _ in one.ids]

    @cached_property
    def spans(self) -> list[Span]:
        """(T,), the characters of each token in the text (or word) as given."""
        return _spans(self.pretokens, self.parts)


@dataclass(frozen=True)
class RowShape:
    """What becomes of a row: at most `longest` pieces, cut off on `truncation_side`; filled up to `length` (None: to
    the longest row; 0: not at all), rounded up to a multiple of `multiple`, on `padding_side`."""

    longest: int | None
    truncation_side: str
    length: int | None
    multiple: int | None
    padding_side: str

    def padded(self, lengths: list[int]) -> int:
        """The length of the filled rows."""
        length = max(lengths) if self.length is None else self.length
        return -(-length // self.multiple) * self.multiple if self.multiple else length


def rows(
    sides: Sequence[EncodedText],
    frame: tuple[list[int], list[int]],
    shape: RowShape,
    pad_ids: tuple[int, int],
    spans: bool,
) -> dict[str, list[Any]]:
    """`input_ids`, `token_type_ids`, `attention_mask`, `special_tokens_mask` and maybe `offset_mapping`, a row for each
    side. `frame` are the ids before and after a text, `pad_ids` those of padding and of its segment."""
    before, after = frame
    around = len(before) + len(after)
    found: dict[str, list[list[Any]]] = {"input_ids": [], "special_tokens_mask": []}
    found |= {"offset_mapping": []} if spans else {}
    for side in sides:
        kept = _kept(len(side.ids), shape, around)
        ids = side.ids[kept]
        found["input_ids"].append([*before, *ids, *after])
        found["special_tokens_mask"].append([1] * len(before) + [0] * len(ids) + [1] * len(after))
        if spans:
            found["offset_mapping"].append([(0, 0)] * len(before) + side.spans[kept] + [(0, 0)] * len(after))
    lengths = [len(row) for row in found["input_ids"]]
    found["token_type_ids"] = [[0] * length for length in lengths]
    found["attention_mask"] = [[1] * length for length in lengths]
    if shape.length != 0:
        fill = {
            "input_ids": pad_ids[0],
            "token_type_ids": pad_ids[1],
            "attention_mask": 0,
            "special_tokens_mask": 1,
            "offset_mapping": (0, 0),
        }
        length = shape.padded(lengths)
        for name, values in found.items():
            found[name] = [_filled(row, length, fill[name], shape.padding_side) for row in values]
    return found


def _kept(count: int, shape: RowShape, around: int) -> slice:
    """The part of a row's own pieces that truncation leaves."""
    if shape.longest is None or count + around <= shape.longest:
        return slice(None)
    room = max(shape.longest - around, 0)
    return slice(room) if shape.truncation_side == "right" else slice(count - room, count)


def _spans(pretokens: PreTokens, spelled: list[WordTokens]) -> list[Span]:
    """The characters of each piece in the text as given. A morpheme in one piece, the common case, lies where the
    morpheme lies."""
    if isinstance(pretokens.begins, range):  # the text as given is the text that was cut
        whole = list(zip(pretokens.starts, pretokens.ends, strict=True))
    else:
        begins, finishes, places = (
            pretokens.begins,
            pretokens.finishes,
            zip(pretokens.starts, pretokens.ends, strict=True),
        )
        whole = [
            (begins[start], finishes[end - 1]) if start < end else pretokens.locate(i, 0, 0)
            for i, (start, end) in enumerate(places)
        ]
    found: list[Span] = []
    done = 0
    for number in [number for number, spelling in enumerate(spelled) if len(spelling.ids) != 1]:
        found += whole[done:number]
        found += [pretokens.locate(number, *span) for span in spelled[number].spans]
        done = number + 1
    return found + whole[done:] if done else whole


def _filled(row: list[Any], length: int, filler: Any, side: str) -> list[Any]:
    more = [filler] * (length - len(row))
    return more + row if side == "left" else row + more


class LazyEncodings(Sequence[Encoding]):
    """Encodings that the backend makes when somebody asks for one: few callers do."""

    def __init__(self, rows: int, make: Callable[[], list[Any]]) -> None:
        self.rows, self.make = rows, make
        self.made: list[Any] | None = None

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, place: Any) -> Any:
        if self.made is None:
            self.made = self.make()
        return self.made[place]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
