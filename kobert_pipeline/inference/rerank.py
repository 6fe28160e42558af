"""Order the texts that a search found anew, by a model that reads query and text together, a cross-encoder (Nogueira
and Cho, *Passage Re-ranking with BERT*, 2019)."""

from collections.abc import Callable, Sequence

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Example
from kobert_pipeline.features.tasks.multilabel import sigmoid
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.similar import QUERIES_AT_ONCE, Scores, top

RELEVANT = ("relevant", "same", "entailment")
"""The labels of two texts that belong together; in models that only number two labels, it is the second."""


class Reranker:
    """A checkpoint that says of a query and a text whether they belong together: by one of its labels, or by its only
    output. It orders the first `count` texts of a search. Raises UserError for any other checkpoint."""

    def __init__(self, checkpoint: Checkpoint, count: int = 50) -> None:
        if not checkpoint.takes_pairs:
            raise UserError(f"{checkpoint.folder} does not read pairs of texts, so it cannot order texts by a query")
        labels = list(checkpoint.task.config().get("id2label", {}).values())
        index = relevant_index(labels)
        if index is None:
            raise UserError(
                f"{checkpoint.folder} labels pairs {', '.join(labels[:9])}, none of which says that they belong "
                f"together ({', '.join(RELEVANT)}); give a checkpoint with such a label, or with one output"
            )
        self.checkpoint, self.index, self.count = checkpoint, index, count

    def score(self, examples: list[Example]) -> tuple[np.ndarray, list[int]]:
        """The scores (n,) of pairs of query and text, and their numbers of tokens: the log-odds of the label for texts
        that belong together, or the model's only output. The sigmoid makes probabilities of them, of either kind."""
        predicted = self.checkpoint.predict_examples(examples)
        logits = np.stack(predicted.logits["logits"]).astype(np.float64)
        # log p / (1 - p) of a softmax: the logit less the logarithm of the sum of the other exponentials
        others = np.delete(logits, self.index, axis=1)
        scores = logits[:, self.index] - (np.logaddexp.reduce(others, axis=1) if others.size else 0)
        return scores, predicted.features.lengths.tolist()

    def rerank(
        self, queries: Sequence[str], found: np.ndarray, text_of: Callable[[int], str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The texts that were `found` for each query, (Q, C) indices of `text_of`, most relevant first, and their
        relevance, from 0 to 1. Of equally relevant ones the first stays first."""
        relevance = np.zeros(found.shape)
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            rows = found[start : start + QUERIES_AT_ONCE]
            examples = [
                self.checkpoint.example(query, None, text_of(index))
                for query, indices in zip(queries[start:], rows.tolist(), strict=False)
                for index in indices
            ]
            scores, _ = self.score(examples)
            relevance[start : start + len(rows)] = sigmoid(scores).reshape(rows.shape)
        order = np.argsort(-relevance, axis=1, kind="stable")
        return np.take_along_axis(found, order, 1), np.take_along_axis(relevance, order, 1)

    def reranked(self, scores: Scores, texts: Sequence[str]) -> Scores:
        """The relevance of the first `count` of the texts by other `scores`; -inf for all others."""

        def relevance(queries: Sequence[str]) -> np.ndarray:
            found, values = self.rerank(queries, top(scores, queries, self.count)[0], texts.__getitem__)
            rows = np.full((len(queries), len(texts)), -np.inf)
            np.put_along_axis(rows, found, values, 1)
            return rows

        return relevance


def relevant_index(labels: Sequence[str]) -> int | None:
    """The index of the label for texts that belong together, or of a model's only output; None where there is none."""
    names = [label.casefold() for label in labels]
    if len(names) == 1:
        return 0
    by_number = ("1", "label_1") if len(names) == 2 else ()
    return next((names.index(name) for name in (*RELEVANT, *by_number) if name in names), None)
