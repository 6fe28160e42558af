"""The data type of pretraining: a `Shard`, flat token ids with the boundaries of all larger units, and `Shards`, many
of them as one sequence.

Files of a shard of N tokens and D documents: `NAME.ids.npy` (N,) uint16 or uint32; `NAME.boundaries.npy` (N,) uint8,
the bits below; `NAME.documents.npy` (D + 1,) int64, the first token of each document, and N; `NAME.ordered.npy` (D,)
bool, whether a document's paragraphs have a meaningful order; `NAME.sources.npy` (D,) uint32, the number of the source
that a document is from, and `NAME.source_names.npy` (S,) text, the names of these sources.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kobert_pipeline.corpus.document import Document, first_unmatched, is_from
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import write_array
from kobert_pipeline.tokenizer.special_tokens import OUR_IDS, SpecialIds

MORPHEME, EOJEOL, SENTENCE, PARAGRAPH, DOCUMENT = 1, 2, 4, 8, 16
"""Bits of the first token of each unit. The first token of a document also starts a paragraph, the first token of a
paragraph also a sentence and an eojeol, and so on down."""

FIELDS = ("ids", "boundaries", "documents", "ordered", "sources", "source_names")


@dataclass(frozen=True)
class Shard:
    """N tokens of D documents; the module docstring gives the shapes. `chosen` (D,) bool says which documents sequences
    are made of; None: all of them."""

    ids: np.ndarray
    boundaries: np.ndarray
    documents: np.ndarray
    ordered: np.ndarray
    sources: np.ndarray
    source_names: np.ndarray
    chosen: np.ndarray | None = None


def shard_of(
    documents: Sequence[Document], ids: Iterable[Sequence[int]], boundaries: list[np.ndarray], vocab_size: int
) -> Shard:
    """The shard of `documents`, from the ids and the boundary bits of the tokens of each."""
    # two bytes per token wherever the vocabulary allows it
    kind = np.uint16 if vocab_size <= 2**16 else np.uint32
    sources, source_names = number_sources(document.source for document in documents)
    return Shard(
        # the empty arrays are for a split without documents in this part: `concatenate` requires at least one array
        ids=np.concatenate([np.empty(0, kind), *(np.array(row, kind) for row in ids)]),
        boundaries=np.concatenate([np.empty(0, np.uint8), *boundaries]),
        documents=np.cumsum([0, *map(len, boundaries)], dtype=np.int64),
        ordered=np.array([document.ordered for document in documents], bool),
        sources=sources,
        source_names=source_names,
    )


def number_sources(names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """`sources` and `source_names` of a shard, from the name of each document's source."""
    # np.str_, since the empty list of a shard without documents would become float64
    distinct, numbers = np.unique(np.array(list(names), np.str_), return_inverse=True)
    return numbers.astype(np.uint32), distinct


def shard_path(folder: Path, name: str, field: str) -> Path:
    """The file of one array of a shard."""
    return folder / f"{name}.{field}.npy"


def write_shard(folder: Path, name: str, shard: Shard) -> None:
    """Write the arrays of a shard."""
    for field in FIELDS:
        write_array(shard_path(folder, name, field), getattr(shard, field))


def open_shard(folder: Path, name: str) -> Shard:
    """Memory-map a shard. Raises UserError for arrays that are unreadable or do not fit together."""
    try:
        shard = Shard(*(np.load(shard_path(folder, name, field), mmap_mode="r") for field in FIELDS))
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"shard {name} in {folder} cannot be read ({error}); rebuild it with --redo shards") from None
    tokens = len(shard.ids)
    # a slice, since a damaged file may hold no number at all
    ends = shard.documents[-1:].tolist()
    per_document = {len(shard.ordered), len(shard.sources), len(shard.documents) - 1}
    sources_fit = not len(shard.sources) or shard.sources.max() < len(shard.source_names)
    if len(shard.boundaries) != tokens or ends != [tokens] or len(per_document) > 1 or not sources_fit:
        raise UserError(f"the arrays of shard {name} in {folder} do not fit together; rebuild it with --redo shards")
    return shard


class Shards:
    """All shards of a split as one sequence of tokens, addressed by global position. `special` are the ids of the
    special tokens in their vocabulary; shards themselves hold none."""

    def __init__(self, shards: list[Shard], special: SpecialIds = OUR_IDS) -> None:
        self.shards, self.special = shards, special
        self.offsets = np.cumsum([0] + [len(shard.ids) for shard in shards])

    @classmethod
    def open(cls, folder: Path, split: str, special: SpecialIds = OUR_IDS) -> "Shards":
        """The shards of `split` ("train" or "held_out") in order. Raises UserError where there are none."""
        # sorted, since `glob` has no order: a batch is drawn by global position, which must be the same on every rank
        names = sorted(path.name.removesuffix(".ids.npy") for path in folder.glob(f"{split}-*.ids.npy"))
        if not names:
            raise UserError(f"{folder} holds no shard of the split {split!r}; build them with kobert shards")
        return cls([open_shard(folder, name) for name in names], special)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __iter__(self) -> Iterator[tuple[int, Shard]]:
        """The global position of each shard's first token, and the shard."""
        # not strict, since `offsets` also has the end of the last shard
        return zip(self.offsets.tolist(), self.shards, strict=False)

    def names(self) -> set[str]:
        """The names of the sources that documents are from."""
        return {str(shard.source_names[source]) for shard in self.shards for source in np.unique(shard.sources)}

    def of_sources(self, patterns: Sequence[str]) -> "Shards":
        """These shards with only the documents chosen whose source has a name that matches a pattern (as in a shell:
        `*` is any text), with or without the suffix of its compression; without patterns all of them. Positions stay
        the same. Raises UserError for a pattern that matches no source."""
        if not patterns:
            return self
        names = sorted({str(name) for shard in self.shards for name in shard.source_names})
        if (pattern := first_unmatched(patterns, names)) is not None:
            raise UserError(
                f"no document of the shards is from {pattern!r}; they are from {', '.join(names[:10])}"
                f"{' and others' * (len(names) > 10)}"
            )
        chosen = []
        for shard in self.shards:
            fits = [is_from(str(name), patterns) for name in shard.source_names]
            # (S,) by name -> (D,) by document
            chosen.append(replace(shard, chosen=np.array(fits, bool)[shard.sources]))
        return Shards(chosen, self.special)

    def gather(self, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Many spans of tokens at once, concatenated: ids (T,) int64 and boundaries (T,) uint8.

        Span i has `lengths[i]` tokens from the global position `starts[i]`, all in one shard.
        """
        # one indexing operation per shard instead of one per span
        # right, since an empty shard has the same offset as the one after it, which has the tokens
        shard_indices = np.searchsorted(self.offsets, starts, side="right") - 1  # (spans,) the shard of each
        targets = np.cumsum(lengths) - lengths  # (spans,) where each span starts in the result
        ids, boundaries = np.empty(int(lengths.sum()), np.int64), np.empty(int(lengths.sum()), np.uint8)
        for shard_index in np.unique(shard_indices).tolist():
            shard, chosen = self.shards[shard_index], np.flatnonzero(shard_indices == shard_index)
            source = ranges(starts[chosen] - self.offsets[shard_index], lengths[chosen])
            # in the common case of one shard the result is in order already
            target = slice(None) if len(chosen) == len(starts) else ranges(targets[chosen], lengths[chosen])
            ids[target], boundaries[target] = shard.ids[source], shard.boundaries[source]
        return ids, boundaries


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`lengths[0]` consecutive numbers from `starts[0]`, then `lengths[1]` from `starts[1]`, and so on: (T,)."""
    # starts [5, 20], lengths [3, 2] -> [0 1 2 3 4] + [5 5 5 17 17] = [5 6 7 20 21]
    return np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
