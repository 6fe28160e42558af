"""Named entities, a token and its tag a line, a blank line between sentences: KLUE-NER, Naver's, and files in the form of CoNLL.

Park et al., *KLUE*, NeurIPS 2021; Naver and Changwon National University, *NLP Challenge*, 2018; Tjong Kim Sang and De Meulder, CoNLL 2003.
"""

from collections.abc import Iterator
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Literal, NamedTuple

from kobert_pipeline.corpus.opening import open_lines
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.bio import BEFORE, BEHIND
from kobert_pipeline.features.tagging import TaggingTask, joined
from kobert_pipeline.features.task import Example


class Line(NamedTuple):
    """A line that is not blank, with its number in the file, counted from 1."""

    number: int
    text: str


class Ner(TaggingTask):
    """Sentences with a token and its tag a line, in the form of KLUE, of Naver's challenge or of CoNLL; a file's first line tells.

    KLUE: `## id`, then characters. Naver: number, eojeol and a tag such as PER_B, parted by tabs. CoNLL: token first, tag last, parted by
    tabs or spaces. Tokens that are not characters are joined by a space."""

    name: Literal["ner"] = "ner"

    def read(self, path: Path) -> list[Example]:
        """Every sentence. Raises UserError, with the line, for one that lacks a tag or has one of another type than `labels`."""
        sentences = list(blocks(path))
        form = form_of(sentences[0][0].text) if sentences else "conll"
        return [self._sentence(path, number, lines, form) for number, lines in enumerate(sentences)]

    def _sentence(self, path: Path, number: int, lines: list[Line], form: str) -> Example:
        comments = [line for line in lines if form == "klue" and line.text.startswith("##")]
        pairs = [pair(path, line, form) for line in lines if line not in comments]
        identity = comments[0].text.removeprefix("##").split("\t")[0].strip() if comments else str(number)
        text, entities = joined([token for token, _ in pairs], [tag for _, tag in pairs], "" if form == "klue" else " ")
        return self.example(identity, text, entities, f"{path}, line {lines[0].number}")


def blocks(path: Path) -> Iterator[list[Line]]:
    """The sentences of a file, without the lines that part documents in CoNLL 2003, and without the comments before a sentence."""
    with open_lines(path) as file:
        lines = (Line(number, line.rstrip("\r\n")) for number, line in enumerate(file, 1) if not line.startswith("-DOCSTART-"))
        for blank, found in groupby(lines, lambda line: not line.text.strip()):
            if not blank and (sentence := list(dropwhile(is_comment, found))):
                yield sentence


def is_comment(line: Line) -> bool:
    """Whether a line before a sentence tells of it, as `# sent_id = 1`; `# O` is a token and its tag."""
    return line.text.startswith("# ") and not (line.text.endswith(" O") or BEFORE.fullmatch(line.text.split()[-1]))


def form_of(first: str) -> str:
    """The form of a file that begins with this line."""
    if first.startswith("##"):
        return "klue"
    match first.split("\t"):
        case ["1", _, tag] if tag == "-" or BEHIND.fullmatch(tag):
            return "naver"
    return "conll"


def pair(path: Path, line: Line, form: str) -> tuple[str, str]:
    """Token and tag of a line. Raises UserError for another number of columns."""
    fields = line.text.split() if form == "conll" and "\t" not in line.text else line.text.split("\t")
    right = len(fields) >= 2 if form == "conll" else len(fields) == {"klue": 2, "naver": 3}[form]
    if not right or not all(fields):
        told = {"klue": "a character, a tab and its tag", "naver": "number, eojeol and tag, parted by tabs", "conll": "a token and its tag"}
        raise UserError(f"{path}, line {line.number}: {line.text!r:.60} was found where {told[form]} was expected")
    return fields[1 if form == "naver" else 0], fields[-1]
