"""The default output of WikiExtractor: articles between <doc> and </doc>. What it writes with --json is JSON Lines."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.tables.file_type import WIKI_EXTRACTOR
from kobert_pipeline.tables.open_text import TooLong, open_lines
from kobert_pipeline.tables.unreadable import UnreadableInput

LONGEST_TITLE = 10_000
"""Bytes of a <doc> line, which may be longer than the documents are allowed to be."""


class WikiExtractor(Reader):
    """The output of WikiExtractor (wiki_00, ...), articles between <doc> lines. The reader `jsonl` reads what its
    option --json writes."""

    name: Literal["wikiextractor"] = "wikiextractor"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per article that has more than its title. Raises UnreadableInput for a file without <doc> lines, and
        where one is not closed."""
        identity: str | None = None
        lines, size, count, characters_in = list[str](), 0, 0, 0
        with open_lines(path, longest=self.max_document_bytes + LONGEST_TITLE) as file:
            for line in file:
                characters_in += len(line)
                if opening := WIKI_EXTRACTOR.match(line):
                    self._refuse_open(path, identity)
                    identity, lines, size, count = opening[1], [], 0, count + 1
                elif line.strip() == "</doc>" and identity is not None:
                    # the first line is the title, which is all there is of some pages
                    if size > self.max_document_bytes or len(lines) > 1:
                        yield replace(self._document(path, identity, lines, size), characters_in=characters_in)
                        characters_in = 0
                    identity = None
                elif identity is not None and (text := line.strip()):
                    size += self.max_document_bytes if isinstance(line, TooLong) else len(text) + 1
                    if size <= self.max_document_bytes:
                        lines.append(text)
        self._refuse_open(path, identity)
        if not count:
            raise UnreadableInput(
                "other_form",
                f"{path} has no <doc> line, it is not WikiExtractor's output; use the reader text, or jsonl",
            )

    def _document(self, path: Path, identity: str, lines: list[str], size: int) -> Document:
        dropped = TOO_LONG if size > self.max_document_bytes else ""
        return Document(f"{path.name}#{identity}", path.name, "" if dropped else "\n".join(lines), dropped=dropped)

    def _refuse_open(self, path: Path, identity: str | None) -> None:
        if identity is not None:
            raise UnreadableInput("damaged", f"{path}: the article {identity} has no </doc>; extract it again")
