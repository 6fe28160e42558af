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
from kobert_pipeline.inference.nearest import nearest, normalized, open_vectors
from kobert_pipeline.progress import current_display
from kobert_pipeline.questions.bm25 import Bm25

METHODS = (*POOLINGS, "bm25", "hybrid")
SAMPLE = 8
"""Vectors of a file that are compared with their texts."""
ROUNDING = 1e-4
"""Largest distance between two computations of one vector of length 1."""
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


def refuse_unknown(methods: Sequence[str], hybrid: str | None) -> None:
    """Raise UserError for a method, or a pooling for `hybrid`, that does not exist."""
    for kind, name, allowed in (*(("method", method, METHODS) for method in methods), ("pooling", hybrid, POOLINGS)):
        if name is not None and name not in allowed:
            raise UserError(f"there is no {kind} {name!r:.40}{did_you_mean(name, allowed)}")


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
            f"truncated to {embedder.max_length} tokens: {embedder.truncated:,} texts; to search whole ones, embed "
            "them with kobert embed --long windows --out FILE.npy, and add --vectors FILE.npy"
        )
    return lambda queries: normalized(embedder.embed(queries)) @ vectors.T


def standard_scores(scores: np.ndarray) -> np.ndarray:
    """Each row with mean 0 and standard deviation 1; zeros where all its scores are equal."""
    centered = scores - scores.mean(1, keepdims=True)
    spread = scores.std(1, keepdims=True)
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
        best = np.argsort(-rows, axis=1, kind="stable")[:, :count]
        blocks.append((best, np.take_along_axis(rows, best, 1)))
    indices, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return indices, values


def is_hit(method: str, score: float) -> bool:
    """Whether a search found a text with this score: by words alone it does not find a text without any of them."""
    return method != "bm25" or score > 0


def top_of_stored(
    path: Path,
    texts: Sequence[str],
    numbers: Sequence[int],
    embedder_of: Callable[[str | None], Embedder],
    by: list[str] | None,
    queries: Sequence[str],
    count: int,
) -> Ranking:
    """{pooling: as `top` of the texts with these `numbers`}, by the cosines of the vectors of all `texts` that are in a
    file already. `by` may name the pooling. Raises UserError where the file does not have a vector for each text, its
    vectors have another width than the embedder's, or they belong to other texts."""
    vectors, embedder = open_vectors(path, len(texts)), embedder_of(by[0] if by else None)
    asked = embedder.embed(queries)
    if asked.shape[1] != vectors.shape[1]:
        raise UserError(
            f"{path} has vectors of {vectors.shape[1]:,} numbers, and those of the query have {asked.shape[1]:,}; give "
            "the checkpoint, --by and --layers with which it was written"
        )
    refuse_other_texts(path, vectors, texts, embedder)
    searched = np.zeros(len(texts), bool)
    searched[numbers] = True
    best, cosines = nearest(vectors, asked, count, searched)
    return {embedder.pooling: (np.searchsorted(numbers, best), cosines)}


def refuse_other_texts(path: Path, vectors: np.ndarray, texts: Sequence[str], embedder: Embedder) -> None:
    """Raise UserError where vectors in a file do not belong to their texts, as a sample shows: they come from other
    texts, another order or another model. Each stored vector must be much nearer to the recomputed vector of its text
    than any other text of the sample is, since the vectors of all texts may be alike."""
    indices = np.unique(np.linspace(0, len(texts) - 1, SAMPLE).astype(int)).tolist()
    # of a long text the file may have the mean of its windows
    rows = dict(zip(indices, embedder.token_ids([texts[index] for index in indices]), strict=True))
    indices = [index for index, row in rows.items() if len(row) < embedder.max_length]
    if not indices or not np.isfinite(vectors[indices]).all():  # of vectors that are not finite `nearest` says so
        return
    recomputed = normalized(embedder.embed_ids([rows[index] for index in indices]))
    for index, vector, stored in zip(indices, recomputed, normalized(vectors[indices]), strict=True):
        others = np.linalg.norm(recomputed - vector, axis=1)
        nearest_other = min(others[others > ROUNDING], default=1.0)
        if np.linalg.norm(stored - vector) > max(ROUNDING, nearest_other / 4):
            raise UserError(
                f"{path}: vector {index + 1:,} is not that of text {index + 1:,} ({texts[index]!r:.40}); give "
                "the files in the order in which kobert embed read them, with its checkpoint, pooling and layers"
            )


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
