"""Files of tagged tokens in lines -> sentences: a token a line, as in KLUE-NER, Naver's challenge, KMOU's corpus and
CoNLL, or a sentence a line with a tag for each of its eojeols, as in KoBERT-NER and KoELECTRA.

Park et al., *KLUE*, NeurIPS 2021; Naver and Changwon National University, *NLP Challenge*, 2018; Cheon and Kim, *NER*,
Korea Maritime and Ocean University; Tjong Kim Sang and De Meulder, CoNLL 2003.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import dropwhile, groupby, takewhile
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.bio import PREFIXED, SUFFIXED, find_tokens, split_tags
from kobert_pipeline.features.entity_rows import TAG
from kobert_pipeline.tables.rows import read_lines
from kobert_pipeline.tables.unreadable import Row, UnreadableInput

HEADER = (*TAG, "tags", "labels", "ner_tags")
"""Names of the last column, in a first line that is no token."""
BLANK = "_"
"""A line of these alone is a blank between words in KMOU's corpus."""
EXPECTED = {
    "klue": "a character, a tab and its tag",
    "naver": "number, eojeol and tag",
    "conll": "a token and its tag",
    "sentences": "a sentence, a tab and a tag for each of its eojeols",
}
"""What a line of each form holds."""


def tagged_sentences(path: Path) -> Iterator[Row | UnreadableInput]:
    """The sentences of a file, whose form is detected, with `id`, `tags`, `tokens` or the `text` whose eojeols are the
    tokens, and where a comment has it, the `text` of the tokens; `locations` are the lines of the tags. Every bad line
    comes as what is wrong with it."""
    lines, blocks = list[Row](), list[list[Row]]()
    for row in read_lines(path):
        if isinstance(row, Row):
            lines.append(row)
        else:
            yield row
    tags = {columns(row)[-1] for row in lines if text_of(row).strip() and not text_of(row).startswith("#")}
    for is_blank, group in groupby(lines, lambda row: not text_of(row).strip()):
        if not is_blank and (block := list(dropwhile(partial(is_comment, tags), group))):
            blocks.append(block)
    if blocks and columns(blocks[0][0])[-1].lower() in HEADER:
        blocks[0] = blocks[0][1:]
    form = detect_form(blocks)
    rows = [row for block in blocks for row in block]
    if form == "conll" and rows and all(map(is_numbered_token, rows)):
        raise UserError(
            f"{path}: the first column holds numbers, not tokens; name the columns in a first line, such as "
            "sentence_id, word and tag"
        )
    if form == "sentences":
        blocks = [[row] for block in blocks for row in block]
    for index, block in enumerate(filter(None, blocks)):
        yield from _sentence(block, form, index)


def text_of(row: Row) -> str:
    """The text of a line."""
    return str(row.cells["line"])


def _sentence(block: list[Row], form: str, index: int) -> Iterator[Row | UnreadableInput]:
    comments = [text_of(row)[2:] for row in takewhile(is_heading, block)]
    pairs = list[tuple[str, str]]()
    for row in block[len(comments) :]:
        if pair := token_and_tag(row, form):
            pairs.append(pair)
        else:
            problem = f"{text_of(row)!r:.60} was found where {EXPECTED[form]} was expected"
            yield UnreadableInput("columns", problem, row.location)
    if len(pairs) < len(block) - len(comments) or not pairs:
        return
    tokens, tags = [token for token, _ in pairs], [tag for _, tag in pairs]
    # KLUE's files begin with comments about the file, KMOU has a second one with the text
    name = comments[-1 if form == "klue" else 0] if comments else str(index)
    cells: dict[str, Any] = {"id": name.split("\t")[0].strip()}
    if form == "sentences":
        cells |= {"text": tokens[0], "tags": split_tags(tags[0])}
    else:
        cells |= {"tokens": tokens, "tags": tags, "locations": [row.location for row in block[len(comments) :]]}
    if form == "klue":
        cells["text"] = "".join(tokens)
    elif len(comments) > 1 and find_tokens(comments[1].strip(), tokens):  # in KMOU a few are spelled otherwise
        cells["text"] = comments[1].strip()
    yield Row(cells, block[0].location, index)


def is_comment(tags: Collection[str], row: Row) -> bool:
    """Whether a line before a sentence is no part of it: `-DOCSTART-`, or a comment such as `# sent_id = 1`. `# O` is a
    token and its tag, and a line with a tag for each eojeol is a sentence; neither is a comment."""
    line = text_of(row)
    if line.startswith("-DOCSTART-"):
        return True
    last = line.split()[-1]
    return line.startswith("# ") and not (last == "O" or last in tags or PREFIXED.fullmatch(last) or is_sentence(row))


def is_heading(row: Row) -> bool:
    """Whether a line says what the sentence below it is: `## id` in KLUE and KMOU, where the text follows."""
    return text_of(row).startswith("## ")


def detect_form(blocks: list[list[Row]]) -> str:
    """The form of a file, a key of `EXPECTED`. KMOU's form is CoNLL's with blanks."""
    rows = [row for block in blocks for row in block if not is_heading(row)]
    if any(is_sentence(row) for row in rows):
        return "sentences"
    first = blocks[0][0] if blocks and blocks[0] else None
    if first and is_heading(first):
        return "klue" if 2 * sum(text_of(row).count("\t") == 1 for row in rows) >= len(rows) else "conll"
    # the first line of Naver's own files is certain; other numbered files are recognized by all their lines
    match text_of(first).split("\t") if first else []:
        case ["1", _, tag] if tag == "-" or SUFFIXED.fullmatch(tag):
            return "naver"
    # most of the lines, since tokens of CoNLL may be numbers too
    numbered = [is_numbered(row, index) for block in blocks for index, row in enumerate(block)]
    return "naver" if 2 * sum(numbered) > len(numbered) else "conll"


def is_sentence(row: Row) -> bool:
    """Whether a line is a sentence and as many values as it has eojeols, perhaps after its id."""
    fields = text_of(row).split("\t")
    return len(fields) in (2, 3) and len(split_tags(fields[-1])) == len(fields[-2].split()) > 1


def is_numbered(row: Row, before: int) -> bool:
    """Whether a line begins with its number in the sentence, counted from 0 or 1; `before` lines are before it."""
    fields = columns(row)
    return len(fields) > 2 and fields[0] in (str(before), str(before + 1))


def is_numbered_token(row: Row) -> bool:
    """Whether a line begins with a number, and has a tag after something else."""
    fields = columns(row)
    return len(fields) > 2 and fields[0].isdecimal() and not fields[1].isdecimal()


def columns(row: Row) -> list[str]:
    """The columns of a line, separated by tabs where it has one, else by blanks."""
    line = text_of(row)
    if "\t" in line:
        return line.split("\t")
    # a token may have another kind of white space in it, such as a no-break space, which may also separate columns
    fields = re.split(" +", line.strip(" "))
    return fields if len(fields) > 1 else line.split()


def token_and_tag(row: Row, form: str) -> tuple[str, str] | None:
    """Token and tag of a line (of a form of sentences: text and tags); None for another number of columns."""
    # tabs only: a token of KLUE may be a space
    fields = text_of(row).split("\t") if form in ("klue", "sentences") else columns(row)
    allowed: Iterable[int] = {"klue": (2,), "naver": (3,), "sentences": (2, 3), "conll": range(2, 100)}[form]
    if len(fields) not in allowed or not all(fields):
        return None
    token = fields[{"naver": 1, "sentences": -2}.get(form, 0)]
    if len(fields) > 2 and set(fields[:-1]) == {BLANK}:
        token = " "
    return token, fields[-1]
