"""Your own spans: entities of any types, given by offsets or by tags of tokens, in JSON Lines, JSON or Parquet. No code
is needed."""

from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.tables import IDS, Row, cell, column_of, each_row, rows
from kobert_pipeline.features.tagging import TaggingTask, join_tokens
from kobert_pipeline.features.task import Example

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
        table = list(rows(path))
        if not table:
            return []
        roles = {role: self._column(role, path, table[0], needed=False) for role in KNOWN}
        # options decide, then the file: a table may have both forms
        by_tokens = self.tokens or self.tags or (roles["tokens"] and not roles["entities"])
        needed = ("tokens", "tags") if by_tokens else ("text", "entities")
        roles |= {role: self._column(role, path, table[0], needed=True) for role in needed}
        columns = {role: column for role, column in roles.items() if column and role in ("id", *needed)}
        return each_row(table, lambda row: self._example(row, columns))

    def _column(self, role: str, path: Path, first: Row, needed: bool) -> str | None:
        return column_of(role, path, first, self.name, getattr(self, role), KNOWN[role], needed)

    def _example(self, row: Row, columns: dict[str, str]) -> Example:
        values = {role: cell(row, column) for role, column in columns.items()}
        if "text" in values:
            text = require_string(values["text"], row.place, "text")
            entities = [parse_entity(entity, row.place) for entity in list_cell(values, "entities", row)]
        else:
            tokens = [require_string(token, row.place, "a token") for token in list_cell(values, "tokens", row)]
            tags = [self._tag(tag, row.place) for tag in list_cell(values, "tags", row)]
            if len(tokens) != len(tags):
                raise UserError(f"{row.place}: {len(tokens)} tokens and {len(tags)} tags; each token has one")
            text, entities = join_tokens(tokens, tags, self.separator)
        return self.example(str(values.get("id", row.number)), text, entities, row.place)

    def _tag(self, tag: Any, place: str) -> str:
        if isinstance(tag, int) and not isinstance(tag, bool) and self.tag_names and 0 <= tag < len(self.tag_names):
            return self.tag_names[tag]
        return require_string(tag, place, "a tag (for tags that are numbers, set the option tag_names)")


def list_cell(values: dict[str, Any], role: str, row: Row) -> list[Any]:
    """The value of a row for a role. Raises UserError unless it is a list."""
    if not isinstance(values[role], list):
        raise UserError(
            f"{row.place}: a list of {role} was expected, not {values[role]!r:.60} (only JSON Lines, JSON and Parquet "
            "have lists)"
        )
    return values[role]


def require_string(value: Any, place: str, what: str) -> str:
    """`value`. Raises UserError unless it is a text."""
    if not isinstance(value, str):
        raise UserError(f"{place}: {what} was expected, not {value!r:.60}")
    return value


def parse_entity(value: Any, place: str) -> tuple[int, int, str]:
    """Start, end and type of an entity. Raises UserError for another form."""
    parts = [value.get(key) for key in ("start", "end", "label")] if isinstance(value, dict) else value
    match parts:
        case [int() as start, int() as end, str() as kind] if (
            kind and not isinstance(start, bool) and not isinstance(end, bool)
        ):
            return start, end, kind
    raise UserError(
        f"{place}: an entity is {value!r:.60}; {{start, end, label}} or [start, end, label] was expected, in "
        "characters from 0"
    )
