"""Analysed documents + tokenizer -> shards; or documents + the tokenizer of an existing checkpoint -> shards.

The morphemes are read from the stored analysis, so no analyzer runs here; the ids are the same as the saved tokenizer
gives for the raw text.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from tokenizers import Tokenizer

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, read_analysis
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import (
    count_documents,
    document_ids,
    document_parts,
    in_split,
    read_documents,
)
from kobert_pipeline.corpus.executor import TASK_LOGS, Executor
from kobert_pipeline.corpus.executors.local import HERE
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import counts_of_part, finish_part, finished_part
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE
from kobert_pipeline.shards.format import (
    DOCUMENT,
    EOJEOL,
    FIELDS,
    MORPHEME,
    PARAGRAPH,
    SENTENCE,
    Shard,
    shard_of,
    shard_path,
    write_shard,
)
from kobert_pipeline.shards.unanalyzed import make_shard as make_unanalyzed_shard
from kobert_pipeline.tokenizer.loading import is_morpheme_tokenizer, load_tokenizer
from kobert_pipeline.tokenizer.special_tokens import UNK_ID
from kobert_pipeline.tokenizer.unknown import SAMPLE, judge_rate, rate, unknown_token_id, unknown_words

VERSION = 4
SPLITS = ("train", "held_out")
WRITES = (*(f"{split}-*.{field}.npy" for split in SPLITS for field in FIELDS), f"{TASK_LOGS}/**")
"""Patterns of every file that the stage writes to its folder."""


class ShardsOptions(Options):
    """How to split documents into training and held-out data."""

    held_out: float = Field(0.005, gt=0, lt=0.5)
    """Share of documents that are not trained on but measure the held-out loss; chosen by a hash of their ids."""


def run(
    options: ShardsOptions,
    texts: Path,
    tokenizer: Path,
    out: Path,
    num_workers: int | None = None,
    executor: Executor = HERE,
    analyzed: bool = True,
) -> dict[str, Any]:
    """Write a train and a held-out shard per part of the analysis, or where nothing is `analyzed` of the corpus, for a
    tokenizer that needs no analyzer; in `num_workers` processes, or where another `executor` runs them. Returns counts.
    Raises UserError, before any work, when a split would be empty or the tokenizer needs an analyzer."""
    parts = Parts(document_parts(texts), tokenizer, analyzed)
    if not analyzed and is_morpheme_tokenizer(load_tokenizer(tokenizer)):
        raise UserError(
            "checkpoint: its tokenizer is one over morphemes, which needs the stages analysis and tokenizer; leave "
            "checkpoint out, and name its folder in pretrain.base and tokenizer.base (with keep: all)"
        )
    refuse_empty_split(options, parts.paths)
    step, sizes = ShardPart(options, parts, out), [count_documents([path]) for path in parts.paths]
    size = sum(path.stat().st_size for path in parts.paths)
    executor.for_input(num_workers, size).run_parts(step, sizes, out, "encoding")
    total = {f"{split}_{name}": 0 for split in SPLITS for name in ("documents", "tokens", "unknown")}
    for rank in range(len(parts.paths)):
        counts = counts_of_part(step.mark(rank))
        total = {key: total[key] + counts[key] for key in total}
    rates = {f"{split}_unknown_rate": rate(total.pop(f"{split}_unknown"), total[f"{split}_tokens"]) for split in SPLITS}
    judge_rate("shards: the corpus", rates["train_unknown_rate"], parts.backend(), parts.unknown_words)
    return total | rates


@dataclass(frozen=True)
class Parts:
    """The parts of the analysis, or of the corpus where nothing is `analyzed`, and the folder of the tokenizer."""

    paths: list[Path]
    tokenizer: Path
    analyzed: bool = True

    def backend(self) -> Tokenizer:
        """What encodes them."""
        if self.analyzed:
            backend = read_morpheme_backend(self.tokenizer / VOCABULARY_FILE)
        else:
            backend = load_tokenizer(self.tokenizer).backend_tokenizer
            # a saved tokenizer may ask for both, but documents are encoded whole
            backend.no_truncation()
            backend.no_padding()
        backend.encode_special_tokens = True  # "[MASK]" in a document is six characters, not the special token
        return backend

    def unknown_words(self) -> list[str]:
        """Some words that the vocabulary lacks; [] for analysed texts."""
        if self.analyzed:
            return []
        texts = (document.text for document in islice(read_documents(self.paths[0]), SAMPLE))
        return unknown_words(texts, load_tokenizer(self.tokenizer))

    @cached_property  # not read before a process has its own copy, so that no tokenizer is pickled
    def reader(self) -> tuple[Callable[[Path], Iterator[Any]], Callable[[list[Any]], Shard], int | None]:
        """What reads the rows of a part, what makes a shard of some, and the id of the token for what the vocabulary
        lacks."""
        if self.analyzed:
            return read_analysis, partial(make_shard, self.backend()), UNK_ID
        return (
            read_documents,
            partial(make_unanalyzed_shard, self.backend()),
            unknown_token_id(load_tokenizer(self.tokenizer)),
        )


@dataclass(frozen=True)
class ShardPart:
    """Writes both shards of one part, on any machine."""

    options: ShardsOptions
    parts: Parts
    out: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write the shards of the part of this number, unless they are finished."""
        path, mark = self.parts.paths[rank], self.mark(rank)
        if finished_part(mark) is not None:
            return
        read, make, unknown = self.parts.reader
        number = part_number(path)
        counts = write_part(self.options, read(path), make, unknown, self.out, number)
        files = (shard_path(self.out, f"{split}-{number}", field) for split in SPLITS for field in FIELDS)
        finish_part(mark, counts, *files)

    def mark(self, rank: int) -> Path:
        """The file whose mark says that both shards of a part, which are written together, are finished."""
        return shard_path(self.out, f"train-{part_number(self.parts.paths[rank])}", "ids")


def part_number(path: Path) -> str:
    """The number in the name of a part."""
    return path.stem.removeprefix("part-")


def refuse_empty_split(options: ShardsOptions, parts: list[Path]) -> None:
    """Raise UserError unless both splits get at least one document."""
    ids = [id_ for part in parts for id_ in document_ids(part)]
    held_out = sum(in_split(id_, options.held_out) for id_ in ids)
    if not 0 < held_out < len(ids):
        raise UserError(
            f"shards.held_out = {options.held_out} holds out {held_out} of {len(ids)} documents, but training "
            f"and held-out texts need at least one; choose another share, or add documents"
        )


def write_part(
    options: ShardsOptions,
    rows: Iterable[Any],
    make: Callable[[list[Any]], Shard],
    unknown: int | None,
    out: Path,
    part_number: str,
) -> dict[str, int]:
    """Write both shards of the documents of one part; returns its counts."""
    splits: dict[str, list[Any]] = {"held_out": [], "train": []}
    for document in rows:
        splits["held_out" if in_split(document.id, options.held_out) else "train"].append(document)
    counts: dict[str, int] = {}
    for split, documents in splits.items():
        shard = make(documents)
        write_shard(out, f"{split}-{part_number}", shard)
        counts |= {f"{split}_documents": len(documents), f"{split}_tokens": len(shard.ids)}
        counts[f"{split}_unknown"] = int((shard.ids == unknown).sum()) if unknown is not None else 0
    return counts


def make_shard(backend: Tokenizer, documents: list[AnalyzedDocument]) -> Shard:
    """The shard of `documents`, encoded from their stored morphemes."""
    encodings = backend.encode_batch(
        [document.words() for document in documents], is_pretokenized=True, add_special_tokens=False
    )
    boundaries = [
        # no word id is None, since no special tokens are added
        boundaries_of(document, np.array(encoding.word_ids, np.int64))
        for document, encoding in zip(documents, encodings, strict=True)
    ]
    ids = (encoding.ids for encoding in encodings)
    return shard_of([document.document for document in documents], ids, boundaries, backend.get_vocab_size())


def boundaries_of(document: AnalyzedDocument, words: np.ndarray) -> np.ndarray:
    """The boundary bits of each token, (N,) uint8; `words` (N,) is the index of its morpheme."""
    text, segmentation = document.document.text, document.segmentation
    bits = np.full(len(segmentation), MORPHEME, np.uint8)  # (morphemes,)
    # in UTF-32, so that the array has one number per character, which is what offsets count
    line_breaks = np.frombuffer(text.encode("utf-32-le"), np.uint32) == ord("\n")
    # (morphemes,) line breaks before each; a morpheme of an empty span may be where a line break is, and ends its line
    lines = np.concatenate([[0], np.cumsum(line_breaks)])[segmentation.starts]
    bits[segmentation.initial] |= EOJEOL
    bits[np.diff(lines, prepend=-1) != 0] |= PARAGRAPH
    bits[np.diff(segmentation.sentences, prepend=-1) != 0] |= SENTENCE
    # a slice, since a document may have no token
    bits[:1] |= DOCUMENT
    # of a morpheme's tokens only the first starts anything
    first = np.diff(words, prepend=-1) != 0
    return np.where(first, bits[words] if len(words) else bits, 0).astype(np.uint8)
