"""The base of tasks that mark typed spans of a text, such as named entities. Examples have `id, group, text, entities`,
where entities are `[start, end, type]` in characters of the raw text, from 0, sorted and without overlap. Tokens are
mapped to text only by their offsets.

Every token has a label, not only the first of each word as in Devlin et al. (NAACL 2019): their data tag words, whereas
Korean entities end inside eojeols and sometimes inside morphemes. Of the 5,774 answers in KorQuAD's dev set, 99.84 %
begin and end at token boundaries, 99.41 % at morpheme boundaries. KLUE labels every token too, the pipelines of
`transformers` read every token, and which token represents a word matters little for entities (Ács et al., EACL 2021).
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator

from kobert_pipeline.corpus.cleaning import to_nfc
from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.bio import OUTSIDE, Tag, parse_tag_set, spans, tag_parser, tagged_spans, text_of_tokens
from kobert_pipeline.features.entity_lines import tagged_sentences
from kobert_pipeline.features.entity_rows import EntityColumns, holds_rows, marked_rows
from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.metrics import character_scores, entity_report, entity_scores
from kobert_pipeline.features.task import (
    Example,
    Task,
    exactly,
    label_config,
    nfc,
    refuse_blank,
    refuse_empty,
    without_leading_space,
)
from kobert_pipeline.morphemes.normalization import replace_surrogates
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput, readable, tried
from kobert_pipeline.tokenizer.loading import token_types
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

ScoredEntity = tuple[int, int, str, float]
"""First character, end character, type, score of a predicted entity."""
CHARACTERS = 50
"""Tokens of one character each that are no words but the characters of texts."""


class TaggingTask(Task):
    """Token classification, decoded to spans. Long texts are split into overlapping windows, and each token is trained
    and predicted in the one window where it has the most context, as in BERT's `run_squad`."""

    auto_class: ClassVar[str] = "AutoModelForTokenClassification"
    metric: ClassVar[str] = "entity_f1"
    endpoint: ClassVar[str | None] = "/v1/tag"
    inference_options: ClassVar[tuple[str, ...]] = ("stride",)

    labels: list[str] | None = Field(None, min_length=1)
    """Entity types in the order of the model's outputs; null: the types in the training files, sorted."""
    stride: int = Field(32, ge=0)
    """Tokens that two neighbouring windows of a text share, a quarter of max_length at most."""

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: list[str] | None) -> list[str] | None:
        labels = labels and [nfc(label) for label in labels]
        wrong = next((label for label in labels or [] if label in OUTSIDE or (labels or []).count(label) > 1), None)
        if wrong is not None:
            problem = "means that there is no entity" if wrong in OUTSIDE else "is listed twice"
            raise ValueError(f"the type '{wrong}' {problem}; leave it out")
        return labels

    def columns(self) -> EntityColumns:
        """How tables are read, as far as options say it."""
        return EntityColumns()

    def read(self, path: Path) -> list[Example]:
        """The examples of a file, in any of the forms of `entity_rows` and `entity_lines`; without `labels`, entities
        of any type are allowed. Raises one UserError about all wrong rows or lines, with their places."""
        is_table = holds_rows(path, self.columns())
        rows = list(marked_rows(path, self.name, self.columns()) if is_table else tagged_sentences(path))
        cells = [row.cells for row in rows if isinstance(row, Row) and "tags" in row.cells]
        tags = {nfc(tag) for of_row in cells for tag in of_row["tags"]}
        # in tables a column of tokens says that they are tags; elsewhere it may be any column
        strict = not all("tokens" in of_row for of_row in cells) or not is_table
        parse = tag_parser(tags, f"{path}: the column of tags", strict)
        tokens = [token for of_row in cells if "text" not in of_row for token in of_row["tokens"]]
        separator = separator_of(path, tokens, self.columns().separator)
        return list(readable(tried(rows, lambda first: partial(self._marked, parse, separator))))

    def _marked(self, parse: Callable[[str], Tag], separator: str, row: Row) -> Example:
        cells = row.cells
        if "entities" in cells:
            return self.example(cells["id"], cells["text"], cells["entities"])
        if "tokens" in cells:
            text, places = text_of_tokens(cells["tokens"], separator, cells.get("text"))
        else:
            text = cells["text"]
            places = [match.span() for match in re.finditer(r"\S+", text)]
        tags = [nfc(tag) for tag in cells["tags"]]
        # of a file with a line for each token, a tag has the place of its line
        locations = cells.get("locations", [row.location] * len(tags))
        if len(places) != len(tags):
            what = "tokens" if "tokens" in cells else "eojeols"
            raise UserError(f"{len(places)} {what} and {len(tags)} tags; each has one")
        return self.example(cells["id"], text, tagged_spans(places, map(partial(_parse_at, parse), tags, locations)))

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with the types of the training files, unless they were given. Raises UserError where these have no
        entity."""
        if self.labels is not None:
            return self
        examples = [example for path in train for example in self.read(path)]
        refuse_empty("train", train, len(examples))
        kinds = {kind for example in examples for *_, kind in example["entities"]}
        if not kinds:
            raise UserError(
                f"{', '.join(map(str, train))}: there is no entity to learn from; every tag is O, or every list of "
                "entities empty"
            )
        return self.with_found_labels(kinds)

    def example(self, identity: str, text: str, entities: list[tuple[int, int, str]]) -> Example:
        """An example, with entities sorted and stripped of white space. Raises UserError for a blank text, and for an
        entity that is beyond the text, blank, overlaps another, or has a type that is not allowed."""
        refuse_blank(text, "the text")
        stripped: list[tuple[int, int, str]] = []
        for start, end, label in sorted(entities):
            inside, label = text[start:end], nfc(label)
            if not 0 <= start < end <= len(text) or not inside.strip():
                raise UserError(
                    f"an entity is from {start} to {end} ({inside!r:.40}); the text has {len(text)} characters"
                )
            if stripped and start < stripped[-1][1]:
                before = text[slice(*stripped[-1][:2])]
                raise UserError(f"two entities overlap, {before!r:.40} and {inside!r:.40}; drop one")
            if label in OUTSIDE:
                raise UserError(
                    f"the type of {inside!r:.40} is {label!r}, which means that there is no entity; rename it or leave "
                    "it out"
                )
            if self.labels is not None and label not in self.labels:
                raise UserError(
                    f"the type of {inside!r:.40} is {label!r:.40}; allowed are {', '.join(self.labels[:40])}"
                    f"{self.allowed_hint()}"
                )
            # tokens exclude white space, so an entity with it at an end could never be predicted
            stripped.append((end - len(inside.lstrip()), start + len(inside.rstrip()), label))
        return {
            "id": identity,
            "group": comparable(text),
            "text": text,
            "entities": [list(entity) for entity in stripped],
        }

    def config(self) -> dict[str, Any]:
        """The labels O, then B and I of every type."""
        return label_config(["O", *(f"{side}-{kind}" for kind in self.labels or [] for side in "BI")])

    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """Windows over each text. Per token: `offsets` (tokens, 2) in characters of the text, and `labels`, which are
        IGNORE_INDEX for special tokens and tokens with more context in another window. Per window: `example` (n,)."""
        # a quarter at most, so that windows always advance
        stride = min(self.stride, max_length // 4)
        encoded = tokenizer(
            [replace_surrogates(example["text"]) for example in examples],
            truncation=True,
            max_length=max_length,
            stride=stride,
            return_overflowing_tokens=True,
            return_token_type_ids=True,
            return_offsets_mapping=True,
        )
        texts = [examples[i]["text"] for i in encoded["overflow_to_sample_mapping"]]
        offsets = [
            without_leading_space(text, span)
            for text, row in zip(texts, encoded["offset_mapping"], strict=True)
            for span in row
        ]
        arrays = {
            "windows": row_starts(encoded["input_ids"]),
            "input_ids": flatten(encoded["input_ids"], np.int32),
            "token_type_ids": flatten(token_types(tokenizer, encoded), np.uint8),
            "offsets": np.array(offsets, np.int32).reshape(-1, 2),
            "example": np.array(encoded["overflow_to_sample_mapping"], np.int64),
        }
        # None for special tokens, which belong to no text
        sequence_ids = [encoded.sequence_ids(i) for i in range(len(arrays["example"]))]
        inside = flatten([[side is not None for side in row] for row in sequence_ids], bool)
        chosen = has_max_context(arrays["windows"], arrays["example"], inside, stride)
        # two steps, since `max_context_tokens` finds a text's tokens by the labels that are not ignored
        labels = np.where(chosen, 0, IGNORE_INDEX).astype(np.int32)
        tokens_of = max_context_tokens(Features({**arrays, "labels": labels}, examples))
        for example, tokens in zip(examples, tokens_of, strict=True):
            labels[tokens] = token_labels(arrays["offsets"][tokens], example["entities"], self.labels or [])
        return {**arrays, "labels": labels}

    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """`labels` (tokens,)."""
        return {"labels": features.arrays["labels"]}

    def unlabelled(self, texts: list[str]) -> Example:
        """The text without entities."""
        return {**exactly(texts, self.inputs), "entities": []}

    def results(
        self, predictions: list[Any], logits: dict[str, list[np.ndarray]], features: Features
    ) -> list[dict[str, Any]]:
        """Each text with its `entities`: `start` and `end` in its characters, `text`, `label`, and `score`, the mean
        probability of their tokens."""
        rows = []
        for example, entities in zip(features.examples, self.scored_entities(logits, features), strict=True):
            text = example["text"]
            spans_of_text = [
                {"start": start, "end": end, "text": text[start:end], "label": label, "score": round(score, 4)}
                for start, end, label, score in entities
            ]
            rows.append({"text": text, "entities": spans_of_text})
        return rows

    def with_model_labels(self, labels: list[str]) -> Self:
        """The task with the entity types of a model's tags, which may be in any order, BIO, BIOES or types alone,
        unless they were given. Raises UserError for other labels."""
        tags = [(begins, kind and nfc(kind)) for begins, kind in parse_tag_set(labels)]
        types = list(dict.fromkeys(kind for _, kind in tags if kind))
        if not types or all(kind for _, kind in tags):
            raise UserError(
                f"the checkpoint's id2label holds {', '.join(labels[:9])}; O and some of B-X, I-X, X-B, X-I or X were "
                "expected; write there what its outputs mean"
            )
        if self.labels is not None and set(self.labels) != set(types):
            raise UserError(
                f"the checkpoint's labels are {', '.join(labels[:9])}; the types {', '.join(self.labels)} were expected"
            )
        kinds = self.labels or types
        # 0 is O, odd numbers are B, even ones I (see `config`)
        return self.model_copy(update={"labels": kinds}).with_outputs(
            [2 * kinds.index(kind) + 2 - begins if kind else 0 for begins, kind in tags]
        )

    def scored_entities(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[list[ScoredEntity]]:
        """The predicted entities of each example. The score is the mean probability of the labels of its tokens."""
        lengths = features.lengths.tolist()
        rows = [row[:length] for row, length in zip(logits["logits"], lengths, strict=True)]
        scores = np.concatenate(rows).astype(np.float64)  # (windows, L, C) -> (tokens, C)
        scores = np.exp(scores - scores.max(-1, keepdims=True))  # the maximum first, so that nothing overflows
        best, probabilities = scores.argmax(-1), scores.max(-1) / scores.sum(-1)  # softmax of the best label only
        return [
            self._decode_entities(best[tokens], probabilities[tokens], features.arrays["offsets"][tokens])
            for tokens in max_context_tokens(features)
        ]

    def _decode_entities(self, labels: np.ndarray, scores: np.ndarray, offsets: np.ndarray) -> list[ScoredEntity]:
        """Entities in characters from the labels (L,), scores (L,) and offsets (L, 2) of a text's tokens."""
        kinds = self.labels or []
        # 0 is O, odd numbers are B, even ones I (see `config`)
        tags = [(label % 2 == 1, kinds[(label - 1) // 2] if label else None) for label in labels.tolist()]
        return [
            # the largest end, since in styles that replace the text the spans of tokens may overlap
            (int(offsets[first, 0]), int(offsets[first:end, 1].max()), kind, float(scores[first:end].mean()))
            for first, end, kind in spans(tags)
        ]

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """[start, end, type] of the entities of each example."""
        return [
            [[start, end, kind] for start, end, kind, _ in of_text]
            for of_text in self.scored_entities(logits, features)
        ]

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """F1, precision and recall of entities (exact span and type), and KLUE's macro F1 of entities and of
        characters, in percent."""
        right = [example["entities"] for example in examples]
        texts = [example["text"] for example in examples]
        return entity_scores(predictions, right) | character_scores(predictions, right, texts)

    def classification_report(self, predictions: list[Any], examples: list[Example]) -> dict[str, Any]:
        """Scores of each entity type."""
        return entity_report(predictions, [example["entities"] for example in examples], self.labels or [])

    def right_answer(self, example: Example) -> str:
        """The entities with their types."""
        return "; ".join(f"{kind} {example['text'][start:end]}" for start, end, kind in example["entities"])

    def label_counts(self, examples: list[Example]) -> dict[str, int]:
        """The number of entities of each type."""
        counts = Counter(kind for example in examples for *_, kind in example["entities"])
        return {kind: counts[kind] for kind in self.labels or []}

    def counts(self, features: Features) -> dict[str, Any]:
        """The number of entities, how many of their ends are inside a token, and the entity F1 of a model that labels
        every token correctly."""
        perfect: list[Any] = []
        inside, (labels, offsets) = 0, (features.arrays[name] for name in ("labels", "offsets"))
        for example, tokens in zip(features.examples, max_context_tokens(features), strict=True):
            left, right = (set(column) for column in offsets[tokens].T.tolist())
            inside += sum((start not in left) + (end not in right) for start, end, _ in example["entities"])
            entities = self._decode_entities(labels[tokens], np.ones(len(tokens)), offsets[tokens])
            perfect.append([entity[:3] for entity in entities])
        return {
            "entities": sum(len(example["entities"]) for example in features.examples),
            "entity_borders_inside_tokens": inside,
            "entity_f1_ceiling": round(self.score(perfect, features.examples)["entity_f1"], 4),
        }

    def content(self, example: Example) -> str:
        """The text."""
        return str(example["text"])


def _parse_at(parse: Callable[[str], Tag], tag: str, location: Location) -> Tag:
    try:
        return parse(tag)
    except UserError as error:
        raise UnreadableInput("refused", str(error), location) from None


def has_max_context(windows: np.ndarray, example: np.ndarray, inside: np.ndarray, stride: int) -> np.ndarray:
    """Which tokens, (tokens,) bool, have no more context in another window. Of the `stride` tokens that two
    neighbouring windows share, each window gets the half that is farther from its edge. `inside` (tokens,) is False for
    special tokens."""
    chosen = inside.copy()
    for i in np.flatnonzero(example[1:] == example[:-1]).tolist():  # pairs of neighbouring windows of one text
        before, after = (np.flatnonzero(inside[windows[j] : windows[j + 1]]) + windows[j] for j in (i, i + 1))
        # `tokenizers` lets neighbours share exactly `stride` tokens, as many as both halves, so each is chosen once;
        # not before[-n:], which is all of them for n = 0
        chosen[before[len(before) - (stride - stride // 2) :]] = False
        chosen[after[: stride // 2]] = False
    return chosen


def max_context_tokens(features: Features) -> list[np.ndarray]:
    """Per example the indices of its labelled tokens, in text order; each token of the text is there once."""
    tokens = np.flatnonzero(features.arrays["labels"] != IGNORE_INDEX)
    example_of = np.repeat(features.arrays["example"], features.lengths)[tokens]
    bounds = np.searchsorted(example_of, np.arange(len(features.examples) + 1))
    return [tokens[begin:end] for begin, end in pairwise(bounds)]


def token_labels(offsets: np.ndarray, entities: list[Any], kinds: list[str]) -> np.ndarray:
    """Label numbers of tokens by their offsets, (L, 2) -> (L,): 0 is O, 2k + 1 is B and 2k + 2 is I of the k-th type. A
    token belongs to the entity with the largest overlap, the first of equals."""
    labels, largest, entity_of = (np.full(len(offsets), value) for value in (0, 0, -1))
    for index, (start, end, _) in enumerate(entities):
        overlap = np.minimum(offsets[:, 1], end) - np.maximum(offsets[:, 0], start)
        entity_of[overlap > largest] = index
        largest = np.maximum(largest, overlap)
    for index, (_, _, kind) in enumerate(entities):
        tokens = np.flatnonzero(entity_of == index)
        labels[tokens] = 2 * kinds.index(kind) + 2
        labels[tokens[:1]] -= 1  # the first I becomes B
    return labels


BLANK_SHARE, CHARACTER_SHARE = 0.05, 0.9
"""Least shares of a file's tokens that are blanks, and that are single characters, where its tokens are characters."""


def separator_of(path: Path, tokens: list[str], separator: str) -> str:
    """The text between the tokens of a file: the separator, or nothing where white space is among them, as between the
    characters of KLUE. Raises UserError for characters without the blanks between words."""
    # by shares: a file of words may have a blank among its tokens, and one of characters a number
    if BLANK_SHARE * len(tokens) <= sum(map(str.isspace, tokens)) > 0:
        return ""
    characters = sum(len(to_nfc(token)) == 1 for token in tokens)
    if separator and len(tokens) >= CHARACTERS and characters >= CHARACTER_SHARE * len(tokens):
        raise UserError(
            f"{path}: every token is one character, without the blanks between words, so the texts are not known; add "
            'the blanks as tokens, or for texts without any set separator: "" (task tagging)'
        )
    return separator
