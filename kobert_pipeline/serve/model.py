"""A checkpoint that is served: which endpoints it answers, and the answers, computed by the code of `inference/`."""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kobert_pipeline.checkpoint.source import load_errors
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.features.tasks.multilabel import sigmoid
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.inference.loading import BY_NGRAMS, FILES, TORCH
from kobert_pipeline.inference.rerank import Reranker
from kobert_pipeline.inference.similar import EmbeddedTexts, Searchable, Texts, is_hit, not_blank, rankers, top
from kobert_pipeline.inference.text_index import TextIndex
from kobert_pipeline.inference.tokens import token_rows
from kobert_pipeline.inference.windows import splits
from kobert_pipeline.serve.model_facts import attention_row, card_scores


class Ranking(NamedTuple):
    """Texts (None: those of the index) to rank by their similarity to a query, by one of `similar.METHODS` (None: the
    pooling that the model was trained with, of an index its first); the `top_k` best are returned."""

    query: str
    texts: list[str] | None
    by: str | None
    top_k: int


class Relevance(NamedTuple):
    """How relevant a text is to a query, and the tokens of both."""

    log_odds: float
    probability: float
    tokens: int


class ServedModel:
    """A loaded checkpoint under the name that requests use.

    `endpoints` are the paths that it answers, `torch_only` the paths that it would answer with the backend `torch`,
    `long` is what is done with long texts. The methods take the inputs of a batch and return a result for each; they
    are called by the one thread that owns the model. Raises UserError for a checkpoint that does not load.
    """

    def __init__(
        self,
        name: str,
        checkpoint: str,
        long: str = "truncate",
        backend: str = TORCH,
        tokenizer: str | None = None,
    ) -> None:
        self.name, self.long = name, long
        self.checkpoint = Checkpoint.load(checkpoint, tokenizer, backend)
        self.backend = self.checkpoint.backend
        self.model, self.tokenizer = self.checkpoint.model, self.checkpoint.tokenizer
        self.task = self._task()
        self.reranker = self._reranker()
        folder = self.checkpoint.folder
        # error messages quote it, and must not tell a client in which folder the checkpoint is
        self.model.name_or_path = name
        # for the event loop, which must not touch a tokenizer that the thread uses at the same time
        self.max_length: int = self.tokenizer.model_max_length
        self.longest_text = sys.maxsize if splits(long) else self.max_length
        """Tokens of a text that are computed at most, where windows are possible."""
        self.mask_token, self.vocab_size = str(self.tokenizer.mask_token), self.model.config.vocab_size
        self.endpoints, self.torch_only = self._endpoints(folder)
        self.scores = card_scores(folder)
        self.index: TextIndex | None = None
        self.pooling_of_index: str | None = None
        """None where the index has no vectors of this model."""
        needs_markers = self.task and self.task.added_tokens
        self.marked_example: str | None = self.task.card_sample()["text"] if self.task and needs_markers else None
        with load_errors(folder):
            self._warm_up()

    @cached_property
    def embedder(self) -> Embedder:
        """What makes vectors by the pooling of the model's training."""
        return Embedder(self.model, self.tokenizer, long=self.long, folder=self.checkpoint.folder)

    def _task(self) -> Task | None:
        try:
            return None if self.checkpoint.fills_masks else self.checkpoint.task
        except UserError:
            if self.checkpoint.named_task:
                raise
            return None  # a bare encoder, whose vectors are still of use

    def _reranker(self) -> Reranker | None:
        try:
            return Reranker(self.checkpoint) if self.task else None
        except UserError:
            return None

    def _endpoints(self, folder: Path) -> tuple[list[str], list[str]]:
        """The paths that the model answers, and the paths that it would answer only with torch."""
        of_head, of_states = self._of_task(), ["/v1/embeddings", "/v1/similar"]
        if self.backend == TORCH:
            return [*of_head, *of_states, "/v1/tokenize", "/v1/attention"], []
        # the file may have other outputs than our own exports
        available = [*(of_head if self.model.head_outputs else []), *(of_states if self.model.gives_states else [])]
        if not available:
            raise UserError(f"{folder / FILES[self.backend]} has no output that a path needs; publish it again")
        of_torch = () if self.backend == BY_NGRAMS else (*of_head, *of_states, "/v1/attention")
        return [*available, "/v1/tokenize"], [path for path in of_torch if path not in available]

    def _warm_up(self) -> None:
        """Load the analyzer and find damaged weights, before the first request."""
        if "/v1/embeddings" in self.endpoints:
            self.embed(["준비"])
        else:
            self.tokenize(["준비"])

    def _of_task(self) -> list[str]:
        fills_masks = self.checkpoint.fills_masks and self.tokenizer.mask_token_id is not None
        path = self.task.endpoint if self.task else "/v1/fill-mask" if fills_masks else None
        return [*([path] if path else []), *(["/v1/rerank"] if self.reranker else [])]

    @property
    def paired(self) -> bool:
        """Whether the model labels pairs of texts."""
        return self.task is not None and self.task.paired

    def example(self, text: str, pair: str | None = None) -> Example:
        """A text or pair as an example of the model's task. Raises UserError where something is missing."""
        return self.checkpoint.example(text, None, pair)

    @property
    def takes_pairs(self) -> bool:
        """Whether it labels pairs of texts, or may."""
        return self.task is not None and self.checkpoint.takes_pairs

    def predict(self, examples: list[Example]) -> list[dict[str, Any]]:
        """The results of `kobert predict` for examples of the model's task."""
        return self.checkpoint.results(examples, self.long)

    def label_ids(self, rows: list[list[int]]) -> list[dict[str, Any]]:
        """The label of each list of token ids."""
        return self.checkpoint.results_of_ids(rows)

    def fill(self, inputs: list[tuple[str, int]]) -> list[dict[str, Any]]:
        """The `top_k` likeliest tokens for each [MASK], of each (text, top_k)."""
        return self.checkpoint.fill_masks([text for text, _ in inputs], [top_k for _, top_k in inputs])

    def embed(self, texts: list[str]) -> list[tuple[np.ndarray, int]]:
        """The vector (d,) and the number of tokens of each text."""
        return list(zip(*self.embedder.embed_counted(texts), strict=True))

    def embed_ids(self, rows: list[list[int]]) -> list[tuple[np.ndarray, int]]:
        """The vector (d,) and the number of tokens of each list of token ids."""
        return list(zip(self.embedder.embed_ids(rows), map(len, rows), strict=True))

    def tokenize(self, texts: list[str]) -> list[dict[str, Any]]:
        """The tokens of each text."""
        return token_rows(self.tokenizer, texts)

    def attend(self, inputs: list[tuple[list[str], int, int | None]]) -> list[dict[str, Any]]:
        """What the morphemes of each (texts, layer, head) read from."""
        return [attention_row(self.name, self.model, self.tokenizer, *arguments) for arguments in inputs]

    def relevance(self, examples: list[Example]) -> list[Relevance]:
        """How relevant the text of each example is to its query; for models with the path `/v1/rerank`."""
        assert self.reranker
        scores, tokens = self.reranker.score(examples)
        return list(map(Relevance, scores.tolist(), sigmoid(scores).tolist(), tokens))

    def search_in(self, index: TextIndex) -> None:
        """Let requests without texts search in the index. Raises UserError where it has vectors of another model; then
        they search by words alone."""
        self.index = index
        if "/v1/similar" not in self.endpoints:  # words are searched without vectors
            self.endpoints = [*self.endpoints, "/v1/similar"]
        if index.pooling:
            index.refuse_other_vectors(Embedder(self.model, self.tokenizer, index.pooling, long=self.long))
            self.pooling_of_index = index.pooling

    def rank(self, rankings: list[Ranking]) -> list[list[dict[str, Any]]]:
        """The most similar texts of each ranking, best first. Raises UserError where all its texts are blank, or the
        index does not have what it asks for."""
        # the texts of all requests are embedded together, once per pooling
        texts_of: dict[str, list[str]] = {}
        methods = [self._method(ranking.texts, ranking.by) for ranking in rankings]
        for ranking, (method, pooling) in zip(rankings, methods, strict=True):
            if method != "bm25":
                of_pooling = texts_of.setdefault(pooling if method == "hybrid" else method, [])
                of_pooling.extend([ranking.query, *(ranking.texts or ())])
        embedders = {
            pooling: EmbeddedTexts(Embedder(self.model, self.tokenizer, pooling, long=self.long), texts)
            for pooling, texts in texts_of.items()
        }
        return [self._ranked(embedders, ranking, *method) for ranking, method in zip(rankings, methods, strict=True)]

    def _ranked(
        self, embedders: dict[str, EmbeddedTexts], ranking: Ranking, method: str, pooling: str
    ) -> list[dict[str, Any]]:
        searched, numbers, row_of = self._searched(ranking.texts)
        # 0.5 is the default of `kobert similar --bm25-weight`, whose answers these are
        (scores,) = rankers(searched, [method], lambda name: embedders[str(name)], pooling, 0.5).values()
        indices, values = top(scores, [ranking.query], ranking.top_k)
        return [
            {"index": numbers[index], "score": round(value, 4)} | row_of(numbers[index])
            for index, value in zip(indices[0].tolist(), values[0].tolist(), strict=True)
            if is_hit(method, value)
        ]

    def _method(self, texts: list[str] | None, by: str | None) -> tuple[str, str]:
        """How to rank, and the pooling of a hybrid. Raises UserError for what the index does not have."""
        if texts is not None:
            if "/v1/embeddings" in self.endpoints:
                return by or self.embedder.pooling, self.embedder.pooling
            if by not in (None, "bm25"):
                raise UserError(f"by: {self.name} makes no vectors of texts; ask for bm25")
            return "bm25", ""
        if not self.index:
            raise UserError(
                "texts: none are given, and no index is served; send texts, or start the server with --index DIR"
            )
        pooling = self.pooling_of_index or ""
        allowed = self.index.methods if pooling else ["bm25"]
        if by and by not in allowed:
            raise UserError(f"by: the index has no vectors of {self.name} for {by}; ask for {' or '.join(allowed)}")
        return by or allowed[0], pooling

    def _searched(self, texts: list[str] | None) -> tuple[Searchable, Sequence[int], Callable[[int], dict[str, Any]]]:
        """What a request searches in, the numbers of these texts, and what the answer says of a number."""
        if texts is None:
            index = self.index
            assert index
            # the path of a file is nobody's business
            return index, range(len(index)), lambda number: with_file_name(index.row(number))
        numbers = not_blank(texts)
        return Texts([texts[number] for number in numbers]), numbers, lambda number: {"text": texts[number]}

    def refuse_unfit_ids(self, rows: Sequence[list[int]]) -> None:
        """Raise UserError for token ids that the model does not have, or more than it reads."""
        for row in rows:
            if len(row) > self.max_length:
                raise UserError(f"{len(row):,} token ids are given; {self.name} reads at most {self.max_length:,}")
            # the schema refuses empty lists and ids below 0
            if max(row) >= self.vocab_size:
                raise UserError(
                    f"there is no token {max(row)}: {self.name} has ids from 0 to {self.vocab_size - 1}, those of "
                    "/v1/tokenize"
                )


def with_file_name(row: dict[str, Any]) -> dict[str, Any]:
    """A row of an index with the name of its file, if it has one, in place of the path."""
    return row | {"file": Path(row["file"]).name} if "file" in row else row
