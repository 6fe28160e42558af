"""Shards made of numbers instead of text, and what hypothesis draws them from."""

import numpy as np
from hypothesis import strategies as st

from kobert_pipeline.shards.format import DOCUMENT, EOJEOL, MORPHEME, PARAGRAPH, SENTENCE, Shard, Shards

Described = tuple[bool, list[list[int]]]
"""A document: whether it is ordered, and the sentence lengths of each paragraph."""


def shard_of(documents: list[Described], vocab_size: int = 200, seed: int = 0) -> Shard:
    """A shard with random ids and random morphemes and eojeols inside the sentences."""
    rng = np.random.default_rng(seed)
    boundaries: list[int] = []
    starts = [0]
    for _, paragraphs in documents:
        for paragraph in paragraphs:
            for i, length in enumerate(paragraph):
                run = rng.choice([0, MORPHEME, MORPHEME | EOJEOL], length)
                run[0] = MORPHEME | EOJEOL | SENTENCE | (0 if i else PARAGRAPH)
                boundaries += run.tolist()
        if len(boundaries) > starts[-1]:
            boundaries[starts[-1]] |= DOCUMENT
        starts.append(len(boundaries))
    return Shard(
        ids=rng.integers(5, vocab_size, len(boundaries)).astype(np.uint16),
        boundaries=np.array(boundaries, np.uint8),
        documents=np.array(starts, np.int64),
        ordered=np.array([ordered for ordered, _ in documents], bool),
        sources=np.array([ordered for ordered, _ in documents], np.uint32),
        source_names=np.array(["reviews.jsonl", "articles.jsonl"]),
    )


def shards_of(*parts: list[Described]) -> Shards:
    """Several shards seen as one."""
    return Shards([shard_of(part, seed=number) for number, part in enumerate(parts)])


def reviews(count: int, seed: int = 0) -> list[Described]:
    """Unordered documents of one-sentence paragraphs, some longer than any sequence."""
    rng = np.random.default_rng(seed)
    return [(False, [[int(length)] for length in rng.integers(1, 90, 4)]) for _ in range(count)]


def articles(count: int, seed: int = 0) -> list[Described]:
    """Ordered documents of two paragraphs."""
    rng = np.random.default_rng(seed)
    return [(True, [rng.integers(2, 14, 6).tolist(), rng.integers(2, 14, 6).tolist()]) for _ in range(count)]


_paragraphs = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=3)
_parts = st.lists(st.tuples(st.booleans(), _paragraphs), max_size=4)
corpora = st.lists(_parts, min_size=1, max_size=3).filter(any).map(lambda parts: shards_of(*parts))
"""One to three shards, some of them empty, at least one document in all."""
generators = st.integers(0, 2**32).map(np.random.default_rng)


def documents(shards: Shards) -> list[tuple[int, int, bool]]:
    """(start, end, ordered) of every document, in global positions."""
    found: list[tuple[int, int, bool]] = []
    offset = 0
    for shard in shards.shards:
        bounds = (shard.documents + offset).tolist()
        found += zip(bounds[:-1], bounds[1:], shard.ordered.tolist(), strict=True)
        offset += len(shard.ids)
    return found


def document_of(shards: Shards, position: int) -> int:
    """The document of a global position."""
    return next(i for i, (start, end, _) in enumerate(documents(shards)) if start <= position < end)


def all_ids(shards: Shards) -> np.ndarray:
    """The tokens of all shards, concatenated."""
    return np.concatenate([shard.ids for shard in shards.shards])


def all_boundaries(shards: Shards) -> np.ndarray:
    """The boundary bits of all shards, concatenated."""
    return np.concatenate([shard.boundaries for shard in shards.shards])
