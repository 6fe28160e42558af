"""JSON files in SQuAD 1.1 form (KorQuAD 1.0, TyDi QA GoldP): contexts are documents; tasks read the questions too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.tables.squad import paragraphs
from kobert_pipeline.tables.unreadable import UnreadableInput


class Squad(Reader):
    """Contexts of question answering data sets."""

    name: Literal["squad"] = "squad"

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """A document for each context."""
        for index, paragraph in enumerate(paragraphs(path)):
            if isinstance(paragraph, UnreadableInput):
                yield paragraph
            else:
                yield Document(f"{path.name}#{index}", path.name, paragraph["context"])
