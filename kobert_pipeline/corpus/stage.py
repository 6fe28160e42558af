"""Sources -> clean, filtered, deduplicated and decontaminated documents, in parts of about equal size.

Runs the phases of tasks on an executor (see `phases`). A phase starts when the one before has finished, finished tasks
are not repeated, and the number of tasks depends only on the data.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from kobert_pipeline.corpus.deduplicate import Buckets, signature
from kobert_pipeline.corpus.document import chunks, document_parts
from kobert_pipeline.corpus.executor import Executor, Step
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.phases import (
    CleanAndFilter,
    ReadChunks,
    SelectDuplicates,
    WriteParts,
    task_inputs,
)
from kobert_pipeline.corpus.reader import LISTED, nothing_readable, without_texts
from kobert_pipeline.corpus.recurring_lines import CountLines, SelectLines
from kobert_pipeline.corpus.task_report import SAMPLES, task_reports
from kobert_pipeline.download.sources import all_files
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, read_json_with_digest, remove_tree, sha256, write_json_with_digest
from kobert_pipeline.progress import dropped_documents

VERSION = 13
"""13: HTML entities with digits in their names (&sup2;) are decoded."""
WORK = "work"
"""Folder of intermediate files; removed at the end, not part of the result."""
PHASES = ("split", "lines", "recurring", "sift", "buckets", "choose", "finish")
WORK_FILES = tuple(
    f"{WORK}/{pattern}"
    for pattern in (
        "raw/*.parquet", "raw/*.json", "skipped/*.json", "sifted/*.parquet", "sifted/*.json", "digests/*.npy",
        "lines/*.npy", "signatures/**",
        "buckets/**", "copies/*.json", "finished/*.json",
    )
)  # fmt: skip
# a log folder also holds datatrove's completion marks, by which a resumed stage skips finished tasks
LOG_FILES = ("logs/counts.json", *(f"logs/{phase}/**" for phase in PHASES))
PARTS = ("part-*.parquet", "dropped/*.parquet")
WRITES = (*PARTS, *WORK_FILES, *LOG_FILES)
"""Patterns of every file that the stage writes to its folder."""


def version(options: CorpusOptions) -> int:
    """The version of what the stage makes with these options."""
    # in version 13 each file of one document was a source of its own; other corpora are still the same
    return VERSION + any(reader.files_are_documents for reader in options.sources)


def raw_files(options: CorpusOptions, data_dir: Path) -> list[Path]:
    """The files that the stage reads."""
    return all_files([reader.files for reader in (*options.sources, *options.decontaminate)], data_dir)


def sample(options: CorpusOptions, data_dir: Path) -> list[tuple[str, bool | None]]:
    """Check a sample of the sources, for `kobert check`: a sentence for each unreadable file and whether the stage
    would skip the file, and for each source a sentence about what is read, with None."""
    from kobert_pipeline.corpus.sampling import check_sources

    problems, taken_for = check_sources(options, data_dir)
    return [*((problem.sentence, problem.skipped) for problem in problems), *((line, None) for line in taken_for)]


def run(options: CorpusOptions, data_dir: Path, out: Path, num_workers: int | None = None) -> dict[str, Any]:
    """Write `part-00000.parquet`, ... to `out`; return the counts. Raises UserError where no document is left."""
    # counts.json is written after all phases and before their files are removed, so a run killed in between neither
    # repeats the phases nor loses the counts
    summary = out / "logs" / "counts.json"
    if summary.exists() and not parts_are_intact(out, read_json_with_digest(summary)["parts"]):
        # a part was changed between the last phase and the manifest, when the files it is made from may be gone already
        clear(out)
    if not summary.exists():
        size = sum(path.stat().st_size for path in raw_files(options, data_dir))
        executor = options.executor.for_input(num_workers, size)
        run_phases(options, executor, data_dir, out)
        write_json_with_digest(summary, sum_counts(out / WORK))
        if not parts_are_intact(out, read_json_with_digest(summary)["parts"]):
            clear(out)
            raise UserError(f"the parts in {out} changed while the stage ran; run the same command again to start over")
    remove_tree(out, WORK_FILES)
    recorded = read_json_with_digest(summary)
    counts: dict[str, Any] = recorded["counts"]
    refuse_unfit_sources(options, counts["sources"], recorded.get("first_problems", {}))
    if not counts["documents_kept"]:
        raise UserError(
            f"no document was kept of {counts['documents_read']:,} read{dropped_documents(counts)}; change what "
            "dropped them in corpus.filters (or cleaning, deduplicate, decontaminate), or add other sources"
        )
    return counts


def refuse_unfit_sources(
    options: CorpusOptions, counts: dict[str, dict[str, Any]], first_problems: dict[str, str]
) -> None:
    """Raise UserError where everything in a source was skipped, or it has no document at all: its options must be
    wrong, not some of its files. `counts` and `first_problems` are by source."""
    for reader in options.sources:
        # a source without documents and without problems has no counts
        of_source = counts.get(name := reader.title(), {})
        if not of_source.get("documents_read"):
            problem = first_problems.get(name)
            raise UserError(nothing_readable(name, problem) if problem else without_texts(reader, "sources"))


def parts_are_intact(out: Path, parts: dict[str, str]) -> bool:
    """Whether `out` holds these parts (name: SHA-256) and no others."""
    return {path.name: sha256(path) for path in document_parts(out)} == parts


def clear(out: Path) -> None:
    """Delete everything that the stage wrote, except the record of its inputs."""
    remove_tree(out, WRITES)


def run_phases(options: CorpusOptions, executor: Executor, data_dir: Path, out: Path) -> None:
    """Run all tasks that have not finished yet, phase by phase."""
    logs, work = out / "logs", out / WORK
    inputs = task_inputs(options, data_dir)
    files = [max(len(task_input.files), 1) for task_input in inputs]  # a data set of the Hub has no files
    executor.run(
        [ReadChunks(inputs, options.part_characters, data_dir, work)], files, logs / "split", "reading", "files"
    )
    documents = [read_json(path.with_suffix(".json"))["counts"]["documents_read"] for path in chunks(work)]
    count = len(documents)
    # `run` says which source gave nothing, by the counts
    if not count:
        return
    if limit := options.deduplicate.max_documents_per_line:
        executor.run([CountLines(work)], documents, logs / "lines", "counting lines", "documents")
        executor.run([SelectLines(limit, work, count)], [count], logs / "recurring", "comparing lines", "chunks")
    minhash = options.deduplicate.minhash
    steps: list[Step] = [CleanAndFilter(options, data_dir, work, out / "dropped")]
    if minhash:
        steps.append(signature(work / "signatures", minhash))
    executor.run(steps, documents, logs / "sift", "cleaning", "documents")
    if minhash:
        buckets = [1] * minhash.buckets
        executor.run([Buckets(minhash, work, count)], buckets, logs / "buckets", "comparing", "buckets")
    # a single task, because whether a document is the first of its copies depends on all chunks
    selected = [sum(documents)]
    executor.run([SelectDuplicates(options, work, count)], selected, logs / "choose", "deduplicating", "documents")
    executor.run([WriteParts(options, work, out)], documents, logs / "finish", "writing", "documents")


def sum_counts(work: Path) -> dict[str, Any]:
    """The sum of all task reports: `counts` over everything and per source, `parts`, the SHA-256 of each part,
    and `first_problems`, the first that each source skipped."""
    total: Counter[str] = Counter({"documents_read": 0, "documents_kept": 0, "characters_kept": 0})
    sources: dict[str, Counter[str]] = {}
    samples: list[str] = []
    recurring: list[str] = []
    skipped: list[str] = []
    parts: dict[str, str] = {}
    first_problems: dict[str, str] = {}
    for report in task_reports(work):
        total.update(report["counts"])
        sources.setdefault(report["source"], Counter()).update(report["counts"])
        samples += report["samples"]
        recurring += report["recurring_samples"]
        skipped += report["skipped"]
        for problem in report["skipped"][:1]:
            first_problems.setdefault(report["source"], problem)
        parts |= report["parts"]
    counts: dict[str, Any] = {**total, "sources": {name: dict(counter) for name, counter in sources.items()}}
    counts["contaminated_samples"] = samples[:SAMPLES]
    if recurring:
        counts["recurring_samples"] = list(dict.fromkeys(recurring))[:SAMPLES]
    if skipped:
        counts["skipped"] = skipped[:LISTED]
    return {"parts": parts, "counts": counts, "first_problems": first_problems}
