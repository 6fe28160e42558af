"""A data set of the Hugging Face Hub, streamed, or a local folder with the same layout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.tables.columns import text_cell
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput, tried


class HubDataset(Reader):
    """A data set of the Hub, or a folder below data_dir with the layout of one."""

    name: Literal["datasets"] = "datasets"
    path: str
    """OWNER/NAME on the Hub, or a folder below data_dir."""
    config: str | None = None
    """Configuration of the data set, such as 20231101.ko."""
    split: str = "train"
    """Split of the data set."""
    revision: str | None = None
    """Commit on the Hub. Required there, since the contents of a name may change."""
    text: str = "text"
    """Column of the text."""
    id: str | None = None
    """Column of the document's id; null: the row number."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    def files(self, data_dir: Path) -> list[Path]:
        """Like `matching_files`, without the check for empty files, which a data set's folder may contain."""
        return self.matching_files(data_dir)

    def matching_files(self, data_dir: Path) -> list[Path]:
        """The files of a folder, or none for a data set of the Hub. Raises UserError for the latter without
        `revision`."""
        folder = data_dir / self.path
        if folder.is_dir():
            return sorted(path for path in folder.rglob("*") if path.is_file())
        if self.revision is None:
            raise UserError(
                f"corpus.sources: {self.path} is not a folder below {data_dir}; for a data set of the Hub set the "
                "revision (a commit)"
            )
        return []

    def files_to_check(self, data_dir: Path) -> list[Path]:
        """The folder, or the name on the Hub as a path."""
        self.matching_files(data_dir)
        return self.groups(data_dir)[0]

    def source_of(self, path: Path) -> str:
        """The path as the recipe gives it, for a folder too."""
        return self.path

    def groups(self, data_dir: Path) -> list[list[Path]]:
        """A single group: a data set is read as a whole."""
        folder = data_dir / self.path
        return [[folder if folder.is_dir() else Path(self.path)]]

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """A document for each row."""
        rows = (Row(cells, Location(Path(self.path), "row", n), n) for n, cells in enumerate(self._rows(path)))
        return tried(rows, lambda first: self._document)

    def _document(self, row: Row) -> Document:
        for column in filter(None, (self.text, self.id)):
            if column not in row.cells:
                guess = did_you_mean(column, row.cells, "found")
                raise UnreadableInput("columns", f"there is no column '{column}'{guess}")
        identity = row.cells[self.id] if self.id else None
        document_id = f"{self.path}#{row.index}" if identity is None else str(identity)
        text = "" if row.cells[self.text] is None else text_cell(row, self.text)
        return Document(document_id, self.path, text, self.ordered)

    def _rows(self, path: Path) -> Iterator[dict[str, Any]]:
        import datasets  # a second

        try:
            yield from datasets.load_dataset(
                str(path), self.config, split=self.split, revision=self.revision, streaming=True
            )
        except (ConnectionError, FileNotFoundError, ValueError, datasets.exceptions.DatasetsError) as error:
            sentence = f"{self.path} cannot be read as a data set ({' '.join(str(error).split())[:300]})"
            # a local folder may be skipped as unreadable; a failure of the Hub may not, since it may work the next time
            raise (UnreadableInput("damaged", sentence) if path.is_dir() else UserError(sentence)) from None
