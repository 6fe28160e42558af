"""Token embeddings that start as word vectors instead of random numbers: how often tokens occur near each other, as
positive pointwise mutual information, in as few dimensions as the embeddings have (Levy and Goldberg, NIPS 2014; Levy,
Goldberg and Dagan, TACL 2015). This takes seconds for a small model, minutes for a large one, where learning the same
takes a model hundreds of steps. Every rank does it for itself, and a resumed training again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.progress import report
from kobert_pipeline.shards.format import PARAGRAPH, Shard, Shards

if TYPE_CHECKING:
    import torch

MOST_TOKENS = 20_000_000
"""Tokens that are counted at most; more would change the vectors little, and every rank counts for itself."""
TOKENS_AT_ONCE = 4_000_000
"""Tokens whose neighbours are in memory at once."""
CONTEXT_POWER = 0.75
"""The frequencies of contexts are raised to this power, so that rare ones do not have the largest information."""
SEED = 1
"""Random seed of the randomized SVD (Halko et al. 2011)."""
ITERATIONS = 2
"""Power iterations of the randomized SVD."""


class WordVectors(Options):
    """How tokens are counted near each other."""

    window: int = Field(5, gt=0, le=50)
    """Largest distance of two tokens of a paragraph; those at a distance d count 1/d."""


def start_from_counts(model: Any, shards: Shards, options: WordVectors) -> dict[str, int]:
    """Set the embeddings of `model` to word vectors, of the length that its random ones have, and the bias of the
    output layer that shares them, if it has one, to the logarithms of the tokens' frequencies. Tokens without a vector
    keep their random embedding. Returns how many have one."""
    import torch

    report("counting tokens near each other")
    weights = model.get_input_embeddings().weight
    counts, frequencies = count(shards, len(weights), options.window)
    report("computing word vectors")
    word_vectors = vectors(counts, weights.shape[1])
    lengths = np.linalg.norm(word_vectors, axis=1)
    known = lengths > 0
    with torch.no_grad():
        usual = weights.norm(dim=1).mean()
        weights[torch.from_numpy(known)] = (
            torch.from_numpy(word_vectors[known] / lengths[known, None]).to(weights) * usual
        )
        # with the bias the loss of a small ModernBERT was 6.89 after 98 steps, with the vectors alone 7.00
        # (docs/results/tries.md)
        if (bias := output_bias(model, weights)) is not None:
            # add-one smoothing: the logarithm of a token that never occurs would be -inf
            logs = np.log((frequencies + 1) / (frequencies.sum() + len(frequencies)))
            # around zero, where 16-bit numbers are dense; adding a constant to all logits changes nothing
            bias.copy_(torch.from_numpy(logs - np.median(logs)))
    return {"tokens_started_as_word_vectors": int(known.sum())}


def output_bias(model: Any, weights: "torch.Tensor") -> Any:
    """The bias of the layer whose weights are the embeddings, None where it has none."""
    import torch

    layers = (part for part in model.modules() if isinstance(part, torch.nn.Linear) and part.weight is weights)
    return next((layer.bias for layer in layers), None)


def count(shards: Shards, vocab_size: int, window: int) -> tuple[Any, np.ndarray]:
    """How often each token occurs near each other one, as a sparse symmetric (V, V) matrix, and how often at all, (V,).
    Of more than `MOST_TOKENS` chosen ones, the first of each shard are counted."""
    from scipy.sparse import coo_matrix, csr_matrix

    counts, frequencies = csr_matrix((vocab_size, vocab_size), dtype=np.float32), np.zeros(vocab_size, np.int64)
    for ids, paragraphs in chunks(shards):
        frequencies += np.bincount(ids, minlength=vocab_size)
        rows, columns, weights = [], [], []
        for distance in range(1, window + 1):
            near = paragraphs[distance:] == paragraphs[:-distance]
            rows.append(ids[distance:][near])
            columns.append(ids[:-distance][near])
            weights.append(np.full(len(rows[-1]), 1 / distance, np.float32))
        places = np.concatenate(rows), np.concatenate(columns)
        counts = counts + coo_matrix((np.concatenate(weights), places), shape=counts.shape).tocsr()
    # each pair was counted in one direction only
    return counts + counts.T, frequencies


def chunks(shards: Shards) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Some `TOKENS_AT_ONCE` of the tokens to count at a time, and a number for each one's paragraph."""
    total = sum(number_of_chosen(shard) for _, shard in shards)
    share = min(1, MOST_TOKENS / max(1, total))
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for offset, shard in shards:
        # the same share of each shard: the first shards alone would leave out the sources at the end of the corpus
        ids, paragraphs = chosen_tokens(shard, round(share * number_of_chosen(shard)))
        parts.append((ids, paragraphs + offset))  # so that shards share no number
        if sum(len(ids) for ids, _ in parts) >= TOKENS_AT_ONCE:
            yield joined(parts)
            parts = []
    if parts:
        yield joined(parts)


def joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The parts as one."""
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([paragraphs for _, paragraphs in parts])


def number_of_chosen(shard: Shard) -> int:
    """The number of tokens in the chosen documents of a shard."""
    lengths = np.diff(shard.documents)
    return int(lengths.sum() if shard.chosen is None else lengths[shard.chosen].sum())


def chosen_tokens(shard: Shard, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `most` tokens of the chosen documents of a shard, and the number of each one's paragraph."""
    paragraphs = np.cumsum(shard.boundaries & PARAGRAPH != 0)
    if shard.chosen is None:
        positions = np.arange(len(shard.ids))
    else:
        positions = np.flatnonzero(np.repeat(shard.chosen, np.diff(shard.documents)))
    return shard.ids[positions[:most]].astype(np.int64), paragraphs[positions[:most]]


def vectors(counts: Any, size: int) -> np.ndarray:
    """The word vectors (V, size) float32 of the counts (V, V): U S^0.5 of the truncated SVD of positive pointwise
    mutual information. Zeros for tokens that no neighbour says anything about, and in the dimensions that a vocabulary
    smaller than `size` does not have."""
    from scipy.sparse import coo_matrix
    from sklearn.utils.extmath import randomized_svd

    totals = np.asarray(counts.sum(1), np.float64).ravel()
    contexts = totals**CONTEXT_POWER
    cells = counts.tocoo()
    # log P(t, c) / (P(t) P(c)), where the share P(c) is of the powers (context distribution smoothing)
    information = np.log(cells.data * contexts.sum() / (totals[cells.row] * contexts[cells.col]))
    positive = information > 0
    coordinates = cells.row[positive], cells.col[positive]
    matrix = coo_matrix((information[positive].astype(np.float32), coordinates), shape=counts.shape).tocsr()
    left, strengths, _ = randomized_svd(matrix, min(size, len(totals)), n_iter=ITERATIONS, random_state=SEED)
    left[np.diff(matrix.indptr) == 0] = 0  # what is left there is rounding
    # the root of the strengths: with the strengths themselves vectors are worse (Levy, Goldberg and Dagan 2015)
    word_vectors = left * np.sqrt(strengths)
    return np.pad(word_vectors, ((0, 0), (0, size - word_vectors.shape[1]))).astype(np.float32)
