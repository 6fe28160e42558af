"""Relations between two marked entities of a sentence (KLUE-RE, your own files).

The entities are enclosed in marker tokens, with their types where the file gives them, and the whole is classified
(Baldini Soares et al., *Matching the Blanks*, ACL 2019; typed: Zhou and Chen, AACL 2022). Scores are KLUE's (Park et
al., NeurIPS 2021).
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import field_validator

from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.labelled import FoundLabelsTask, LabelledTask
from kobert_pipeline.features.metrics import auprc, relation_f1
from kobert_pipeline.features.sequence import softmax
from kobert_pipeline.features.task import Example, nfc
from kobert_pipeline.tables.columns import RowField, find_columns, flat_cells, number_of, parse_container
from kobert_pipeline.tables.unreadable import Row

ROLES = {"subject": "SUBJ", "object": "OBJ"}
"""{option of the column: word in its markers}"""
MARKER = re.compile(r"\[(/?)(SUBJ|OBJ)(?::([^\[\]]+))?\]")


class Relation(int):
    """The index of the predicted label, with the `probabilities` of all labels, (labels,), from which the AUPRC is
    computed."""

    probabilities: np.ndarray


class Span(NamedTuple):
    """The characters `start` to `end` (exclusive) of an entity, and its type, "" where it has none."""

    start: int
    end: int
    type: str


class Re(FoundLabelsTask):
    """A sentence, its subject and its object, and the relation between them. Known columns: sentence or text;
    subject_entity, object_entity (objects with word, start_idx, end_idx and type, also as text, or the words alone);
    label. Without these two columns the sentence has the markers itself: `[SUBJ]민수[/SUBJ]는 [OBJ]부산[/OBJ]에 산다`,
    `[SUBJ:PER]민수[/SUBJ:PER]` with types."""

    name: Literal["re"] = "re"
    metric: ClassVar[str] = "micro_f1"
    inference_options: ClassVar[tuple[str, ...]] = ("types",)
    known: ClassVar[dict[str, tuple[str, ...]]] = {"text": ("sentence", "text"), "label": ("label", "relation")}

    subject: str | None = None
    """Column of the subject; null: subject_entity or subject, where there is one."""
    object: str | None = None
    """Column of the object; null: object_entity or object, where there is one."""
    types: list[str] | None = None
    """The types of entities, which the markers have; []: markers without types; null: the types in the training files,
    none where an entity has no type. Stored with the model."""
    no_relation: str = "no_relation"
    """The label of no relation, which the micro F1 leaves out."""

    @field_validator("types")
    @classmethod
    def _fit_markers(cls, types: list[str] | None) -> list[str] | None:
        types = types and [nfc(kind) for kind in types]
        wrong = next((kind for kind in types or [] if not MARKER.fullmatch(f"[SUBJ:{kind}]")), None)
        if wrong is not None:
            raise ValueError(f"the type {wrong!r} is empty or has brackets, which end a marker; rename it")
        return types

    @property
    def added_tokens(self) -> tuple[str, ...]:
        """The markers of subject and object, for each type where there are types."""
        return tuple(
            marker for role in ROLES.values() for kind in self.types or [""] for marker in markers_of(role, kind)
        )

    @property
    def noisy_inputs(self) -> tuple[str, ...]:
        """None: noise would break the markers."""
        return ()

    @property
    def takes_windows(self) -> bool:
        """False: a window may lack one of the entities."""
        return False

    def card_sample(self) -> dict[str, Any]:
        """A made-up sentence with the first types as markers."""
        kinds = self.types or [""]
        person, location = (kind if kind in kinds else kinds[0] for kind in ("PER", "LOC"))
        return {"text": mark("민수는 부산에서 태어났다.", Span(0, 2, person), Span(4, 6, location))}

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with labels and types of the training files, unless they were given."""
        task = self
        if self.types is None:
            texts = [example["text"] for path in train for example in LabelledTask.read(self, path)]
            kinds = [kind for text in texts for _, _, kind in MARKER.findall(text)]
            task = self.model_copy(update={"types": sorted(set(kinds)) if all(kinds) else []})
        task = super(Re, task).fit_labels(train)
        if self.no_relation not in (task.labels or []):
            task.note(
                f"no label is '{self.no_relation}', so the micro F1 counts all of them as relations; name the label of "
                "no relation in the option no_relation"
            )
        return task

    def label_indices(self) -> dict[str, int]:
        """The index of each label by its name and, where the option names all, by its number, as `datasets` exports
        KLUE-RE."""
        return super().label_indices() if self._labels_found else LabelledTask.label_indices(self)

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row: also the entities, where they are in columns."""
        return [*super().fields(first), *self.entity_fields()]

    def entity_fields(self) -> list[RowField]:
        """The columns of subject and object, which a file with markers in its texts does not have."""
        names = {role: [f"{role}_entity", f"{role}_entity.word", role, f"{role}.word"] for role in ROLES}
        return [RowField(role, getattr(self, role), known, required=False) for role, known in names.items()]

    def _example(self, row: Row, columns: dict[str, str], read_label: Callable[[Row], Any]) -> Example:
        example = super()._example(row, columns, read_label)
        text = self.marked(example["text"], row, columns)
        return example | {"text": text, "group": comparable(MARKER.sub("", text))}

    def text_parser(self, first: Row) -> Callable[[str, Row], str]:
        """What puts the markers of a row's entities into its text."""
        return partial(self.marked, columns=find_columns(first, self.entity_fields(), self.name))

    def marked(self, text: str, row: Row, columns: dict[str, str]) -> str:
        """The text with markers around the entities in the columns `subject` and `object` of its row; without such
        columns it must have them. Raises UserError for an entity that is not where the row says."""
        if not ROLES.keys() & columns.keys():
            return self.checked(text)
        if match := MARKER.search(text):
            raise UserError(f"the text has the marker {match.group()}, although the entities are in columns; remove it")
        if missing := [role for role in ROLES if role not in columns]:
            raise UserError(f"there is no column of the {missing[0]}; name it by the option {missing[0]} of the task")
        spans = [self._typed(entity_span(text, row, columns[role]), columns[role]) for role in ROLES]
        return mark(text, *spans)

    def _typed(self, span: Span, column: str) -> Span:
        """The span with the type of its marker."""
        if self.types == []:
            return span._replace(type="")
        if self.types and span.type not in self.types:
            raise UserError(f"the type in '{column}' is {span.type!r:.40}; allowed are {', '.join(self.types[:20])}")
        return span

    def checked(self, text: str) -> str:
        """A text that has markers. Raises UserError unless there is one pair for the subject and one for the object,
        with allowed types."""
        pairs = {role: [match for match in MARKER.finditer(text) if match[2] == role] for role in ROLES.values()}
        for role, matches in pairs.items():
            if [match[1] for match in matches] != ["", "/"] or matches[0][3] != matches[1][3]:
                subject, object_ = (markers_of(each, (self.types or [""])[0]) for each in ROLES.values())
                raise UserError(
                    f"{text[:40]!r} does not mark one subject and one object; write {subject[0]}...{subject[1]} and "
                    f"{object_[0]}...{object_[1]} around them"
                )
            if self.types is not None and matches[0].group() not in self.added_tokens:
                openings = [marker for marker in self.added_tokens if marker.startswith(f"[{role}")]
                raise UserError(f"the marker is {matches[0].group()}; allowed are {', '.join(openings[:20])}")
        return text

    def unlabelled(self, texts: list[str]) -> Example:
        """The sentence, which has the markers. Raises UserError for one without."""
        example = super().unlabelled(texts)
        self.checked(example["text"])
        return example

    def content(self, example: Example) -> str:
        """The text without markers."""
        return MARKER.sub("", example["text"])

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The index of the largest logit, per example, with the probabilities of all."""
        predictions = [Relation(row.argmax()) for row in logits["logits"]]
        for prediction, row in zip(predictions, logits["logits"], strict=True):
            prediction.probabilities = softmax(row)
        return predictions

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """KLUE's micro F1 without `no_relation` and AUPRC, and the accuracy, in percent."""
        right, names = [example["label"] for example in examples], self.classes()
        scored = [index for index, name in enumerate(names) if name != self.no_relation]
        return {
            "micro_f1": relation_f1(predictions, right, scored),
            "auprc": auprc(np.stack([prediction.probabilities for prediction in predictions]), right),
            "accuracy": super().score(predictions, examples)["accuracy"],
        }


def markers_of(role: str, kind: str) -> tuple[str, str]:
    """The tokens before and after an entity."""
    name = f"{role}:{kind}" if kind else role
    return f"[{name}]", f"[/{name}]"


def mark(text: str, subject: Span, object_: Span) -> str:
    """The text with markers around both entities; one entity may be inside the other."""
    insertions = []
    for role, (start, end, kind) in zip(ROLES.values(), (subject, object_), strict=True):
        opening, closing = markers_of(role, kind)
        # at one position closing markers come first, and the longer entity is outside
        insertions += [(start, 1, -end, opening), (end, 0, -start, closing)]
    # from the end of the text, so that the places before stay valid
    for position, _, _, marker in sorted(insertions, reverse=True):
        text = text[:position] + marker + text[position:]
    return text


def entity_span(text: str, row: Row, column: str) -> Span:
    """Where the entity in a column is in the text. Raises UserError where it is not what the row says."""
    entity = entity_of(row, column)
    word, start, end = (entity.get(key) for key in ("word", "start_idx", "end_idx"))
    kind = nfc(str(entity.get("type") or ""))
    if not isinstance(word, str) or not word.strip():
        raise UserError(f"'{column}' is {row.cells.get(column)!r:.60}; an entity with a word was expected")
    if start is None:
        if (count := text.count(word)) != 1:
            raise UserError(f"the text has {word!r:.40} of '{column}' {count} times; give start_idx where it begins")
        return Span(text.index(word), text.index(word) + len(word), kind)
    first, last = number_of(start), number_of(end)
    # KLUE's end_idx is the last character, but exports of others give the one after it
    fits = end is None or last - first in (len(word) - 1, len(word))
    position = int(first) if first >= 0 and first.is_integer() else len(text)
    if not fits or not text.startswith(word, position):
        there = text[position : position + len(word)]
        raise UserError(
            f"'{column}' is {word!r:.40} from {start!r:.20} to {end!r:.20}, but the text has {there!r:.40} there; "
            "correct its start_idx and end_idx, which count characters from 0"
        )
    return Span(position, position + len(word), kind)


def entity_of(row: Row, column: str) -> dict[str, Any]:
    """The fields of an entity, from an object, from one as text, from columns such as `subject_entity.word`, or its
    word alone."""
    column = column.removesuffix(".word")
    value = row.cells.get(column)
    value = parse_container(value) if isinstance(value, str) else value
    if isinstance(value, dict):
        return value
    if value is not None:
        return {"word": value}
    prefix = f"{column}."
    fields = {
        name.removeprefix(prefix): cell for name, cell in flat_cells(row.cells).items() if name.startswith(prefix)
    }
    return {name: cell for name, cell in fields.items() if cell != ""}
