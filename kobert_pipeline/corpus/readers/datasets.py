"""A data set of the Hugging Face Hub, streamed, or a local folder with the same layout."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Ordered
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.tables.columns import text_cell
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput, tried

FORMATS = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "JSON"), **dict.fromkeys((".parquet", ".geoparquet"), "Parquet"),
    ".csv": "CSV", ".tsv": "TSV", ".txt": "text", ".arrow": "Arrow",
}  # fmt: skip
"""Formats of texts, of which `datasets` reads only the one that most files have, and leaves out the others unseen."""
NO_DATA = ("readme", "license", "notice", "config.", "dataset_info", "dataset_dict", "state.", "requirements")
"""Beginnings of the names of files that are about a data set."""


class HubDataset(Ordered):
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

    def files(self, data_dir: Path) -> list[Path]:
        """Like `matching_files`, without the check for empty files, which a data set's folder may contain."""
        return self.matching_files(data_dir)

    def matching_files(self, data_dir: Path) -> list[Path]:
        """The files of a folder, or none for a data set of the Hub. Raises UserError for the latter without
        `revision`, and for a folder with files in several formats."""
        folder = data_dir / self.path
        if folder.is_dir():
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            refuse_several_formats(folder, files)
            return files
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

    def source_of(self, path: Path, labels: Mapping[Path, str]) -> str:
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


def refuse_several_formats(folder: Path, files: list[Path]) -> None:
    """Raise UserError where files of a folder have several formats and no card says which of them are data."""
    card = folder / "README.md"
    if card.is_file() and "data_files" in card.read_text(encoding="utf-8", errors="replace"):
        return
    names = [path.relative_to(folder) for path in files if not path.name.lower().startswith(NO_DATA)]
    data = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    # reversed, so that each format is shown by its first file
    formats = {file_format: name for name in reversed(data) if (file_format := FORMATS.get(data_suffix(name)))}
    if len(formats) > 1:
        found = " and ".join(f"{file_format} ({name})" for file_format, name in sorted(formats.items()))
        raise UserError(
            f"corpus.sources: {folder} has files in {found}, of which the reader datasets would read one format alone; "
            "keep one, or give each a source of its own, with the readers csv, json, jsonl, parquet and text"
        )
