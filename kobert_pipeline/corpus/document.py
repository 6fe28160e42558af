"""The `Document` that every step of the corpus stage takes and gives, and the Parquet parts that store it."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from kobert_pipeline.files import SURROGATES, atomic_write
from kobert_pipeline.tables.data_files import name_matches
from kobert_pipeline.tables.file_type import COMPRESSED

TOO_LONG = "too_long"
NAME_BYTES = re.compile(r"[^\x00-\x7f\ud800-\udc7f\udd00-\udfff]+[A-Za-z]?")
"""What the bytes of a file's name in CP949 are to Python: surrogates, where they are by chance UTF-8 any other
characters, and the second byte of a syllable perhaps a letter of ASCII."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text, whose lines are its paragraphs. `ordered` says whether the order of paragraphs means anything; for the
    gathered reviews of a film it does not."""

    id: str
    source: str
    text: str
    ordered: bool = True
    dropped: str = ""
    """Why the reader left the text out (such as `too_long`), before all of it was in memory; "" where it did not."""
    characters_in: int | None = None
    """Characters of text in the source from which the reader took the text; None: as many as it has. Not stored."""


def relabel(document: Document, name: str, label: str, source: str) -> Document:
    """A document of the file `name`, with `label` in place of it before the # of the id, and from `source`."""
    identity = document.id
    if identity.startswith(f"{name}#"):  # other ids are the data's own
        identity = label + identity.removeprefix(name)
    is_same = (identity, source) == (document.id, document.source)
    return document if is_same else replace(document, id=identity, source=source)


def is_from(source: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a source matches one of the patterns."""
    # a recipe names `reviews.jsonl`, and the file that is found may be `reviews.jsonl.zst`; the source of a file whose
    # name another one has too is its path, which its name still matches
    paths = {source, source.rpartition("/")[2]}
    names = {path.removesuffix(suffix) for path in paths for suffix in ("", *COMPRESSED)}
    # the source of files of one document each is a pattern itself
    return any(pattern == source or any(name_matches(name, pattern) for name in names) for pattern in patterns)


def first_unmatched(patterns: Iterable[str], sources: Collection[str]) -> str | None:
    """The first pattern that the name of no source matches; None where each matches one."""
    return next((pattern for pattern in patterns if not any(is_from(source, [pattern]) for source in sources)), None)


def in_split(key: str, share: float) -> bool:
    """Whether a hash assigns `key` to a split with this `share` of all keys; the same in every run, on every
    machine."""
    # keys may be texts with lone surrogates, which plain UTF-8 cannot encode
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def limit_size(document: Document, max_bytes: int) -> Document:
    """The document, marked as dropped and without text if its text has more than `max_bytes` bytes in UTF-8."""
    # a character has at most 4 bytes in UTF-8, so most documents need not be encoded to be counted
    if document.dropped or len(document.text) * 4 <= max_bytes:
        return document
    if len(document.text.encode("utf-8", "replace")) <= max_bytes:
        return document
    return replace(document, text="", dropped=TOO_LONG, characters_in=_characters_in(document))


def remove_surrogates(document: Document) -> Document:
    """The document without lone surrogates, which cannot be written as UTF-8."""
    id_, source, text = _name(document.id), _name(document.source), SURROGATES.sub("", document.text)
    return replace(document, id=id_, source=source, text=text, characters_in=_characters_in(document))


def _name(name: str) -> str:
    """An id or source that may be the name of a file, in Unicode."""
    # an archive made on Windows has names in CP949, which without their surrogates would all be alike
    return SURROGATES.sub("", NAME_BYTES.sub(_in_unicode, name))


def _in_unicode(match: re.Match[str]) -> str:
    if not SURROGATES.search(match[0]):
        return match[0]
    return match[0].encode("utf-8", "surrogateescape").decode("cp949", "backslashreplace")


def _characters_in(document: Document) -> int:
    return len(document.text) if document.characters_in is None else document.characters_in


def write_documents(path: Path, documents: Iterable[Document]) -> None:
    """Write documents as one Parquet file (zstd)."""
    import pyarrow
    import pyarrow.parquet

    rows = list(documents)
    columns = {
        "id": pyarrow.array([document.id for document in rows], pyarrow.string()),
        "source": pyarrow.array([document.source for document in rows], pyarrow.string()),
        # large_string: pyarrow.string() addresses 2 GiB at most, and part_characters has no upper limit
        "text": pyarrow.array([document.text for document in rows], pyarrow.large_string()),
        "ordered": pyarrow.array([document.ordered for document in rows], pyarrow.bool_()),
    }
    if any(document.dropped for document in rows):  # most parts have none, so most files do without the column
        columns["dropped"] = pyarrow.array([document.dropped for document in rows], pyarrow.string())
    with atomic_write(path) as part:
        pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")


def read_documents(path: Path) -> Iterator[Document]:
    """The documents that `write_documents` wrote, in order."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=1000):
        for row in batch.to_pylist():
            yield Document(**row)


def document_ids(path: Path) -> list[str]:
    """The ids of the documents that `write_documents` wrote, in order."""
    import pyarrow.parquet

    ids: list[str] = pyarrow.parquet.read_table(path, columns=["id"])["id"].to_pylist()
    return ids


def count_documents(parts: list[Path]) -> int:
    """The number of documents in part files, of the corpus or of its analysis, without reading them."""
    import pyarrow.parquet

    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in parts)


@dataclass(frozen=True, slots=True)
class DroppedDocument:
    """A document that was not kept, as it was read or cleaned, with the reason."""

    id: str
    source: str
    reason: str
    text: str
    copy_of: str = ""
    """The id of the document that is kept, if this one is its copy."""


def write_dropped(path: Path, documents: list[DroppedDocument]) -> None:
    """Write dropped documents as one Parquet file, if there are any."""
    import pyarrow
    import pyarrow.parquet

    if documents:
        names = [field.name for field in fields(DroppedDocument)]
        columns = {name: [getattr(document, name) for document in documents] for name in names}
        with atomic_write(path) as part:
            pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")


def documents_from(corpus: Path, patterns: Collection[str]) -> Iterator[Document]:
    """The documents in the folder `corpus` whose sources match one of the patterns; without patterns all of them."""
    for part in document_parts(corpus):
        for document in read_documents(part):
            if not patterns or is_from(document.source, patterns):
                yield document


def document_parts(folder: Path) -> list[Path]:
    """The part files of a corpus or an analysis, in order."""
    return sorted(folder.glob("part-*.parquet"))


def chunks(work: Path) -> list[Path]:
    """The chunks of documents as they were read, in corpus order."""
    return sorted((work / "raw").glob("*.parquet"))
