"""Parquet files with any column names; rows may be grouped into one document (all reviews of a film)."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit, set_aside, strict
from kobert_pipeline.errors import did_you_mean


class Parquet(Reader):
    """Parquet files."""

    name: Literal["parquet"] = "parquet"
    text: str = "text"
    """Column of the text."""
    id: str | None = None
    """Column of the document's id; null: the row number."""
    group_by: str | None = None
    """Column by which neighbouring rows with equal values are joined to one document, each row a paragraph. Such
    documents are never `ordered`."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """One per row, or one per group of rows."""
        rows = self._rows(path)
        if self.group_by is None:
            for number, row in enumerate(rows):
                if isinstance(row, Unfit):
                    yield row
                    continue
                identity = row[self.id] if self.id else None
                name = f"{path.name}#{number}" if identity is None else str(identity)
                yield Document(name, path.name, row[self.text] or "", self.ordered)
            return
        key, unfit = self.group_by, list[Unfit]()
        for number, (value, group) in enumerate(groupby(set_aside(rows, unfit), key=lambda row: row[key])):
            lines = [" ".join((row[self.text] or "").splitlines()) for row in group]
            yield Document(f"{path.name}#{number}:{value}", path.name, "\n".join(lines), ordered=False)
            # an unreadable row neither ends the group around it nor is lost: it comes after the group's document
            yield from unfit
            unfit.clear()
        yield from unfit

    def _rows(self, path: Path) -> Iterator[dict[str, Any] | Unfit]:
        columns = [column for column in (self.text, self.id, self.group_by) if column]
        file = open_parquet(path)
        for column in columns:
            if column not in file.schema_arrow.names:
                guess = did_you_mean(column, file.schema_arrow.names).replace("allowed", "found")
                raise Unfit(
                    "columns", f"{path}: there is no column '{column}'{guess}; options such as text name the columns"
                )
        kind = file.schema_arrow.field(self.text).type
        if not _is_text(kind):
            raise Unfit("wrong_type", f"{path}: the column '{self.text}' holds {kind}, text was expected")
        yield from _read_rows(path, file, columns)


def open_parquet(path: Path) -> Any:
    """The file as pyarrow's `ParquetFile`. Raises Unfit where it is not a complete Parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Unfit(
            "damaged", f"{path} is not a complete Parquet file ({str(error).splitlines()[0]}); fetch it again"
        ) from None


def read_rows(path: Path, file: Any, columns: list[str] | None) -> Iterator[dict[str, Any]]:
    """The rows of an open file with these columns (None: all). Raises Unfit where it is damaged."""
    return strict(_read_rows(path, file, columns))


def _read_rows(path: Path, file: Any, columns: list[str] | None) -> Iterator[dict[str, Any] | Unfit]:
    import pyarrow

    before = 0
    try:
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            try:
                yield from batch.to_pylist()
            except UnicodeDecodeError:  # raised before the first row is given, so no row comes twice
                yield from _rows_one_by_one(path, batch, before)
            before += batch.num_rows
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Unfit("damaged", f"{path} is damaged ({str(error).splitlines()[0]}); fetch it again") from None


def _rows_one_by_one(path: Path, batch: Any, before: int) -> Iterator[dict[str, Any] | Unfit]:
    """The rows of a batch that contains invalid UTF-8, with an Unfit in place of each such row; `before` is the number
    of rows before the batch."""
    for number in range(batch.num_rows):
        try:
            yield from batch.slice(number, 1).to_pylist()
        except UnicodeDecodeError:
            yield Unfit("encoding", f"{path}, row {before + number + 1}: not UTF-8, though its column says so")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
