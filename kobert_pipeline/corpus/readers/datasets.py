"""A data set of the Hugging Face Hub by name, streamed (optional extra `datasets`), or a folder in its form."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError, did_you_mean


class HubDataset(Reader):
    """A data set of the Hub, or a folder below data_dir in the form of one."""

    name: Literal["datasets"] = "datasets"
    path: str
    """OWNER/NAME on the Hub, or a folder below data_dir."""
    config: str | None = None
    """Its configuration, such as 20231101.ko."""
    split: str = "train"
    """Its split."""
    revision: str | None = None
    """Commit on the Hub. Needed there, since a name alone may mean other texts tomorrow."""
    text: str = "text"
    """Column of the text."""
    id: str | None = None
    """Column of the document's id; null numbers the rows."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    def files(self, data_dir: Path) -> list[Path]:
        """The files of a folder; none of the Hub. Raises UserError for a name of the Hub without `revision`."""
        folder = data_dir / self.path
        if folder.is_dir():
            return sorted(path for path in folder.rglob("*") if path.is_file())
        if self.revision is None:
            raise UserError(
                f"corpus.sources: {self.path} is no folder below {data_dir}; of a data set of the Hub say the revision (a commit)"
            )
        return []

    def groups(self, data_dir: Path) -> list[list[Path]]:
        """The data set is read as one."""
        folder = data_dir / self.path
        return [[folder if folder.is_dir() else Path(self.path)]]

    def documents(self, path: Path) -> Iterator[Document]:
        """One per row."""
        for number, row in enumerate(self._rows(path)):
            for column in filter(None, (self.text, self.id)):
                if column not in row:
                    raise UserError(f"{self.path}: there is no column '{column}'{did_you_mean(column, row).replace('allowed', 'found')}")
            if not isinstance(row[self.text], (str, NoneType)):
                raise UserError(f"{self.path}: the column '{self.text}' holds {type(row[self.text]).__name__}, text was expected")
            identity = row[self.id] if self.id else None
            name = f"{self.path}#{number}" if identity is None else str(identity)
            yield Document(name, self.path, row[self.text] or "", self.ordered)

    def _rows(self, path: Path) -> Iterator[dict[str, Any]]:
        try:
            import datasets
        except ImportError:
            raise UserError("the reader datasets needs the library datasets; run: pip install 'kobert-pipeline[datasets]'") from None
        try:
            yield from datasets.load_dataset(str(path), self.config, split=self.split, revision=self.revision, streaming=True)
        except (ConnectionError, FileNotFoundError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise UserError(f"{self.path} cannot be read as a data set ({' '.join(str(error).split())[:300]})") from None
