"""Chat logs: what people wrote, without their names and the times."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Encoded, read_head
from kobert_pipeline.tables.chat import Block, blocks, days, forms_of, is_event
from kobert_pipeline.tables.csv import read_csv
from kobert_pipeline.tables.file_type import data_suffix, text_format
from kobert_pipeline.tables.open_text import TooLong, open_lines
from kobert_pipeline.tables.unreadable import UnreadableInput, readable

COLUMNS = ("Date", "User", "Message")
"""Columns of KakaoTalk's table on a Mac."""
NO_LOG = "no chat log of a form that is known (a time and a name before each message)"

IN = "characters"


class Chat(Encoded):
    """Chats exported from KakaoTalk (PC, phone, Mac) and other logs with a time and a name before each message."""

    name: Literal["chat"] = "chat"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per day, its messages as paragraphs. Raises UnreadableInput for a file that is no chat log."""
        is_table = data_suffix(path) == ".csv"
        read = Counter[str]()
        index = -1
        for index, day in enumerate(days(self._rows(path, read) if is_table else self._log(path, read))):
            # counted while `days` reads ahead of what it gives; popped, so that no line counts for two days
            yield Document(f"{path.name}#{index}", path.name, "\n".join(day), characters_in=read.pop(IN, 0))
        if index < 0 and read[IN]:
            raise UnreadableInput("other_form", f"{path} has no message that can be read; it is {NO_LOG}")

    def _log(self, path: Path, read: Counter[str]) -> Iterator[Block]:
        with open_lines(path, self.encoding, self.max_document_bytes) as file:
            head = list(read_head(file))
            forms = forms_of("".join(head))
            if forms is None:
                form = text_format("".join(head))
                raise UnreadableInput(
                    "other_form", f"{path} is {form.description if form else f'{NO_LOG}; use the reader text'}"
                )
            yield from blocks(_counted(chain(head, file), read, path), forms)

    def _rows(self, path: Path, read: Counter[str]) -> Iterator[Block]:
        """The messages of KakaoTalk's table; rows that cannot be read are refused with the file."""
        advice = f"; it is {NO_LOG}, use the reader csv"
        for row in readable(read_csv(path, encoding=self.encoding, columns=dict.fromkeys(COLUMNS, advice), lossy=True)):
            date, message = row.cells["Date"].partition(" ")[0], row.cells["Message"]
            lines = list(_counted(message.splitlines(), read, path))
            yield date, [] if is_event(message, row.cells["User"]) else lines


def _counted(lines: Iterable[str], read: Counter[str], path: Path) -> Iterator[str]:
    """The lines of a file, whose characters are added to `read`. Raises UnreadableInput for a line that is too long."""
    for line in lines:
        if isinstance(line, TooLong):
            raise UnreadableInput("too_long", f"{path}: a line is longer than max_document_bytes allows; raise it")
        read[IN] += len(line)
        yield line
