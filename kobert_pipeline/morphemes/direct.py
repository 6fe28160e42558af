"""The short way to the ids of single texts: every morpheme is spelled once and remembered, since a text is made of the same few thousand.

The backend's own way costs a fifth of the analyzer's time, most of it for handing strings and lists over. The rows equal the backend's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from tokenizers import Encoding, Tokenizer

from .sequence import Pieces, Span

REMEMBERED = 500_000
"""Spellings that are kept; beyond that it begins anew."""


class Spelling(NamedTuple):
    """A morpheme in pieces: their ids, and the characters of its spelling that each stands for."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Shape:
    """What becomes of a row: at most `longest` pieces, cut off on `truncation_side`; filled up to `length` (None: to the longest row; 0:
    not at all), rounded up to a multiple of `multiple`, on `padding_side`."""

    longest: int | None
    truncation_side: str
    length: int | None
    multiple: int | None
    padding_side: str

    def padded(self, lengths: list[int]) -> int:
        """The length of the filled rows."""
        length = max(lengths) if self.length is None else self.length
        return -(-length // self.multiple) * self.multiple if self.multiple else length


class Direct:
    """Spells texts for a backend as it stands now: added tokens, and whether special tokens are looked for in the text, want a new one."""

    def __init__(self, backend: Tokenizer, add_special_tokens: bool) -> None:
        self.backend = backend
        self.known: dict[str, Spelling] = {}
        sample = backend.encode(["가"], is_pretokenized=True, add_special_tokens=add_special_tokens)
        text = [place for place, special in enumerate(sample.special_tokens_mask) if not special]
        self.before, self.after = tuple(sample.ids[: text[0]]), tuple(sample.ids[text[-1] + 1 :])

    def rows(self, sides: Sequence[Pieces], shape: Shape, pad_id: int, pad_type_id: int, wants_offsets: bool) -> dict[str, list[list[Any]]]:
        """`input_ids`, `token_type_ids`, `attention_mask`, `special_tokens_mask` and maybe `offset_mapping`, a row each."""
        before, after = self.before, self.after
        around = len(before) + len(after)
        found: dict[str, list[list[Any]]] = {"input_ids": [], "special_tokens_mask": []}
        found |= {"offset_mapping": []} if wants_offsets else {}
        for pieces in sides:
            spelled = self._spell(pieces.spellings)
            ids = list(chain.from_iterable(one.ids for one in spelled))
            kept = _kept(len(ids), shape, around)
            ids = ids[kept]
            found["input_ids"].append([*before, *ids, *after])
            found["special_tokens_mask"].append([1] * len(before) + [0] * len(ids) + [1] * len(after))
            if wants_offsets:
                spans = _spans(pieces, spelled)[kept]
                found["offset_mapping"].append([(0, 0)] * len(before) + spans + [(0, 0)] * len(after))
        lengths = [len(row) for row in found["input_ids"]]
        found["token_type_ids"] = [[0] * length for length in lengths]
        found["attention_mask"] = [[1] * length for length in lengths]
        if shape.length != 0:
            fill = {
                "input_ids": pad_id,
                "token_type_ids": pad_type_id,
                "attention_mask": 0,
                "special_tokens_mask": 1,
                "offset_mapping": (0, 0),
            }
            length = shape.padded(lengths)
            for name, rows in found.items():
                found[name] = [_filled(row, length, fill[name], shape.padding_side) for row in rows]
        return found

    def _spell(self, spellings: Sequence[str]) -> list[Spelling]:
        try:
            return [self.known[one] for one in spellings]
        except KeyError:
            self._learn(spellings)
        return [self.known[one] for one in spellings]

    def _learn(self, spellings: Sequence[str]) -> None:
        new = [one for one in dict.fromkeys(spellings) if one not in self.known]
        if len(self.known) + len(new) > REMEMBERED:
            self.known, new = {}, list(dict.fromkeys(spellings))
        encodings = self.backend.encode_batch([[one] for one in new], is_pretokenized=True, add_special_tokens=False)
        self.known.update((one, Spelling(tuple(e.ids), tuple(e.offsets))) for one, e in zip(new, encodings, strict=True))


def _kept(count: int, shape: Shape, around: int) -> slice:
    """The part of a row's own pieces that truncation leaves."""
    if shape.longest is None or count + around <= shape.longest:
        return slice(None)
    room = max(shape.longest - around, 0)
    return slice(room) if shape.truncation_side == "right" else slice(count - room, count)


def _spans(pieces: Pieces, spelled: list[Spelling]) -> list[Span]:
    """The characters of each piece in the text as given. A morpheme in one piece, the common case, lies where the morpheme lies."""
    if isinstance(pieces.begins, range) and not pieces.begins.start:  # the text as given is the text that was cut
        whole = list(zip(pieces.starts, pieces.ends, strict=True))
    else:
        begins, finishes, places = pieces.begins, pieces.finishes, zip(pieces.starts, pieces.ends, strict=True)
        whole = [(begins[start], finishes[end - 1]) if start < end else pieces.locate(i, 0, 0) for i, (start, end) in enumerate(places)]
    found: list[Span] = []
    done = 0
    for number in [number for number, spelling in enumerate(spelled) if len(spelling.ids) != 1]:
        found += whole[done:number]
        found += [pieces.locate(number, *span) for span in spelled[number].spans]
        done = number + 1
    return found + whole[done:] if done else whole


def _filled(row: list[Any], length: int, filler: Any, side: str) -> list[Any]:
    more = [filler] * (length - len(row))
    return more + row if side == "left" else row + more


class OnDemand(Sequence[Encoding]):
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
