"""A checkpoint that is served: which endpoints it answers, and the answers, computed by the code of `inference/`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kobert_pipeline.checkpoint.source import locate
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Example
from kobert_pipeline.features.tasks.choice import Choice
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.inference.checkpoint import Checkpoint, load, task_options
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.inference.predict import fill_masks, fills_masks, predict_rows, with_task
from kobert_pipeline.inference.similar import rankers, top
from kobert_pipeline.inference.tokens import token_rows

ENDPOINTS = ((SpanTask, "/v1/answer"), (TaggingTask, "/v1/tag"), (Choice, None), (Contrastive, None))
"""The endpoints of tasks, None for one without; all others are answered by /v1/classify."""


class Ranking(NamedTuple):
    """Texts to rank by their similarity to a query, by one of `similar.METHODS` (None: the pooling that the model was
    trained with); the `top_k` best are returned."""

    query: str
    texts: list[str]
    by: str | None
    top_k: int


class ServedModel:
    """A loaded checkpoint under the name that requests use.

    `endpoints` are the paths that it answers. The methods take the inputs of a batch and return a result for each; they
    are called by the one thread that owns the model. Raises UserError for a checkpoint that does not load.
    """

    def __init__(self, name: str, checkpoint: str) -> None:
        folder = locate(checkpoint)
        self.name = name
        self.model, self.tokenizer = load(folder)
        self.checkpoint = self._with_task(folder)
        self.embedder = Embedder(self.model, self.tokenizer)
        for part in (self.model, self.embedder.encoder):  # messages name these: where the checkpoint is, is nobody's
            part.name_or_path = name
        # for the event loop, which must not touch a tokenizer that the thread uses at the same time
        self.max_length: int = self.tokenizer.model_max_length
        self.mask_token, self.vocab_size = str(self.tokenizer.mask_token), self.model.config.vocab_size
        self.endpoints = [*self._of_task(), "/v1/embeddings", "/v1/similar", "/v1/tokenize"]
        self.embed(["준비"])  # loads the analyzer and finds damaged weights, before the first request

    def _with_task(self, folder: Path) -> Checkpoint | None:
        try:
            return with_task(folder, self.model, self.tokenizer)
        except UserError:
            if task_options(folder, self.model.config.to_dict()):
                raise
            return None  # a bare encoder, whose vectors are still of use

    def _of_task(self) -> list[str]:
        if self.checkpoint is None:
            return ["/v1/fill-mask"] if fills_masks(self.model) else []
        task = self.checkpoint.task
        path = next((path for kind, path in ENDPOINTS if isinstance(task, kind)), "/v1/classify")
        return [path] if path else []

    @property
    def paired(self) -> bool:
        """Whether the model labels pairs of texts."""
        return self.checkpoint is not None and self.checkpoint.task.paired

    def predict(self, examples: list[Example]) -> list[dict[str, Any]]:
        """The results of `kobert predict` for examples of the model's task."""
        assert self.checkpoint is not None
        return predict_rows(self.checkpoint, examples)

    def fill(self, inputs: list[tuple[str, int]]) -> list[dict[str, Any]]:
        """The `top_k` likeliest tokens for each [MASK], of each (text, top_k)."""
        return [row for text, top_k in inputs for row in fill_masks(self.model, self.tokenizer, [text], top_k)]

    def embed(self, inputs: Sequence[str | list[int]]) -> list[tuple[np.ndarray, int]]:
        """The vector (d,) and the number of tokens of each text, or of each list of token ids."""
        texts = [one for one in inputs if isinstance(one, str)]
        encoded = iter(self.embedder.token_ids(texts) if texts else [])
        ids = [next(encoded) if isinstance(one, str) else one for one in inputs]
        return [(vector, len(row)) for vector, row in zip(self.embedder.embed_ids(ids), ids, strict=True)]

    def tokenize(self, texts: list[str]) -> list[dict[str, Any]]:
        """The tokens of each text."""
        return token_rows(self.tokenizer, texts)

    def rank(self, rankings: list[Ranking]) -> list[list[dict[str, Any]]]:
        """The most similar texts of each ranking, best first."""
        return [self._ranked(*ranking) for ranking in rankings]

    def _ranked(self, query: str, texts: list[str], by: str | None, top_k: int) -> list[dict[str, Any]]:
        def embedder_of(pooling: str | None) -> Embedder:
            return Embedder(self.model, self.tokenizer, pooling)

        trained = self.embedder.pooling
        (scores,) = rankers(texts, [by or trained], embedder_of, hybrid=trained, bm25_weight=0.5).values()
        numbers, values = top(scores, [query], top_k)
        return [
            {"index": number, "score": round(value, 4), "text": texts[number]}
            for number, value in zip(numbers[0].tolist(), values[0].tolist(), strict=True)
        ]

    def refuse_unfit_ids(self, rows: Sequence[list[int]]) -> None:
        """Raise UserError for token ids that the model does not have, or more than it reads."""
        for row in rows:
            if len(row) > self.max_length:
                raise UserError(f"{len(row):,} token ids are given; {self.name} reads at most {self.max_length:,}")
            if max(row) >= self.vocab_size:
                raise UserError(
                    f"there is no token {max(row)}: {self.name} has ids from 0 to {self.vocab_size - 1}, those of "
                    "/v1/tokenize"
                )
