"""Rank texts by their similarity to queries: by the cosine of their vectors, by BM25, or by both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.metrics import ranking_scores
from kobert_pipeline.features.span_examples import question_examples, question_rows
from kobert_pipeline.features.task import is_blank
from kobert_pipeline.inference.embed import LAST, Embedder
from kobert_pipeline.inference.encoders import POOLINGS
from kobert_pipeline.inference.loading import load
from kobert_pipeline.progress import current_display
from kobert_pipeline.questions.bm25 import Bm25, largest

METHODS = (*POOLINGS, "bm25", "hybrid")
QUERIES_AT_ONCE = 256
"""Rows of scores that are in memory at once."""

Scores = Callable[[Sequence[str]], np.ndarray]
"""Queries -> the score of every text for every query, (Q, N); larger is more similar."""
Ranking = dict[str, tuple[np.ndarray, np.ndarray]]
"""{method: the indices and the scores of the best texts of each query, (Q, C) each, best first}"""


class TextEmbedder(Protocol):
    """Whatever has the vectors of texts, (n, d)."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts."""


class EmbeddedTexts:
    """Vectors of texts, which are embedded all together and each only once."""

    def __init__(self, embedder: TextEmbedder, texts: Sequence[str]) -> None:
        self.numbers = {text: index for index, text in enumerate(dict.fromkeys(texts))}
        self.vectors = embedder.embed(list(self.numbers))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts that were given, (n, d)."""
        return self.vectors[[self.numbers[text] for text in texts]]


def refuse_unknown(methods: Sequence[str]) -> None:
    """Raise UserError for a method that does not exist."""
    if unknown := next((method for method in methods if method not in METHODS), None):
        raise UserError(f"there is no method {unknown!r:.40}{did_you_mean(unknown, METHODS)}")


def contexts(path: Path) -> tuple[list[str], list[str], list[int]]:
    """The different contexts of a file with questions, in SQuAD form or a table, its questions, and the number of each
    one's context."""
    examples = question_examples(question_rows(path), "span")
    numbers = {context: n for n, context in enumerate(dict.fromkeys(example["context"] for example in examples))}
    return list(numbers), [e["question"] for e in examples], [numbers[e["context"]] for e in examples]


def embedders(
    folder: Path, tokenizer: str | None, layers: Sequence[int], weights: Path | None
) -> Callable[[str | None], Embedder]:
    """Pooling (None: the training's) -> the embedder of a checkpoint, which is loaded once, and only when an embedder
    is asked for: BM25 needs none. `layers` and `weights` are for the poolings that take them."""
    load_once = lru_cache(lambda: load(folder, tokenizer))

    def embedder_of(pooling: str | None) -> Embedder:
        chosen = LAST if pooling == "first-last" else layers
        loaded = load_once()
        weights_file = weights if pooling == "weighted" else None
        return Embedder(loaded.model, loaded.tokenizer, pooling, chosen, weights_file, folder=loaded.folder)

    return embedder_of


class Searchable(Protocol):
    """Texts that can be searched in."""

    def cosines(self, embedder: TextEmbedder) -> Scores:
        """The cosine of the vectors of query and text."""

    def bm25(self) -> Scores:
        """The scores of BM25."""


@dataclass(frozen=True)
class Texts:
    """Texts that are embedded and indexed for one search."""

    texts: Sequence[str]

    def cosines(self, embedder: TextEmbedder) -> Scores:
        """The cosine of the vectors of query and text."""
        return cosines(self.texts, embedder)

    def bm25(self) -> Scores:
        """The scores of BM25."""
        return Bm25(self.texts).scores


def rankers(
    searched: Searchable,
    methods: Sequence[str],
    embedder_of: Callable[[str | None], TextEmbedder],
    hybrid: str,
    bm25_weight: float,
) -> dict[str, Scores]:
    """{method: its scores} of what is `searched`.

    `embedder_of(pooling)` gives the model. `hybrid` is the pooling of that method, in which the scores of BM25 count
    `bm25_weight` and the cosines the rest, each as standard scores over the texts of a query.
    """
    poolings = dict.fromkeys(hybrid if method == "hybrid" else method for method in methods if method != "bm25")
    scores_by_method: dict[str, Scores] = {pooling: searched.cosines(embedder_of(pooling)) for pooling in poolings}
    if {"bm25", "hybrid"} & set(methods):
        scores_by_method["bm25"] = searched.bm25()
        # standard scores, because BM25 has no largest score while a cosine is at most 1
        scores_by_method["hybrid"] = lambda queries: (
            bm25_weight * standard_scores(scores_by_method["bm25"](queries))
            + (1 - bm25_weight) * standard_scores(scores_by_method[hybrid](queries))
        )
    return {method: scores_by_method[method] for method in methods}


def cosines(texts: Sequence[str], embedder: TextEmbedder) -> Scores:
    """The cosine of the vectors of query and text. A vector of zeros has the cosine 0 with all others. Says how many
    texts were truncated: what is beyond is not searched."""
    vectors = normalized(embedder.embed(texts))
    if isinstance(embedder, Embedder) and embedder.truncated:
        current_display().say(
            f"truncated to {embedder.max_length} tokens: {embedder.truncated:,} texts; `kobert index` reads whole ones"
        )
    return lambda queries: normalized(embedder.embed(queries)) @ vectors.T


def normalized(vectors: np.ndarray) -> np.ndarray:
    """The vectors with length 1, (n, d); vectors of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def standard_scores(scores: np.ndarray) -> np.ndarray:
    """Each row with mean 0 and standard deviation 1; zeros where all its scores are equal."""
    centered = scores - scores.mean(1, keepdims=True)
    spread = scores.std(1, keepdims=True)
    # not 0, since the deviation of equal scores may be a rounding error
    return np.divide(centered, spread, out=np.zeros_like(centered), where=spread > 1e-12)


def not_blank(texts: Sequence[str]) -> list[int]:
    """The indices of the texts that are not blank. Raises UserError where all are blank."""
    indices = [index for index, text in enumerate(texts) if not is_blank(text)]
    if not indices:
        raise UserError("all texts to search in are blank; give at least one that is not")
    return indices


def top(scores: Scores, queries: Sequence[str], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices and the scores of the `count` most similar texts per query, best first: (Q, count) each. Of equal
    scores the first text wins."""
    blocks = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        rows = scores(queries[start : start + QUERIES_AT_ONCE])
        best = np.stack([largest(row, count) for row in rows])
        blocks.append((best, np.take_along_axis(rows, best, 1)))
    indices, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return indices, values


def is_hit(method: str, score: float) -> bool:
    """Whether a search found a text with this score: by words alone it does not find a text without any of them."""
    return method != "bm25" or score > 0


def ranks(scores: Scores, queries: Sequence[str], gold: np.ndarray) -> np.ndarray:
    """The rank of the right text `gold[i]` for query i, from 1: (Q,). Other texts with the same score count as
    better."""
    blocks = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        rows = scores(queries[start : start + QUERIES_AT_ONCE])
        of_gold = np.take_along_axis(rows, gold[start : start + len(rows), None], 1)
        blocks.append((rows >= of_gold).sum(1))
    return np.concatenate(blocks)


def retrieval_scores(scores: Scores, queries: Sequence[str], gold: np.ndarray) -> dict[str, float]:
    """MRR, nDCG and recall of queries whose right texts are `gold` (Q,), in percent."""
    return ranking_scores(ranks(scores, queries, gold))
