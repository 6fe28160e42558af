"""Sequence tasks whose examples are the rows of a table. Which column is what is found by the names that known sets
use, or said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from kobert_pipeline.corpus.decontaminate import remove_whitespace
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.tables import IDS, Row, cell, column_of, rows
from kobert_pipeline.features.task import Example

ROLES = ("id", "text", "text_pair", "label")


class LabelledTask(SequenceTask):
    """Rows with a text and a label. Subclasses name the columns that are `known`."""

    known: ClassVar[dict[str, tuple[str, ...]]]
    """What known sets call the columns `text`, `text_pair` and `label`; the first that a file has is taken."""
    allowed_hint: ClassVar[str] = ""
    """What is said of the labels that are allowed where one is not: where they come from, if not from the task
    itself."""
    symmetric: ClassVar[bool] = False
    """Whether (a, b) and (b, a) ask the same: they stay on one side of a dev split."""

    id: str | None = None
    """Column of an example's id; null: guid or id, where there is one, else rows are numbered."""
    text: str | None = None
    """Column of the text (of a pair, the first); null: found by the names of known sets. A dot leads into an object, as
    in labels.label."""
    label: str | None = None
    """Column of what is to be learned; null: found by the names of known sets."""

    def read(self, path: Path) -> list[Example]:
        """Every row. Raises UserError for a row that lacks a text, or whose label is none."""
        found = list(rows(path))
        roles = {role: self.column(role, path, found[0]) for role in ROLES} if found else {}
        target = self.label_parser()
        return [self._example(row, number, roles, target) for number, row in enumerate(found)]

    def column(self, role: str, path: Path, first: Row) -> str | None:
        """The column that plays a role, by the first row; None where nobody does. Raises UserError for a needed one
        that is not there."""
        given, known = getattr(self, role, None), {"id": IDS, **self.known}.get(role, ())
        return column_of(role, path, first, self.name, given, known, needed=role != "id")

    def label_parser(self) -> Callable[[Any, str], int | float]:
        """A function from a label as it stands in a file, and its place there, to what is learned. It raises UserError
        for other labels."""
        allowed = self.label_indices()

        def index(value: Any, place: str) -> int:
            spelled = label_text(value)
            if spelled not in allowed:
                told = [
                    f"{written} ({self.labels[i]})" if written != self.labels[i] else written
                    for written, i in allowed.items()
                ]
                raise UserError(
                    f"{place}: the label is {value!r:.60}; allowed are {', '.join(told[:20])}{self.allowed_hint}"
                )
            return allowed[spelled]

        return index

    def label_indices(self) -> dict[str, int]:
        """How files write the labels: by number or by name."""
        return {str(i): i for i in range(len(self.labels))} | {label: i for i, label in enumerate(self.labels)}

    def _example(
        self, row: Row, number: int, roles: dict[str, str | None], target: Callable[[Any, str], int | float]
    ) -> Example:
        values = {role: cell(row, column) for role, column in roles.items() if column}
        texts: dict[str, Any] = {role: values[role] for role in ("text", "text_pair") if role in values}
        for role, text in texts.items():
            if not isinstance(text, str):
                raise UserError(
                    f"{row.place}: the column '{roles[role]}' holds {type(text).__name__}, text was expected"
                )
        parts = [remove_whitespace(text) for text in texts.values()]
        group = " ".join(filter(None, sorted(parts) if self.symmetric else parts))
        identity = str(values.get("id", number))
        return {"id": identity, "group": group, **texts, "label": target(values["label"], row.place)}


class PairTask(LabelledTask):
    """Rows with two texts and a label."""

    text_pair: str | None = None
    """Column of the second text; null: found by the names of known sets."""

    @property
    def paired(self) -> bool:
        """Two texts."""
        return True


def label_text(value: Any) -> str | None:
    """A label as text, be it text or a whole number; None for anything else."""
    return str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else None
