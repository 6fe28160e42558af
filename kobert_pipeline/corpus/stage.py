"""Sources -> clean, filtered, deduplicated and decontaminated documents, in parts of about equal size."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.decontaminate import Evaluation, squeezed
from kobert_pipeline.corpus.document import Document, write_documents
from kobert_pipeline.corpus.filters import FilterOptions, reason_to_drop
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError
from kobert_pipeline.options import Options

VERSION = 1
SAMPLES = 20
"""Contaminated paragraphs printed in the manifest, to be read by eye."""


class CorpusOptions(Options):
    """What to read and what to drop."""

    sources: list[Reader] = Field(min_length=1)
    """Readers, read in this order."""
    filters: FilterOptions = FilterOptions()
    """Thresholds of the document filters."""
    deduplicate: bool = True
    """Drop documents equal to an earlier one, white space ignored."""
    decontaminate: list[Reader] = []
    """Evaluation sets whose texts must not be trained on."""
    part_characters: int = Field(4_000_000, gt=0)
    """Characters in one part; parts are what later stages resume by."""


def raw_files(options: CorpusOptions, data_dir: Path) -> list[Path]:
    """The files that the stage reads."""
    return [path for reader in (*options.sources, *options.decontaminate) for path in reader.files(data_dir)]


def run(options: CorpusOptions, data_dir: Path, out: Path) -> dict[str, Any]:
    """Write `part-00000.parquet`, ... to `out`; return the counts."""
    counts: Counter[str] = Counter()
    samples: list[str] = []
    held = Evaluation(clean(document.text) for reader in options.decontaminate for document in reader.read(data_dir))
    documents = kept(options, data_dir, held, counts, samples)
    for number, part in enumerate(parts(documents, options.part_characters)):
        write_documents(out / f"part-{number:05d}.parquet", part)
    if not counts["documents_kept"]:
        raise UserError(f"no document was kept of {counts['documents_read']} read; see the filters in the recipe ({dict(counts)})")
    return {**counts, "contaminated_samples": samples}


def kept(options: CorpusOptions, data_dir: Path, held: Evaluation, counts: Counter[str], samples: list[str]) -> Iterator[Document]:
    """The documents that stay, counting the others by reason."""
    seen: set[bytes] = set()
    for reader in options.sources:
        for document in reader.read(data_dir):
            counts["documents_read"] += 1
            counts["characters_read"] += len(document.text)
            cleaned = replace(document, text=clean(document.text))
            document = without_contamination(cleaned, held, counts, samples)
            reason = "contaminated" if cleaned.text and not document.text else reason_to_drop(document, options.filters)
            digest = hashlib.blake2b(squeezed(document.text).encode(), digest_size=16).digest()
            if reason is None and options.deduplicate and digest in seen:
                reason = "duplicate"
            if reason:
                counts[f"documents_dropped_{reason}"] += 1
                continue
            seen.add(digest)
            counts["documents_kept"] += 1
            counts["characters_kept"] += len(document.text)
            yield document


def without_contamination(document: Document, held: Evaluation, counts: Counter[str], samples: list[str]) -> Document:
    """`document` less the paragraphs that an evaluation set holds."""
    lines = document.text.split("\n")
    clear = [line for line in lines if not held.holds(line)]
    if len(clear) == len(lines):
        return document
    counts["paragraphs_contaminated"] += len(lines) - len(clear)
    counts["characters_contaminated"] += sum(map(len, lines)) - sum(map(len, clear))
    samples += [line[:100] for line in lines if line not in clear][: SAMPLES - len(samples)]
    return replace(document, text="\n".join(clear))


def parts(documents: Iterator[Document], characters: int) -> Iterator[list[Document]]:
    """Documents gathered until a part has `characters`."""
    part: list[Document] = []
    size = 0
    for document in documents:
        part.append(document)
        size += len(document.text)
        if size >= characters:
            yield part
            part, size = [], 0
    if part:
        yield part
