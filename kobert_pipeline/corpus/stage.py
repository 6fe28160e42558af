"""Sources -> clean, filtered, deduplicated and decontaminated documents, in parts of about equal size.

Five phases of tasks on an executor (see `phases`); each phase begins when the one before has finished, a task that has
finished is not done again, and the number of tasks depends on the data alone.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from kobert_pipeline.corpus.deduplicate import Buckets, signature
from kobert_pipeline.corpus.document import document_parts
from kobert_pipeline.corpus.executor import Executor
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.phases import (
    SAMPLES,
    CleanAndFilter,
    ReadChunks,
    SelectDuplicates,
    WriteParts,
    chunks,
    tallies,
    units,
)
from kobert_pipeline.corpus.unfit import LISTED
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json_with_digest, remove_tree, sha256, write_json_with_digest

VERSION = 7
WORK = "work"
"""Folder of what phases hand to one another; removed at the end, and no artefact."""
PHASES = ("split", "sift", "buckets", "choose", "finish")
WORK_FILES = tuple(
    f"{WORK}/{place}"
    for place in (
        "raw/*.parquet", "raw/*.json", "skipped/*.json", "sifted/*.parquet", "sifted/*.json", "digests/*.npy",
        "signatures/**",
        "buckets/**", "copies/*.json", "finished/*.json",
    )
)  # fmt: skip
LOG_FILES = ("logs/counts.json", *(f"logs/{phase}/**" for phase in PHASES))
PARTS = ("part-*.parquet", "dropped/*.parquet")
WRITES = (*PARTS, *WORK_FILES, *LOG_FILES)
"""Patterns of every file that the stage writes to its folder."""


def raw_files(options: CorpusOptions, data_dir: Path) -> list[Path]:
    """The files that the stage reads."""
    return [path for reader in (*options.sources, *options.decontaminate) for path in reader.files(data_dir)]


def sample(options: CorpusOptions, data_dir: Path) -> list[tuple[str, bool]]:
    """A sentence for everything unfit in a sample of every file, and whether the stage would skip it."""
    from kobert_pipeline.corpus.sampling import findings

    return [(finding.sentence, finding.skipped) for finding in findings(options, data_dir)]


def run(options: CorpusOptions, data_dir: Path, out: Path, num_workers: int | None = None) -> dict[str, Any]:
    """Write `part-00000.parquet`, ... to `out`; return the counts."""
    summary = out / "logs" / "counts.json"
    if summary.exists() and not parts_are_intact(out, read_json_with_digest(summary)["parts"]):
        clear(out)  # between its last phase and its manifest somebody changed a part: nothing is left to make it from
    if not summary.exists():
        executor = options.executor.sized(
            num_workers, sum(path.stat().st_size for path in raw_files(options, data_dir))
        )
        phases(options, executor, data_dir, out)
        write_json_with_digest(summary, sum_counts(out / WORK))
        if not parts_are_intact(out, read_json_with_digest(summary)["parts"]):
            clear(out)
            raise UserError(
                f"the parts in {out} changed while they were made; run the same command again, it begins anew"
            )
    remove_tree(out, WORK_FILES)
    counts: dict[str, Any] = read_json_with_digest(summary)["counts"]
    refuse_unfit_sources(counts)
    if not counts["documents_kept"]:
        raise UserError(
            f"no document was kept of {counts['documents_read']} read; see the filters in the recipe ({counts})"
        )
    return counts


def refuse_unfit_sources(counts: dict[str, Any]) -> None:
    """Raise UserError where all of a source was skipped: that is no dirt among its files, but a source that is
    described wrongly."""
    for name, of_source in counts["sources"].items():
        if not of_source.get("documents_read"):
            raise UserError(
                f"corpus.sources: nothing of {name} could be read, all of it was skipped; the first problem: "
                f"{counts['skipped'][0]}"
            )


def parts_are_intact(out: Path, parts: dict[str, str]) -> bool:
    """Whether `out` holds these parts (name: SHA-256) and no others."""
    return {path.name: sha256(path) for path in document_parts(out)} == parts


def clear(out: Path) -> None:
    """Delete everything that was made, but for the record of what it is made from."""
    remove_tree(out, WRITES)


def phases(options: CorpusOptions, executor: Executor, data_dir: Path, out: Path) -> None:
    """Run what has not been run."""
    logs, work = out / "logs", out / WORK
    to_read = units(options, data_dir)
    executor.run([ReadChunks(to_read, options.part_characters, data_dir, work)], len(to_read), logs / "split")
    number = len(chunks(work))
    if not number:
        return
    minhash = options.deduplicate.minhash
    sift = CleanAndFilter(options, data_dir, work, out / "dropped")
    executor.run([sift, signature(work / "signatures", minhash)] if minhash else [sift], number, logs / "sift")
    if minhash:
        executor.run([Buckets(minhash, work, number)], minhash.buckets, logs / "buckets")
    executor.run([SelectDuplicates(options, work, number)], 1, logs / "choose")
    executor.run([WriteParts(options, work, out)], number, logs / "finish")


def sum_counts(work: Path) -> dict[str, Any]:
    """`counts`, all tallies added up, over all and for each source; `parts`, what was written."""
    total: Counter[str] = Counter({"documents_read": 0, "documents_kept": 0, "characters_kept": 0})
    sources: dict[str, Counter[str]] = {}
    samples: list[str] = []
    skipped: list[str] = []
    parts: dict[str, str] = {}
    for tally in tallies(work):
        total.update(tally["counts"])
        sources.setdefault(tally["source"], Counter()).update(tally["counts"])
        samples += tally["samples"]
        skipped += tally["skipped"]
        parts |= tally["parts"]
    of_sources = {name: dict(one) for name, one in sources.items()}
    told = {"skipped": skipped[:LISTED]} if skipped else {}
    return {
        "parts": parts,
        "counts": {**total, "sources": of_sources, "contaminated_samples": samples[:SAMPLES], **told},
    }
