"""What the tasks of the corpus stage report: counts, samples and checksums, as JSON files that the stage sums up."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.pii import MASKS, redact
from kobert_pipeline.files import read_json, write_json

REPORT_FOLDERS = ("raw", "skipped", "sifted", "finished")
"""Folders of task reports, in the order of the phases."""
SAMPLES = 20
"""Contaminated paragraphs, and recurring lines, quoted in the manifest, so that a person can judge them."""
QUOTED = 100
"""Characters of them that are quoted."""


def quoted(paragraph: str) -> str:
    """A paragraph as the manifest quotes it. Redacted whatever the options say, because manifests are published."""
    return redact(paragraph, tuple(MASKS))[:QUOTED]


@dataclass
class TaskReport:
    """What one task did: its counts, the SHA-256 of the parts it wrote, and what it skipped. Stored as JSON and summed
    at the end of the stage."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)
    recurring_samples: list[str] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def count_read(self, document: Document) -> None:
        """Count a document as it was read, its characters, and the characters of the source that it was made of."""
        self.count("read", document)
        self.counts["characters_in"] += document.characters_in or 0  # set by `remove_surrogates`

    def count(self, what: str, document: Document) -> None:
        """Count a document and its characters."""
        self.counts[f"documents_{what}"] += 1
        self.counts[f"characters_{what}"] += len(document.text)

    def write(self, path: Path, source: str) -> None:
        """Write the report as JSON, with the title of the source that the task read."""
        details = {"samples": self.samples[:SAMPLES], "parts": self.parts, "skipped": self.skipped}
        details["recurring_samples"] = self.recurring_samples[:SAMPLES]
        write_json(path, {"source": source, "counts": dict(self.counts), **details})


def task_reports(work: Path) -> Iterator[dict[str, Any]]:
    """All reports that tasks wrote, by phase and then in corpus order."""
    paths = chain.from_iterable(sorted((work / name).glob("*.json")) for name in REPORT_FOLDERS)
    return (read_json(path) for path in paths)
