"""Sequence tasks whose examples are the rows of a table. Columns are recognized by the names that published data sets
use, or named by options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from kobert_pipeline.corpus.decontaminate import remove_whitespace
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import Example, refuse_blank
from kobert_pipeline.tables.columns import IDS, RowField, find_columns, label_text, label_value, text_cell, values_of
from kobert_pipeline.tables.rows import read_each
from kobert_pipeline.tables.unreadable import Row


class LabelledTask(SequenceTask):
    """Rows with a text and a label. Subclasses list the `known` column names."""

    known: ClassVar[dict[str, tuple[str, ...]]]
    """Names of the columns `text`, `text_pair` and `label` in published data sets; the first that a file has is
    used."""
    blank_texts: ClassVar[bool] = False
    """Whether rows without text are read, since published data sets have some; they are not trained on."""
    symmetric: ClassVar[bool] = False
    """Whether (a, b) and (b, a) are the same question, so that a dev split must not separate them."""

    id: str | None = None
    """Column of an example's id; null: guid or id where there is one, else the row number, from 1."""
    text: str | None = None
    """Column of the text (of a pair, the first); null: recognized by its name. A dot leads into an object, as in
    labels.label."""
    label: str | None = None
    """Column of the label; null: recognized by its name."""

    def read(self, path: Path) -> list[Example]:
        """An example per row. Raises UserError for rows with a missing or blank text or a label that is not
        allowed."""
        return read_each(path, self._maker)

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row, by the first one."""
        known = {"id": IDS, **self.known}
        names = ("id", "text", "text_pair", "label")
        return [RowField(name, getattr(self, name, None), known.get(name, ()), name != "id") for name in names]

    def _maker(self, first: Row) -> Callable[[Row], Example]:
        columns, parse_label = find_columns(first, self.fields(first), self.name), self.label_parser()
        return lambda row: self._example(row, columns, parse_label)

    def label_parser(self) -> Callable[[Any], int | float]:
        """A function from a label in the file to the training target. It raises UserError for labels that are not
        allowed."""
        allowed = self.label_indices()
        truth = len(self.labels) == 2  # of three labels none is True
        by_value = {label_value(name, truth): i for name, i in allowed.items()} | allowed

        def index(value: Any) -> int:
            text = label_text(value) or ""
            key = text if text in by_value else label_value(text, truth)
            if key not in by_value:
                names = [
                    name if name == self.labels[i] else f"{name} ({self.labels[i]})" for name, i in allowed.items()
                ]
                hint = f"allowed are {', '.join(names[:20])}{self.allowed_hint()}"
                raise UserError(f"the label is {value!r:.60}; {hint}")
            return by_value[key]

        return index

    def label_indices(self) -> dict[str, int]:
        """The index of each label by how files write it, as a number or a name."""
        # names last: a name that is itself a number means the label of that name
        return {str(i): i for i in range(len(self.labels))} | {label: i for i, label in enumerate(self.labels)}

    def _example(self, row: Row, columns: dict[str, str], parse_label: Callable[[Any], int | float]) -> Example:
        values = values_of(row, columns)
        texts: dict[str, str] = {}
        for name in ("text", "text_pair"):
            if name in columns:
                texts[name] = text_cell(row, columns[name], numbers=True)
                if not self.blank_texts:
                    refuse_blank(texts[name], f"the column '{columns[name]}'")
        # without white space, so that copies of a text with other spaces are on the same side of a dev split
        parts = [remove_whitespace(text) for text in texts.values()]
        group = " ".join(filter(None, sorted(parts) if self.symmetric else parts))
        identity = str(values.get("id", row.index))
        return {"id": identity, "group": group, **texts, "label": parse_label(values["label"])}


class PairTask(LabelledTask):
    """Rows with two texts and a label."""

    text_pair: str | None = None
    """Column of the second text; null: recognized by its name."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Both texts."""
        return "text", "text_pair"
