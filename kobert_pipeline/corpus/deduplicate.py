"""Find documents that are said twice: exact copies (white space ignored) and near ones (MinHash, Broder 1997, as
datatrove does it).

Of equals the first in the corpus's order stays, whatever the number of tasks.
"""

import hashlib
import resource
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.decontaminate import remove_whitespace
from kobert_pipeline.corpus.document import Document
from kobert_pipeline.errors import UserError

DIGEST = 16
SPARE_FILES = 64
"""Files that a process has open besides those of its task, at most."""
EXACT, NEAR = "duplicate", "near_duplicate"


class MinHashOptions(Options):
    """Two documents whose sets of n-grams overlap by a share s are found with probability 1 - (1 -
    s^hashes)^buckets."""

    n_grams: int = Field(5, gt=0)
    """Eojeols in an n-gram."""
    buckets: int = Field(14, gt=0, le=1000)
    """Bands of the signature."""
    hashes_per_bucket: int = Field(8, gt=0, le=1000)
    """Hashes that must all be equal in a band; with 14 buckets half of the pairs that overlap by 0.69 are found, 92 %
    at 0.8."""


class DeduplicateOptions(Options):
    """Which copies are dropped."""

    exact: bool = True
    """Drop documents equal to an earlier one, white space ignored."""
    minhash: MinHashOptions | None = MinHashOptions()
    """Drop documents nearly equal to an earlier one; null keeps them."""


def digest(document: Document) -> bytes:
    """What exact copies share."""
    return hashlib.blake2b(remove_whitespace(document.text).encode(), digest_size=DIGEST).digest()


def exact_copies(digests: list[np.ndarray]) -> list[np.ndarray]:
    """For each file of digests (N, DIGEST) uint8, the rows whose like came earlier."""
    rows = np.concatenate([np.empty((0, DIGEST), np.uint8), *digests]).view(f"V{DIGEST}").ravel()
    first = np.zeros(len(rows), bool)
    first[np.unique(rows, return_index=True)[1]] = True
    ends = np.cumsum([len(one) for one in digests], dtype=np.int64)
    return [np.flatnonzero(~first[end - len(one) : end]) for one, end in zip(digests, ends.tolist(), strict=True)]


def near_copies(buckets: Path, files: int) -> list[np.ndarray]:
    """For each of `files` files, the rows that pairs join, over any number of others, to an earlier document. `buckets`
    holds datatrove's pairs of (file, row)."""
    earlier: dict[tuple[int, int], tuple[int, int]] = {}

    def first(one: tuple[int, int]) -> tuple[int, int]:
        while one in earlier:
            earlier[one] = earlier.get(earlier[one], earlier[one])
            one = earlier[one]
        return one

    for path in sorted(buckets.glob("*.dups")):
        for file, row, other_file, other_row in struct.iter_unpack("<4I", path.read_bytes()):
            low, high = sorted((first((file, row)), first((other_file, other_row))))
            if low != high:
                earlier[high] = low
    dropped: list[list[int]] = [[] for _ in range(files)]
    for file, row in sorted(earlier):
        dropped[file].append(row)
    return [np.array(rows, np.int64) for rows in dropped]


def minhash_config(options: MinHashOptions) -> Any:
    """datatrove's configuration, without its normalisation of diacritics, which would take Hangul apart."""
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.text import TextNormConfig

    return MinhashConfig(
        n_grams=options.n_grams,
        num_buckets=options.buckets,
        hashes_per_bucket=options.hashes_per_bucket,
        norm_config=TextNormConfig(norm_unicode_diacritics=False, norm_numbers=False),
    )


def signature(folder: Path, options: MinHashOptions) -> Any:
    """The step that signs documents by their eojeols."""
    from datatrove.pipeline.dedup.minhash import MinhashDedupSignature

    from kobert_pipeline.corpus.eojeols import Eojeols

    return MinhashDedupSignature(str(folder), minhash_config(options), language=Eojeols())


@dataclass(frozen=True)
class Buckets:
    """Find the pairs of documents that are equal in a band. A task reads one band of all chunks at once."""

    options: MinHashOptions
    work: Path
    chunks: int

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `buckets/RANK_00.dups`."""
        from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets

        allow_open_files(self.chunks + SPARE_FILES)
        signatures, found = str(self.work / "signatures"), str(self.work / "buckets")
        MinhashDedupBuckets(signatures, found, config=minhash_config(self.options)).run(data, rank, tasks)


def allow_open_files(count: int) -> None:
    """Let this process open `count` files at once. Raises UserError where the system does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise UserError(
            f"near copies are looked for in {count - SPARE_FILES} chunks at once, but this system lets a process open "
            f"{hard} files; raise "
            "`ulimit -Hn`, or corpus.part_characters, or say corpus.deduplicate.minhash=null"
        )
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
