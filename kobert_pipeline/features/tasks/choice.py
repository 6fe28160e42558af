"""Multiple choice: which of several candidates continues or answers a text (SWAG, COPA and HellaSwag of KoBEST, your
own files).

Zellers et al., *SWAG*, EMNLP 2018. As in BERT (Devlin et al. 2019, section 4.4) each candidate is scored together with
the text, and a softmax compares the candidates of an example.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as count_from
from itertools import islice, takewhile
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import field_validator

from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.labelled import LabelledTask
from kobert_pipeline.features.sequence import probabilities
from kobert_pipeline.features.task import Example, refuse_blank
from kobert_pipeline.tables.columns import (
    RowField,
    cell,
    find_columns,
    has_column,
    label_text,
    label_value,
    late_columns,
    parse_container,
    text_of,
    values_of,
)
from kobert_pipeline.tables.unreadable import Row

KNOWN_CHOICES = (
    ("ending0", "ending1", "ending2", "ending3"), ("ending_1", "ending_2", "ending_3", "ending_4"),
    ("alternative_1", "alternative_2"), ("choice1", "choice2"), ("choices",), ("endings",),
)  # fmt: skip


class Choice(LabelledTask):
    """A text, its candidates, and the number of the correct one, from 0. Known columns: sent1 (or premise, context,
    text, or else question), sent2 (or question), ending0 to ending3 (ending_1 to ending_4; alternative_1 and 2; choice1
    and 2; more with the next numbers; lists in choices or endings), label."""

    name: Literal["choice"] = "choice"
    auto_class: ClassVar[str] = "AutoModelForMultipleChoice"
    labels: ClassVar[tuple[str, ...]] = ()
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    metric: ClassVar[str] = "accuracy"
    endpoint: ClassVar[str | None] = None
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("sent1", "premise", "context", "text", "question"),
        "label": ("label",),
    }

    lead: str | None = None
    """Column of the text that every candidate begins with (SWAG's sent2), or of a question; null: sent2 or question,
    where there is one."""
    choices: list[str] | None = None
    """Columns of the candidates, in order, or the one column with a list of them; null: recognized by their names."""

    @field_validator("choices", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def inputs(self) -> tuple[str, ...]:
        """The text and its candidates."""
        return "text", "choices"

    @property
    def noisy_inputs(self) -> tuple[str, ...]:
        """None: candidates get no noise yet."""
        return ()

    @property
    def takes_windows(self) -> bool:
        """False: a candidate is read together with the text."""
        return False

    def unlabelled(self, texts: list[str]) -> Example:
        """The text, and its candidates after it. Raises UserError for fewer than two."""
        text, *choices = texts
        if len(choices) < 2:
            raise UserError(f"give each text with at least two candidates, separated by tabs ({text[:40]!r})")
        return {"text": text, "choices": choices, "label": 0}

    def results(
        self, predictions: list[Any], logits: dict[str, list[np.ndarray]], features: Features
    ) -> list[dict[str, Any]]:
        """The best candidate, its `number` from 0, and the probability of each candidate."""
        return [
            {"text": example["text"], "choice": example["choices"][index], "number": index}
            | {"scores": probabilities(row)}
            for example, index, row in zip(features.examples, predictions, logits["logits"], strict=True)
        ]

    def config(self) -> dict[str, Any]:
        """Nothing: the head has one output, whatever the number of candidates."""
        return {}

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row, besides the candidates."""
        return [*super().fields(first), RowField("lead", self.lead, ("sent2", "question"), required=False)]

    def _maker(self, first: Row) -> Callable[[Row], Example]:
        fields, candidates = self.fields(first), self._candidates(first)
        columns = find_columns(first, fields, self.name)
        # the next candidate's column, such as choice5: in a later row alone, it would be left out without an error
        more = RowField("choices", known=() if self.choices else [*islice(numbered_after(candidates[-1]), 1)])
        refuse_late, count = late_columns(first, [*fields, more], columns), None

        def example(row: Row) -> Example:
            nonlocal count
            refuse_late(row)
            result = _example(row, columns, candidates)
            count = count or len(result["choices"])
            if len(result["choices"]) != count:
                raise UserError(f"{len(result['choices'])} candidates, {count} were expected, as in the first row")
            return result

        return example

    def _candidates(self, first: Row) -> list[str]:
        """The columns of the candidates."""
        if self.choices:
            return [find_columns(first, [RowField("choices", name)], self.name)["choices"] for name in self.choices]
        columns = next((names for names in KNOWN_CHOICES if all(has_column(first.cells, name) for name in names)), None)
        if columns is None:
            known = "; ".join(", ".join(names) for names in KNOWN_CHOICES)
            raise UserError(
                f"{first.location.path}: no columns are the choices of the task {self.name} (known are {known}; "
                f"found were {', '.join(list(first.cells)[:12])}); name them by the option choices of the task"
            )
        return [*columns, *takewhile(partial(has_column, first.cells), numbered_after(columns[-1]))]

    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """A window per candidate, in the order of the examples; `choices` () is the number per example, `labels`
        (examples,) the correct one. The longer of text and candidate is truncated first."""
        count = len(examples[0]["choices"])
        # (examples * choices,) windows; every window of an example repeats its label, so each `count`-th is one
        arrays = super().featurize(self.windows(examples), tokenizer, max_length)
        return arrays | {"labels": arrays["labels"][::count], "choices": np.array(count)}

    def windows(self, examples: list[Example]) -> list[Example]:
        """The text with each of its candidates."""
        return [
            {"text": example["text"], "text_pair": choice, "label": example["label"]}
            for example in examples
            for choice in example["choices"]
        ]

    def content(self, example: Example) -> str:
        """The text and its candidates."""
        return "\n".join([example["text"], *example["choices"]])

    def known_by(self, example: Example) -> str:
        """The text with its candidates: other questions on the same texts are a fair test."""
        return comparable(self.content(example))


def numbered_after(column: str) -> Iterator[str]:
    """The columns that go on with the number of one, such as choice3 after choice2; none after one without a number."""
    if match := re.fullmatch(r"(\D+)(\d+)", column):
        yield from (f"{match[1]}{number}" for number in count_from(int(match[2]) + 1))


def _example(row: Row, columns: dict[str, str], candidates: list[str]) -> Example:
    """The example of a row. Raises UserError for a text that is missing or blank, and for a wrong label."""
    values, choices = values_of(row, columns), [cell(row, column) for column in candidates]
    if len(choices) == 1:
        listed = parse_container(choices[0]) if isinstance(choices[0], str) else choices[0]
        choices = listed if isinstance(listed, list) else choices
    choices = [text_of(choice) for choice in choices]
    values |= {name: text_of(values[name]) for name in ("text", "lead") if name in values}
    texts = {columns[name]: values[name] for name in ("text", "lead") if name in values}
    texts |= {f"{position}. candidate": text for position, text in enumerate(choices, 1)}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise UserError(f"'{name}' holds {type(text).__name__}, text was expected")
        if name != columns.get("lead"):  # a lead may be empty
            refuse_blank(text, f"'{name}'")
    if len(choices) < 2:
        raise UserError(f"a choice requires at least two candidates, here is {len(choices)}")
    label = label_value(label_text(values["label"]) or "", truth=False)
    if label not in [str(index) for index in range(len(choices))]:
        raise UserError(
            f"the label is {values['label']!r:.60}; allowed are 0 to {len(choices) - 1}, the number of the candidate"
        )
    lead = [values["lead"]] if values.get("lead") else []
    return {
        "id": str(values.get("id", row.index)),
        "group": comparable(values["text"]),  # without the candidates: several questions may share a text
        "text": values["text"],
        "choices": [" ".join([*lead, choice]) for choice in choices],
        "label": int(label),
    }
