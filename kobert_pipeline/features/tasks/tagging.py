"""Your own spans: entities of any types, given by offsets or by tags of tokens, in JSON Lines, JSON or Parquet. No code
is needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.tagging import TaggingTask, join_tokens
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.columns import IDS, RowField, find_columns, values_of
from kobert_pipeline.tables.rows import read_each
from kobert_pipeline.tables.unreadable import Row

KNOWN = {
    "id": IDS,
    "text": ("text", "sentence"),
    "entities": ("entities",),
    "tokens": ("tokens", "words"),
    "tags": ("tags", "ner_tags"),
}


class Tagging(TaggingTask):
    """Texts with entities of any types, or tokens with tags. Known columns: text (or sentence), entities; tokens, tags.

    An entity is `{start, end, label}` or `[start, end, label]`, in characters from 0; a tag is B-X, I-X or O, or X
    alone, where neighbours with the same tag are one span."""

    name: Literal["tagging"] = "tagging"
    id: str | None = None
    """Column of an example's id; null: guid or id where there is one, else the row number, from 1."""
    text: str | None = None
    """Column of the text; null: text or sentence. A dot leads into an object, as in data.text."""
    entities: str | None = None
    """Column of the entities in the text; null: entities. Where the file has none, tokens and tags are read."""
    tokens: str | None = None
    """Column of the tokens; null: tokens or words."""
    tags: str | None = None
    """Column of the tokens' tags; null: tags or ner_tags."""
    tag_names: list[str] | None = None
    """The names of the tags 0, 1, ..., where tags are numbers."""
    separator: str = " "
    """Text between two tokens; "" where tokens are characters, including white space."""

    def read(self, path: Path) -> list[Example]:
        """Every row. Raises UserError, with its place, for a row with a missing value or wrong entities."""
        return read_each(path, self._maker)

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row, by the first one: a text and its entities, or tokens and their tags."""
        fields = {name: RowField(name, getattr(self, name), known, required=False) for name, known in KNOWN.items()}
        columns = find_columns(first, list(fields.values()), self.name)
        # options decide, then the file: a table may have both forms
        by_tokens = self.tokens or self.tags or ("tokens" in columns and "entities" not in columns)
        required = ("tokens", "tags") if by_tokens else ("text", "entities")
        return [fields["id"], *(fields[name]._replace(required=True) for name in required)]

    def _maker(self, first: Row) -> Callable[[Row], Example]:
        columns = find_columns(first, self.fields(first), self.name)
        return lambda row: self._example(row, columns)

    def _example(self, row: Row, columns: dict[str, str]) -> Example:
        values = values_of(row, columns)
        if "text" in values:
            text = require_string(values["text"], "text")
            entities = [parse_entity(entity) for entity in require_list(values["entities"], "entities")]
        else:
            tokens = [require_string(token, "a token") for token in require_list(values["tokens"], "tokens")]
            tags = [self._tag(tag) for tag in require_list(values["tags"], "tags")]
            if len(tokens) != len(tags):
                raise UserError(f"{len(tokens)} tokens and {len(tags)} tags; each token has one")
            text, entities = join_tokens(tokens, tags, self.separator)
        return self.example(str(values.get("id", row.index)), text, entities)

    def _tag(self, tag: Any) -> str:
        if isinstance(tag, int) and not isinstance(tag, bool) and self.tag_names and 0 <= tag < len(self.tag_names):
            return self.tag_names[tag]
        return require_string(tag, "a tag (for tags that are numbers, set the option tag_names)")


def require_list(value: Any, what: str) -> list[Any]:
    """`value`. Raises UserError unless it is a list."""
    if not isinstance(value, list):
        raise UserError(
            f"a list of {what} was expected, not {value!r:.60} (only JSON Lines, JSON and Parquet have lists)"
        )
    return value


def require_string(value: Any, what: str) -> str:
    """`value`. Raises UserError unless it is a text."""
    if not isinstance(value, str):
        raise UserError(f"{what} was expected, not {value!r:.60}")
    return value


def parse_entity(value: Any) -> tuple[int, int, str]:
    """Start, end and type of an entity. Raises UserError for another form."""
    parts = [value.get(key) for key in ("start", "end", "label")] if isinstance(value, dict) else value
    match parts:
        case [int() as start, int() as end, str() as label] if (
            label and not isinstance(start, bool) and not isinstance(end, bool)
        ):
            return start, end, label
    raise UserError(
        f"an entity is {value!r:.60}; {{start, end, label}} or [start, end, label] was expected, in characters from 0"
    )
