"""Sentence encoders: texts that belong together get similar vectors, all others of a batch dissimilar ones, by the loss
InfoNCE (van den Oord et al. 2018; for sentences Gao et al., *SimCSE*, EMNLP 2021)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.labelled import parse_score
from kobert_pipeline.features.metrics import pearson, ranking_scores, spearman
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.columns import (
    IDS,
    RowField,
    cell,
    find_columns,
    has_column,
    late_columns,
    parse_container,
    text_of,
    values_of,
)
from kobert_pipeline.tables.rows import read_each
from kobert_pipeline.tables.unreadable import Row

KNOWN = {
    "id": IDS,
    "text": ("anchor", "query", "question", "sent0", "text"),
    "text_pair": ("positive", "sent1", "text_pair"),
    "negative": ("negative", "hard_neg", "negatives", "hard_negative", "hard_negatives", "neg"),
}
"""Names of the columns in published data sets; the first that a file has is used."""
SCORES = ("score", "labels.label")
"""Names of the column with the score of two texts."""
KNOWN_WITH_SCORES = KNOWN | {
    "text": (*KNOWN["text"], "sentence1", "text1"), "text_pair": (*KNOWN["text_pair"], "sentence2", "text2"),
}  # fmt: skip
"""Names in files with scores. Without scores, the sentences of a data set such as KorNLI need not belong together."""
NUMBERED = re.compile(r"(hard_)?neg(ative)?_?\d+", re.IGNORECASE)
"""Columns of negatives, where each has its own."""
QUERIES_AT_ONCE = 256
"""Rows of cosines that are in memory at once."""


class Contrastive(SequenceTask):
    """A text, the text that belongs to it, and texts that do not, if there are any (hard negatives). Known columns:
    anchor, query, question, sent0 or text; positive, sent1 or text_pair; negative, hard_neg, negatives, or numbered
    ones. In dev and test also pairs with a score (KorSTS, KLUE-STS): sentence1, sentence2, and score or
    labels.label."""

    name: Literal["contrastive"] = "contrastive"
    auto_class: ClassVar[str] = "AutoModel"
    labels: ClassVar[tuple[str, ...]] = ()
    metric: ClassVar[str] = "mrr@10"
    sample: ClassVar[dict[str, Any]] = {"text": "여권은 어디에서 만들어?"}
    inference_options: ClassVar[tuple[str, ...]] = ("pooling",)
    endpoint: ClassVar[str | None] = None

    id: str | None = None
    """Column of an example's id; null: guid or id where there is one, else the row number, from 1."""
    text: str | None = None
    """Column of the text; null: recognized by its name."""
    text_pair: str | None = None
    """Column of the text that belongs to it; null: recognized by its name."""
    negative: str | None = None
    """Column of a text that does not belong to it, in JSON also of a list of such texts; null: recognized by its name,
    where there is one."""
    pooling: Literal["mean", "cls", "max"] = "mean"
    """How the states of a text's tokens become its vector; stored with the model, which embeds so by default."""
    # SimCSE's
    temperature: float = Field(0.05, gt=0)
    """The cosines of a batch are divided by this before the softmax; lower: the most similar wrong texts count more."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: its models give vectors."""
        return ()

    def config(self) -> dict[str, Any]:
        """Nothing: the model is an encoder without a head."""
        return {}

    def inference_state(self) -> dict[str, Any]:
        """The pooling, also where it is the default."""
        return {"pooling": self.pooling}

    def read(self, path: Path) -> list[Example]:
        """Every row. Raises UserError for a row whose texts are missing or empty, or with a negative that is the text
        which belongs to it."""
        return read_each(path, self._maker)

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row, by the first one: files with scores have other columns."""
        has_scores = any(has_column(first.cells, name) for name in SCORES)
        fields = [
            RowField(name, getattr(self, name), known, name in ("text", "text_pair"))
            for name, known in (KNOWN_WITH_SCORES if has_scores else KNOWN).items()
        ]
        return [*fields, RowField("score", known=SCORES, required=False)]

    def _maker(self, first: Row) -> Callable[[Row], Example]:
        fields = self.fields(first)
        columns = find_columns(first, fields, self.name)
        refuse_late = late_columns(first, fields, columns)
        numbered = [] if "negative" in columns else [name for name in first.cells if NUMBERED.fullmatch(name)]

        def example(row: Row) -> Example:
            refuse_late(row)
            return _example(row, columns, numbered)

        return example

    def refuse_in_training(self, examples: list[Example]) -> None:
        """Raise UserError for pairs with scores, many of which do not belong together."""
        if any("score" in example for example in examples):
            raise UserError(
                f"features: training examples have scores (column {' or '.join(SCORES)}), but a sentence encoder "
                "learns from texts that belong together; keep only such rows, without that column, and name files "
                "with scores as dev or test"
            )

    def contents(self, example: Example) -> list[str]:
        """The text and the one that belongs to it."""
        return [example["text"], example["text_pair"]]

    def known_by(self, example: Example) -> str:
        """Both texts: other questions on the same passages are a fair test."""
        return comparable(example["text"] + example["text_pair"])

    def windows(self, examples: list[Example]) -> list[Example]:
        """The texts of each example: the text, the one that belongs to it, the negatives."""
        return [
            {"text": text, "label": 0}
            for example in examples
            for text in (example["text"], example["text_pair"], *example["negatives"])
        ]

    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """A window per text, truncated to `max_length`; `choices` () is the number of texts of an example."""
        arrays = super().featurize(self.windows(examples), tokenizer, max_length)
        del arrays["labels"]
        return arrays | {"choices": np.array(2 + len(examples[0]["negatives"]))}

    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """Nothing: which texts belong together is in their order."""
        return {}

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The rank, for each text, of the text that belongs to it, as `ranks` gives it for the cosines of `vectors`; of
        pairs with scores the cosine."""
        # (n, 2, H): the text and its pair, without negatives
        vectors = np.stack([row[:2] for row in logits["vectors"]])
        # at least `tiny`, so that a vector of zeros has the cosine 0 and not NaN
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        if is_graded(features.examples):
            cosines: list[float] = (vectors[:, 0] * vectors[:, 1]).sum(-1).tolist()
            return cosines
        texts, pairs = ([example[role] for example in features.examples] for role in ("text", "text_pair"))
        return ranks(vectors[:, 0], vectors[:, 1], texts, pairs)

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """MRR, nDCG and recall, in percent; of pairs with scores their correlation with the cosine."""
        if not is_graded(examples):
            return ranking_scores(np.array(predictions))
        scores = [example["score"] for example in examples]
        return {"spearman": spearman(predictions, scores), "pearson": pearson(predictions, scores)}

    def selection_metric(self, scores: dict[str, float]) -> str:
        """Spearman's correlation where dev has scores, else MRR."""
        return "spearman" if "spearman" in scores else self.metric


def is_graded(examples: list[Example]) -> bool:
    """Whether the pairs have scores of their similarity."""
    return "score" in examples[0]


def ranks(queries: np.ndarray, candidates: np.ndarray, texts: list[str], pairs: list[str]) -> list[int]:
    """For each of n queries the rank, from 1, of its own candidate among all n: by the product of their vectors (n, H).

    `texts` and `pairs` are the texts of queries and candidates. A candidate with the text of the right one is right
    too, and one with the text of the query does not count. Others with the same score as the right one are better.
    """
    indices = {text: index for index, text in enumerate(dict.fromkeys([*texts, *pairs]))}
    query, pair = (np.array([indices[text] for text in side]) for side in (texts, pairs))
    query_ranks: list[int] = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        scores = queries[some] @ candidates.T  # (Q, n)
        # row i of this block is query number start + i; the candidate that belongs to it is column start + i
        of_right = np.diagonal(scores, start)[:, None]
        wrong = (pair != pair[some, None]) & (pair != query[some, None])
        query_ranks += (1 + ((scores >= of_right) & wrong).sum(1)).tolist()
    return query_ranks


def _example(row: Row, columns: dict[str, str], numbered: list[str]) -> Example:
    values = values_of(row, columns)
    negatives = values.get("negative", [cell(row, column) for column in numbered])
    negatives = parse_container(negatives) if isinstance(negatives, str) else negatives  # a list as a table prints it
    negatives = [text_of(text) for text in (negatives if isinstance(negatives, list) else [negatives])]
    values |= {name: text_of(values[name]) for name in ("text", "text_pair")}
    for text in (values["text"], values["text_pair"], *negatives):
        if not isinstance(text, str) or not comparable(text):
            raise UserError(f"one of the texts is {text!r:.60}; the text, its pair and its negatives must not be empty")
    if values["text_pair"] in negatives:
        raise UserError(f"{values['text_pair'][:60]!r} both belongs to the text and is its negative; leave one out")
    example = {
        "id": str(values.get("id", row.index)),
        # not the query: questions on one passage must be on one side of the dev split
        "group": comparable(values["text_pair"]),
        "text": values["text"], "text_pair": values["text_pair"], "negatives": negatives,
    }  # fmt: skip
    if "score" not in values:
        return example
    return example | {"score": parse_score(values["score"])}
