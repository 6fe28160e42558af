"""Named entities with a token and its tag per line and blank lines between sentences: KLUE-NER, Naver's NER challenge,
and files in the form of CoNLL.

Park et al., *KLUE*, NeurIPS 2021; Naver and Changwon National University, *NLP Challenge*, 2018; Tjong Kim Sang and De
Meulder, CoNLL 2003.
"""

from collections.abc import Iterator
from functools import partial
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from kobert_pipeline.features.bio import PREFIXED, SUFFIXED
from kobert_pipeline.features.tagging import TaggingTask, join_tokens
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.rows import read_lines
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput, readable, tried


class Line(NamedTuple):
    """A line that is not blank, with its number in the file, counted from 1."""

    number: int
    text: str


class Ner(TaggingTask):
    """Sentences with a token and its tag per line, in the form of KLUE, Naver's challenge or CoNLL, which is detected.

    KLUE: `## id`, then characters. Naver: number, eojeol and a tag such as PER_B or B-PER. CoNLL: token first, tag
    last. Columns are separated by tabs or spaces. Tokens are joined by a space, characters of KLUE by nothing."""

    name: Literal["ner"] = "ner"
    sample: ClassVar[dict[str, Any]] = {"text": "세종대왕은 1443년에 한글을 만들었다."}

    def read(self, path: Path) -> list[Example]:
        """Every sentence. Raises UserError, with the line number, for a missing tag and for a type that is not in
        `labels`."""
        sentences = list(blocks(path))
        form = detect_form(sentences)
        rows = (
            Row({"lines": lines}, Location(path, "line", lines[0].number), index)
            for index, lines in enumerate(sentences)
        )
        return list(readable(tried(rows, lambda first: partial(self._sentence, form))))

    def _sentence(self, form: str, row: Row) -> Example:
        lines: list[Line] = row.cells["lines"]
        comments = [line for line in lines if form == "klue" and line.text.startswith("##")]
        pairs = [token_and_tag(row.location.path, line, form) for line in lines if line not in comments]
        identity = comments[0].text.removeprefix("##").split("\t")[0].strip() if comments else str(row.index)
        tokens, tags = [token for token, _ in pairs], [tag for _, tag in pairs]
        return self.example(identity, *join_tokens(tokens, tags, "" if form == "klue" else " "))


def blocks(path: Path) -> Iterator[list[Line]]:
    """The sentences of a file, without the comments before them and the -DOCSTART- lines of CoNLL 2003."""
    rows = (row for row in readable(read_lines(path)) if not row.cells["line"].startswith("-DOCSTART-"))
    lines = (Line(row.index, row.cells["line"]) for row in rows)
    for blank, block in groupby(lines, lambda line: not line.text.strip()):
        if not blank and (sentence := list(dropwhile(is_comment, block))):
            yield sentence


def is_comment(line: Line) -> bool:
    """Whether a line is a comment such as `# sent_id = 1`, unlike `# O`, which is a token and its tag."""
    return line.text.startswith("# ") and not (line.text.endswith(" O") or PREFIXED.fullmatch(line.text.split()[-1]))


def detect_form(sentences: list[list[Line]]) -> str:
    """The form of a file: klue, naver or conll."""
    first = sentences[0][0].text if sentences else ""
    if first.startswith("##"):
        return "klue"
    # the first line of Naver's own files is certain; other numbered files are recognized by all their lines
    match first.split("\t"):
        case ["1", _, tag] if tag == "-" or SUFFIXED.fullmatch(tag):
            return "naver"
    # most of the lines, since tokens of CoNLL may be numbers too
    numbered = [is_numbered(line, number) for lines in sentences for number, line in enumerate(lines)]
    return "naver" if 2 * sum(numbered) > len(numbered) else "conll"


def is_numbered(line: Line, before: int) -> bool:
    """Whether a line begins with its number in the sentence, counted from 0 or 1; `before` lines are before it."""
    fields = columns(line)
    return len(fields) > 2 and fields[0] in (str(before), str(before + 1))


def columns(line: Line) -> list[str]:
    """The columns of a line, separated by tabs where it has one, else by white space."""
    return line.text.split("\t") if "\t" in line.text else line.text.split()


def token_and_tag(path: Path, line: Line, form: str) -> tuple[str, str]:
    """Token and tag of a line. Raises UserError for another number of columns."""
    # tabs only: a token of KLUE may be a space
    fields = line.text.split("\t") if form == "klue" else columns(line)
    right = len(fields) >= 2 if form == "conll" else len(fields) == {"klue": 2, "naver": 3}[form]
    if not right or not all(fields):
        expected = {
            "klue": "a character, a tab and its tag",
            "naver": "number, eojeol and tag",
            "conll": "a token and its tag",
        }[form]
        problem = f"{line.text!r:.60} was found where {expected} was expected"
        raise UnreadableInput("columns", problem, Location(path, "line", line.number))
    return fields[1 if form == "naver" else 0], fields[-1]
