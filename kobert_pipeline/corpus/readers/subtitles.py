"""Subtitles: what is said, without numbers, times and markup."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import groupby
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.reader import Encoded
from kobert_pipeline.tables.file_type import BREAKING, INLINE, SAMI, SUBTITLES
from kobert_pipeline.tables.open_text import TooLong, open_lines
from kobert_pipeline.tables.unreadable import UnreadableInput

# only names that subtitles have: titles of films and songs are often written <like this>
MARKUP = re.compile(
    r"\{[^{}]{0,1000}\\p[1-9][^{}]{0,1000}\}.*?(?:\{[^{}]{0,1000}\\p0[^{}]{0,1000}\}|(?m:$))|"
    rf"</?(?:{BREAKING}|{INLINE}|c|v|lang|ruby|rt|sami|sync)(?:[.\s][^<>]{{0,1000}})?/?>|<\d[\d:.]*>|<!--[^<>]{{0,1000}}-->|"
    r"\{\\[^{}]{0,1000}\}|\{[a-zA-Z]:[^{}]{0,100}\}",
    re.IGNORECASE,
)
"""Drawings of ASS ({\\p1}m 0 0 l 9 9{\\p0}), tags (<i>, <font color=...>, <c.yellow>), times in a line (<00:01.500>)
and commands of ASS and MicroDVD ({\\an8}, {y:i})."""
BREAK = re.compile(r"<br\s*/?>|\\[Nn]|\|", re.IGNORECASE)
"""A line end inside a subtitle."""
TIMES = re.compile(r"\s*(?:\d+:)?\d\d?:\d\d[,.]\d{1,3}\s*(?:-->|,\d\d?:\d\d:\d\d\.\d{3}\s*$)")
NUMBER = re.compile(r"\s*\d+\s*$")
# ASS: nine fields, then the text, which may have commas itself
DIALOGUE = re.compile(r"Dialogue:(?:[^,]*,){9}(.*)")
LYRICS = re.compile(r"(?:\[\d\d:\d\d(?:\.\d+)?\]|<\d\d:\d\d(?:\.\d+)?>|\{\d+\}\{\d+\})+")
SYNC = re.compile(r"<sync\b[^<>]*>", re.IGNORECASE)
PARAGRAPH = re.compile(r"(?=<p\b)", re.IGNORECASE)
LANGUAGE = re.compile(r"<p\b[^<>]*\bclass\s*=\s*[\"']?(\w+)", re.IGNORECASE)
COMMENT = re.compile(r"<!--.*?-->|</body>.*?(?=<sync\b|\Z)", re.IGNORECASE | re.DOTALL)
"""A comment, and what is between the end of an SMI file and the first subtitle of one that was joined to it."""


class Subtitles(Encoded):
    """Subtitles and lyrics (SRT, WebVTT, SBV, SMI, ASS, MicroDVD, LRC), a line for each subtitle."""

    name: Literal["subtitles"] = "subtitles"

    @property
    def files_are_documents(self) -> bool:
        """A file is a film, or a song."""
        return True

    def documents(self, path: Path) -> Iterator[Document]:
        """One per file, or one per language of an SMI file. Raises UnreadableInput for a file that is none of these."""
        with open_lines(path, self.encoding, self.max_document_bytes) as file:
            lines, size = list[str](), 0
            for line in file:
                size += self.max_document_bytes + 1 if isinstance(line, TooLong) else len(line)
                if size > self.max_document_bytes:
                    yield Document(f"{path.name}#0", path.name, "", dropped=TOO_LONG)
                    return
                lines.append(line)
        content = "".join(lines)
        if SAMI.search(content):
            languages = sami_texts(content)
        elif SUBTITLES.match(content):
            languages = {"0": subtitle_texts(content)}
        else:
            raise UnreadableInput(
                "other_form", f"{path} is neither SRT, WebVTT, SBV, SMI, ASS, MicroDVD nor LRC; use the reader text"
            )
        characters_in = len(content)
        for language, texts in languages.items():
            # a subtitle that stays is often written again
            lines = [text for text, _ in groupby(filter(None, map(plain_text, texts)))]
            if lines:
                yield Document(f"{path.name}#{language}", path.name, "\n".join(lines), characters_in=characters_in)
                characters_in = 0  # counted once


def sami_texts(content: str) -> dict[str, list[str]]:
    """The subtitles of an SMI file by the class of their language."""
    texts: dict[str, list[str]] = {}
    for cue in SYNC.split(COMMENT.sub("", content))[1:]:
        for text in PARAGRAPH.split(cue):
            language = LANGUAGE.match(text)
            texts.setdefault(language[1] if language else "0", []).append(text)
    return texts


def subtitle_texts(content: str) -> list[str]:
    """The subtitles of any other file."""
    if dialogue := DIALOGUE.findall(content):
        return dialogue
    lines = content.splitlines()
    if not any(map(TIMES.match, lines)):
        return [LYRICS.sub("", line) for line in lines if LYRICS.match(line)]
    cues, cue = list[list[str]](), list[str]()
    first = next(index for index, line in enumerate(lines) if TIMES.match(line))
    is_numbered = first > 0 and NUMBER.match(lines[first - 1])  # else a number is what somebody says
    ends_at_blank = content.lstrip().startswith("WEBVTT")  # comments, styles and names of cues come after one
    for line in lines:
        if TIMES.match(line):
            if is_numbered and cue and NUMBER.match(cue[-1]):
                cue.pop()
            cues.append(cue := [])
        elif line.strip():
            cue.append(line)
        elif ends_at_blank:
            cue = []
    # where lines roll up, as YouTube's do, a line is in the next subtitles again
    # from the end, so that the line before is still there when a subtitle is compared with it
    for before, cue in zip(cues[-2::-1], cues[:0:-1], strict=True) if ends_at_blank else ():
        if before and cue and plain_text(before[-1]) == plain_text(cue[0]):
            del cue[0]
    return [" ".join(cue) for cue in cues]


def plain_text(subtitle: str) -> str:
    """The words of a subtitle in one line."""
    return " ".join(unescape(MARKUP.sub("", BREAK.sub(" ", subtitle))).split())
