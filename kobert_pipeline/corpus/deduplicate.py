"""Deduplication: exact copies (white space ignored) and near copies (MinHash, Broder 1997, as datatrove implements it).

The first of several copies in corpus order is kept, whatever the number of tasks.
"""

import hashlib
import resource
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.decontaminate import remove_whitespace
from kobert_pipeline.errors import UserError

DIGEST = 16
"""Bytes of the hash by which exact copies are found."""
SPARE_FILES = 64
"""How many files a process may have open besides its task's."""
EXACT, NEAR = "duplicate", "near_duplicate"
Place = tuple[int, int]
"""A document: the number of its chunk, and its row there. Places sort in corpus order."""


class MinHashOptions(Options):
    """MinHash: documents whose sets of five-eojeol n-grams have Jaccard similarity s are found with probability
    1 - (1 - s^hashes)^buckets."""

    buckets: int = Field(14, gt=0, le=1000)
    """Bands of the signature; documents that agree in one band are copies."""
    hashes_per_bucket: int = Field(8, gt=0, le=1000)
    """Hashes in a band, which must all be equal; with 14 buckets half of the pairs with similarity 0.69 are found, and
    92 % at 0.8."""


class DeduplicateOptions(Options):
    """Which copies are dropped."""

    exact: bool = True
    """Drop documents equal to an earlier one, white space ignored."""
    minhash: MinHashOptions | None = MinHashOptions()
    """Drop documents that are nearly equal to an earlier one; null keeps them."""
    # in the fingerprint only where it is set, so that runs from before it existed stay valid
    max_documents_per_line: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Drop a line from every document if more documents than this have it, white space ignored: menus, letterheads,
    copyright notices. Lines of documents without an order, such as the reviews of a film, are texts of their own and
    stay. null: no line is dropped."""


def digest(text: str, size: int = DIGEST) -> bytes:
    """A hash of `size` bytes of the text without white space, which is equal for exact copies."""
    return hashlib.blake2b(remove_whitespace(text).encode(), digest_size=size).digest()


def exact_copies(digests: list[np.ndarray]) -> list[dict[int, Place]]:
    """Find exact copies: for each chunk's array of digests, (N, DIGEST) uint8, the rows whose digest occurred before,
    in this chunk or an earlier one, with the place where it occurred first."""
    # (documents, DIGEST) bytes -> (documents,) opaque values, which np.unique compares as a whole
    rows = np.concatenate([np.empty((0, DIGEST), np.uint8), *digests]).view(f"V{DIGEST}").ravel()
    _, firsts, group = np.unique(rows, return_index=True, return_inverse=True)
    first_rows = firsts[group]  # np.unique gives the index of the first of equal values
    copies = np.flatnonzero(first_rows != np.arange(len(rows)))
    # (chunks + 1,) the rows before each chunk; an empty chunk has the same as the one after it, so `right` passes it
    starts = np.cumsum([0, *(len(array) for array in digests)])

    def places(documents: np.ndarray) -> Iterator[Place]:
        chunks = np.searchsorted(starts, documents, side="right") - 1
        yield from zip(chunks.tolist(), (documents - starts[chunks]).tolist(), strict=True)

    copies_by_chunk: list[dict[int, Place]] = [{} for _ in digests]
    for (chunk, row), first in zip(places(copies), places(first_rows[copies]), strict=True):
        copies_by_chunk[chunk][row] = first
    return copies_by_chunk


def near_copies(buckets: Path, files: int) -> list[dict[int, Place]]:
    """Find near copies: for each of `files` chunks, the rows that are copies of an earlier document, directly or
    through other copies, with the place of the earliest. `buckets` holds datatrove's pairs of (file, row)."""
    # union-find whose roots are the earliest documents; `parents` holds every document that is not a root
    parents: dict[Place, Place] = {}

    def root(document: Place) -> Place:
        while document in parents:
            parents[document] = parents.get(parents[document], parents[document])  # path halving
            document = parents[document]
        return document

    for path in sorted(buckets.glob("*.dups")):
        for file, row, other_file, other_row in struct.iter_unpack("<4I", path.read_bytes()):
            # (chunk, row) sorts in corpus order, so of every cluster the first document stays, in whatever order the
            # pairs come
            earlier, later = sorted((root((file, row)), root((other_file, other_row))))
            if earlier != later:
                parents[later] = earlier
    copies_by_chunk: list[dict[int, Place]] = [{} for _ in range(files)]
    for file, row in sorted(parents):
        copies_by_chunk[file][row] = root((file, row))
    return copies_by_chunk


def minhash_config(options: MinHashOptions) -> Any:
    """datatrove's configuration, without its normalization of diacritics, which would decompose Hangul syllables."""
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.text import TextNormConfig

    return MinhashConfig(
        n_grams=5,
        num_buckets=options.buckets,
        hashes_per_bucket=options.hashes_per_bucket,
        # norm_numbers makes every number 0, so that texts with different numbers in the same words would be copies
        norm_config=TextNormConfig(norm_unicode_diacritics=False, norm_numbers=False),
    )


def signature(folder: Path, options: MinHashOptions) -> Any:
    """The datatrove step that writes MinHash signatures of documents, over their eojeols."""
    from datatrove.pipeline.dedup.minhash import MinhashDedupSignature

    from kobert_pipeline.corpus.eojeols import Eojeols

    return MinhashDedupSignature(str(folder), minhash_config(options), language=Eojeols())


@dataclass(frozen=True)
class Buckets:
    """Finds pairs of documents that are equal in a band. Task RANK reads band RANK of all chunks at once."""

    options: MinHashOptions
    work: Path
    chunks: int

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `buckets/RANK_00.dups`."""
        from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets

        # datatrove merges the sorted signatures of a band, so it has one file open per chunk
        allow_open_files(self.chunks + SPARE_FILES)
        signatures, buckets = str(self.work / "signatures"), str(self.work / "buckets")
        MinhashDedupBuckets(signatures, buckets, config=minhash_config(self.options)).run(data, rank, tasks)


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files to `count`. Raises UserError where the hard limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise UserError(
            f"near copies are looked for in {count - SPARE_FILES} chunks at once, but this system lets a process open "
            f"{hard} files; raise `ulimit -Hn` or corpus.part_characters, or set corpus.deduplicate.minhash=null"
        )
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
