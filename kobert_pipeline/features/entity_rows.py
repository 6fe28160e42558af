"""Rows of texts with marked spans, as annotation tools and data sets give them: doccano, Label Studio (JSON, JSON_MIN,
CSV), the entity corpora of the National Institute of Korean Language, data sets of the Hub (tokens with tags or their
numbers, as KLUE-NER by `datasets`), and tables of texts with a tag for each eojeol. Which columns hold what is
recognized by their names and by what is in them, in all rows of a file.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.bio import parse_tag, split_tags
from kobert_pipeline.features.task import nfc, refuse_rejected
from kobert_pipeline.tables import label_studio
from kobert_pipeline.tables.columns import (
    BY_OPTION,
    IDS,
    RowField,
    cell,
    cell_of,
    find_columns,
    parse_container,
    text_of,
    whole_number,
)
from kobert_pipeline.tables.csv import BLANK, DELIMITERS, default_delimiter
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.modu import SENTENCE
from kobert_pipeline.tables.open_text import open_lines
from kobert_pipeline.tables.rows import read_rows
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, tried

KNOWN = {
    "id": IDS,
    "text": ("text", "sentence", "form", "data.text", "data"),
    "entities": ("entities", "NE", "ne", "annotations", "label", "labels", "spans", "ents"),
    "tokens": ("tokens", "words"),
    "tags": ("tags", "ner_tags", "ner", "bio", "labels", "label"),
}
"""Names of columns in published data sets and exports; the first that a file has, and that holds such values, is it."""
TOKEN = ("word", "token", "eojeol", "syllable", "character", "char", "단어", "어절", "토큰", "음절")
TAG = ("tag", "ner_tag", "ner", "bio", "label", "entity", "태그")
OF_SENTENCE = ("sentence #", "sentence_id", "sentence_idx", "sent_id", "sentence_no", "sentence", "문장번호")
OF_DOCUMENT = ("doc_id", "document_id", "doc", "document", "file", "문서번호")
"""Names of columns of a table with a row for each token: the token, its tag, its sentence, and the document in which
sentences are numbered."""
STARTS, ENDS = ("start", "start_offset", "begin"), ("end", "end_offset")
TYPES = ("label", "labels", "type", "entity_group", "tag")
TEXTS = ("text", "form", "word")
"""Keys of an entity: its characters, its type, and the text that is there."""
KLUE_TAGS = (*(f"{side}-{kind}" for kind in ("DT", "LC", "OG", "PS", "QT", "TI") for side in "BI"), "O")
"""The tags of KLUE-NER by the numbers that `datasets` gives them."""
SAMPLE = 1000
"""Rows by which columns are recognized."""

Entity = tuple[int, int, str]
"""First character, end character, type."""


class EntityColumns(NamedTuple):
    """The columns of a row and how its tags are read, as options name them; None: recognized."""

    id: str | None = None
    text: str | None = None
    entities: str | None = None
    tokens: str | None = None
    tags: str | None = None
    tag_names: Sequence[str] | None = None
    separator: str = " "


def holds_rows(path: Path, options: EntityColumns) -> bool:
    """Whether a file is a table or JSON, unlike files of tokens in lines, which may end with .tsv or .txt too."""
    suffix = data_suffix(path)
    if suffix not in DELIMITERS or any(options[:5]):  # named columns are a table's
        return suffix in (*DELIMITERS, ".json", ".jsonl", ".parquet", ".xlsx")
    with open_lines(path) as lines:
        first = next((line for line in lines if line.strip(f"{BLANK} \t\r\n")), "")
    names = {name.strip().strip('"').casefold() for name in first.split(default_delimiter(path, first))}
    # a .tsv file may hold tokens in lines, so its columns must be known ones; a .csv file of several columns is a table
    if names & {*TOKEN} and names & {*TAG} and (names & {*OF_SENTENCE} or suffix == ".csv"):
        return True
    has_marks = names & {name.casefold() for name in (*KNOWN["entities"], *KNOWN["tags"])}
    return bool(has_marks and names & {*KNOWN["text"], *KNOWN["tokens"]}) or (suffix == ".csv" and len(names) > 1)


def marked_rows(path: Path, task: str, options: EntityColumns) -> Iterator[Row | UnreadableInput]:
    """The rows of a file with `id`, and `text` and `entities`, or `tags` of `tokens` or of the eojeols of the `text`.
    Raises UserError for a file without such columns."""
    rows = [row for row in read_rows(path) if not (isinstance(row, Row) and is_blank_sentence(row))]
    readable_rows = [row for row in rows if isinstance(row, Row)]
    if not readable_rows:
        yield from rows
        return
    if not any(options[:5]) and (by_token := token_columns(readable_rows[0])):
        yield from gathered_tokens(rows, *by_token)
        return
    columns = choose_columns(readable_rows, task, options)
    names = options.tag_names or readable_rows[0].class_names.get(columns.get("tags", ""))
    if names is None and "tags" in columns:
        names = KLUE_TAGS if is_klue([tags_of(cell_of(row, columns["tags"])) for row in readable_rows]) else ()
    marked = list(tried(rows, lambda first: partial(_marked, columns, names or ())))
    if "entities" in columns:
        counts = (by_utf16, *COUNTS) if any(label_studio.is_export(row) for row in readable_rows) else COUNTS
        count = max(counts, key=lambda count: sum(_fits_text(row, count) for row in marked))  # the first of equals
        yield from tried(marked, lambda first: partial(_counted, count))
    else:
        yield from marked


def token_columns(row: Row) -> tuple[str, str, list[str]] | None:
    """The columns of the token and its tag, and those that say its sentence, in a table with a row for each token, by
    the first row; None for other tables."""
    # reversed, so that of names that differ by case alone the first column is taken
    names = {name.casefold(): name for name in reversed(row.cells)}
    token, tag, *of_sentence = (
        next((names[name] for name in known if name in names), None) for known in (TOKEN, TAG, OF_DOCUMENT, OF_SENTENCE)
    )
    # the first token may be a number
    is_table = token and tag and isinstance(text_of(row.cells[token]), str) and isinstance(row.cells[tag], str)
    return (token, tag, [*filter(None, of_sentence)]) if is_table and token and tag and "text" not in names else None


def gathered_tokens(
    rows: list[Row | UnreadableInput], token: str, tag: str, of_sentence: list[str]
) -> Iterator[Row | UnreadableInput]:
    """The sentences of a table with a row for each token: another value in one of the columns `of_sentence`, or a blank
    row, begins one."""
    block, current = list[Row](), [""] * len(of_sentence)
    for row in rows:
        if isinstance(row, UnreadableInput):
            yield row
            continue
        # a cell may be merged, so a blank one is as the one above it
        values = [str(text_of(cell_of(row, column)) or "").strip() for column in of_sentence]
        values = [value or above for value, above in zip(values, current, strict=True)]
        if block and (values != current or row.index > block[-1].index + 1):
            yield from _sentence(block, token, tag)
            block = []
        block.append(row)
        current = values
    if block:
        yield from _sentence(block, token, tag)


def _sentence(rows: list[Row], token: str, tag: str) -> Iterator[Row | UnreadableInput]:
    """The sentence of the tokens in some rows, or the rows in which the token or the tag is missing."""

    def pair(row: Row) -> tuple[str, str]:
        return require_string(text_of(cell(row, token)), "a token"), require_string(cell(row, tag), "a tag")

    pairs = list(tried(rows, lambda first: pair))
    if problems := [pair for pair in pairs if isinstance(pair, UnreadableInput)]:
        yield from problems
        return
    tokens, tags = map(list, zip(*pairs, strict=True))
    locations = [row.location for row in rows]
    cells = {"id": str(rows[0].index), "tokens": tokens, "tags": tags, "locations": locations}
    yield Row(cells, locations[0], rows[0].index)


def is_blank_sentence(row: Row) -> bool:
    """Whether a row is a sentence without text, as the corpora of the National Institute have some; in files of other
    forms such a row is a mistake."""
    return row.location.unit == SENTENCE and not str(row.cells["form"] or "").strip()


def list_of(value: Any) -> Any:
    """A list, also where a table has it as text, or `datasets` as an object of lists of one length; any other value as
    it is."""
    value = parse_container(value) if isinstance(value, str) else value
    is_columns = isinstance(value, dict) and all(isinstance(items, list) for items in value.values())
    if is_columns and len({len(items) for items in value.values()}) == 1:
        return [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]
    return value


def tags_of(value: Any) -> Any:
    """A list of tags, where numbers as text are numbers; any other value as it is."""
    tags = list_of(value)
    if not isinstance(tags, list):
        return tags
    return [int(tag) if isinstance(tag, str) and re.fullmatch("[0-9]+", tag) else tag for tag in tags]


def choose_columns(rows: list[Row], task: str, options: EntityColumns) -> dict[str, str]:
    """The columns of texts and entities, or of tokens and tags (and their text), or of texts and tags. Raises UserError
    where a named column is missing, and where there are none of these."""
    # the first value of every column: exports leave out what is empty in a row
    values: dict[str, Any] = {}
    for row in rows[:SAMPLE]:
        values |= {name: value for name, value in row.cells.items() if not values.get(name)}
    if any(_is_entities(values.get(name)) and values[name] for name in KNOWN["entities"]):
        # a column that is empty in all rows has the entities of none
        values = {name: value for name, value in values.items() if value != []}
    sample = Row(values, rows[0].location, 1)
    by = BY_OPTION if task == "tagging" else "by the option {field} of the task tagging"
    data = values["data"] if isinstance(values.get("data"), dict) else {}  # of Label Studio, with any names
    known = KNOWN | {"text": (*KNOWN["text"], *(f"data.{name}" for name in data if len(data) == 1))}
    fields = {name: RowField(name, getattr(options, name), names, False, FITS[name]) for name, names in known.items()}
    columns = find_columns(sample, list(fields.values()), task, by)
    # options decide, then the file: a table may have both forms
    by_tokens = bool(options.tokens or options.tags) and not options.entities
    forms = [("tokens", "tags", "text"), ("text", "tags")]
    forms = forms if by_tokens else [("text", "entities"), *forms]
    form = next((form for form in forms if columns.keys() >= set(form[:2])), forms[0])
    columns |= find_columns(sample, [fields[name]._replace(required=True) for name in form[:2]], task, by)
    # where options name the tokens, a text beside them may be another one
    chosen = form[:2] if options.tokens and not options.text else form
    return {name: columns[name] for name in ("id", *chosen) if name in columns}


def _marked(columns: dict[str, str], names: Sequence[str], row: Row) -> Row:
    refuse_rejected(row.cells)
    cells: dict[str, Any] = {"id": str(cell(row, columns["id"]) if "id" in columns else row.index)}
    if "text" in columns:
        cells["text"] = require_string(text_of(cell(row, columns["text"])), "text")
    if "entities" in columns:
        entities = require_list(_entities_cell(row, columns["entities"]), "entities")
        cells["entities"] = [parse_entity(entity) for entity in entities]
        return Row(cells, row.location, row.index)
    tokens = list_of(cell(row, columns["tokens"])) if "tokens" in columns else ""
    if isinstance(tokens, list):
        cells["tokens"] = [require_string(text_of(token), "a token") for token in tokens]
    elif "tokens" in columns:
        cells["text"] = require_string(tokens, "tokens")
    tags = tags_of(cell(row, columns["tags"]))
    tags = split_tags(tags) if isinstance(tags, str) else require_list(tags, "tags")
    cells["tags"] = [parse_tag_name(tag, names) for tag in tags]
    return Row(cells, row.location, row.index)


def _entities_cell(row: Row, column: str) -> Any:
    """The entities of a row: a list, or one as text as tables hold it; none where an export leaves them out. Raises
    UserError for a text of Label Studio that nobody has labelled, which may have entities."""
    is_export = row.location.unit == SENTENCE or "annotation_id" in row.cells
    value = list_of(cell_of(row, column) or [] if is_export else cell(row, column))
    if not label_studio.has_annotations(row) or not isinstance(value, list):
        return value
    # other results are choices about the whole text, and relations
    values = (result.get("value") for result in label_studio.only_results(value))
    return [value for value in values if isinstance(value, dict) and "start" in value]


def require_list(value: Any, what: str) -> list[Any]:
    """`value`. Raises UserError unless it is a list."""
    if not isinstance(value, list):
        raise UserError(
            f"a list of {what} was expected, not {value!r:.60} (JSON Lines, JSON and Parquet have lists; a table may "
            "have them in JSON)"
        )
    return value


def require_string(value: Any, what: str) -> str:
    """`value`. Raises UserError unless it is a text."""
    if not isinstance(value, str):
        raise UserError(f"{what} was expected, not {value!r:.60}")
    return value


def parse_entity(value: Any) -> tuple[int, int, str, str | None]:
    """Start, end and type of an entity, and the text there, if it says so. Raises UserError for another form."""
    if isinstance(value, dict):
        start, end, label, inside = (_first(value, keys) for keys in (STARTS, ENDS, TYPES, TEXTS))
    else:
        start, end, label = value if isinstance(value, (list, tuple)) and len(value) == 3 else (None, None, None)
        inside = None
    start, end = whole_number(start), whole_number(end)
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    label = nfc(label) if isinstance(label, str) else None
    if start is None or end is None or not label:
        raise UserError(
            f"an entity is {value!r:.60}; {{start, end, label}} or [start, end, label] was expected, in characters "
            "from 0"
        )
    return start, end, label, inside if isinstance(inside, str) else None


def _first(value: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((value[key] for key in keys if key in value), None)


def by_characters(text: str, start: int, end: int) -> tuple[int, int]:
    """Start and end as they are."""
    return start, end


def by_utf16(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters of a start and end in UTF-16 code units, which JavaScript (Label Studio) counts."""
    units = text.encode("utf-16-le", "surrogatepass")
    # 2 bytes a unit; a place inside a surrogate pair counts as after its character
    before, until = (len(units[: 2 * position].decode("utf-16-le", "replace")) for position in (start, end))
    return before, until


def by_last_character(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters of a start and the place of the last character."""
    return start, end + 1


COUNTS = (by_characters, by_utf16, by_last_character)
"""What tools count; the first by which all entities of a file have the texts that they say is it."""
Count = Callable[[str, int, int], tuple[int, int]]


def _fits_text(row: Row | UnreadableInput, count: Count) -> bool:
    if isinstance(row, UnreadableInput):
        return True
    text = row.cells["text"]
    return all(_at(text, count(text, *span), inside) for *span, _, inside in row.cells["entities"])


def _at(text: str, span: tuple[int, int], inside: str | None) -> bool:
    return inside is None or text[slice(*span)].strip() == inside.strip()


def _counted(count: Count, row: Row) -> Row:
    """A row with its entities in characters. Raises UserError for one whose text is not there."""
    text, entities = row.cells["text"], list[Entity]()
    for start, end, kind, inside in row.cells["entities"]:
        span = count(text, start, end)
        if not _at(text, span, inside):
            raise UserError(
                f"an entity is {inside!r:.40}, but from {start} to {end} the text has {text[start:end]!r:.40}"
            )
        entities.append((*span, kind))
    return Row(row.cells | {"entities": entities}, row.location, row.index)


def parse_tag_name(tag: Any, names: Sequence[str]) -> str:
    """The name of a tag, which may be its number among the names. Raises UserError for anything else."""
    index = whole_number(tag)
    if index is not None and 0 <= index < len(names):
        return names[index]
    return require_string(tag, "a tag (for tags that are numbers, list their names in the option tag_names)")


def is_klue(rows: list[Any]) -> bool:
    """Whether the tags of all rows are numbers of KLUE's tags: most are O, and every I follows a B or I of its type,
    which by chance the numbers of other tags hardly do."""
    indices = [[whole_number(tag) for tag in row] for row in rows if isinstance(row, list)]
    counts = Counter(index for row in indices for index in row)
    if not counts or not all(index in range(len(KLUE_TAGS)) for index in counts):
        return False
    tags = [[parse_tag(KLUE_TAGS[index]) for index in row if index is not None] for row in indices]
    continued = all(
        begins or kind is None or before[1] == kind
        for row in tags
        for before, (begins, kind) in pairwise([(False, None), *row])
    )
    return continued and 2 * counts[KLUE_TAGS.index("O")] > counts.total()


def _is_entities(value: Any) -> bool:
    """Whether a value may be the entities of a text."""
    value = list_of(value)
    return isinstance(value, list) and all(isinstance(item, (dict, list, tuple)) for item in value)


def _is_tokens(value: Any) -> bool:
    is_flat = isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value)
    return is_flat or isinstance(value, str)


FITS: dict[str, Callable[[Any], bool]] = {
    "id": lambda value: True,
    "text": lambda value: isinstance(text_of(value), str),
    "entities": _is_entities,
    "tokens": _is_tokens,
    "tags": _is_tokens,
}
"""What the values of a column may be that is recognized by its name."""
