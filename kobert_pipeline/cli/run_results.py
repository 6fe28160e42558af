"""What `kobert run` prints at its end: for each stage what it found or reached, and where the result is; and where a
published checkpoint is."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.metrics import mean, spread
from kobert_pipeline.progress import by_source_text, dropped_documents, new_head_text
from kobert_pipeline.runs import compare, manifest
from kobert_pipeline.runs.displays import WIDTH, clock_time
from kobert_pipeline.runs.runner import Job, Outcome

if TYPE_CHECKING:
    from rich.table import Column, Table

TRUNCATED_SHARE = 0.03
"""Truncated training examples are mentioned if their share is larger than this."""
MUCH_TRUNCATED = 0.3
"""The share from which on a larger max_length is recommended."""
HIGH_UNKNOWN_RATE = 0.01
"""Share of unknown tokens above which the vocabulary lacks characters of the texts."""
CORPUS_COUNTS = {
    "paragraphs_dropped_recurring": "{:,} recurring lines removed",
    "paragraphs_contaminated": "{:,} paragraphs removed that overlap evaluation texts",
    "tags_removed": "{:,} HTML tags removed",
}
"""Counts of a corpus that are shown as they are."""
WITH_TAGS = 0.01
"""Documents with HTML tags or markup are mentioned if their share is larger than this."""
FEW = 100
"""With fewer examples than this the table says how many there are: a score is then hardly more than chance."""
FEW_STEPS = 20
"""With fewer optimizer steps than this a fine-tuning has hardly changed the model."""
MUCH_LOST = 10
"""Points that a model loses in programs that ignore its n-grams, from which on the table says so."""
SOURCES_SHOWN = 10
"""Sources whose characters are shown; the manifest has all."""
LABELS_SHOWN = 12
"""Labels whose numbers of examples are shown; the manifest has all."""
COUNTS = {
    "morphemes": "{:,} morphemes",
    "documents_failed": "{:,} documents failed",
    "train_examples": "{:,} training examples",
    "train_tokens": "{:,} training tokens",
}
"""Counts that are shown as they are."""


def outcome_row(outcome: Outcome) -> dict[str, Any]:
    """One row of the output of `kobert run --json`."""
    return {
        "stage": outcome.job.stage,
        "name": outcome.job.name,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 2),
        "counts": outcome.counts,
        "folder": str(outcome.job.folder),
    }


def print_results(outcomes: list[Outcome], scores: compare.Table | None = None) -> None:
    """Print a table with a row per stage, data set, fine-tuning (all its seeds) and published checkpoint, then a table
    of the `scores`, and the run's folder. Tables have the terminal's width, elsewhere `WIDTH` columns at most; long
    results are wrapped."""
    from rich.console import Console
    from rich.table import Column

    # a long path is broken, not shortened: people copy it
    header = ("stage", "status", Column("time", justify="right"), Column("result", overflow="fold"))
    # all jobs of a fine-tuning follow one another in a recipe's plan, so groupby finds them
    rows = [_row(title, list(group), outcomes) for title, group in groupby(outcomes, _row_title)]
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    console.print(_table(header, rows))
    if scores:
        names, lines = scores
        console.print()
        # one run: a row per score, since all of them are wider than a terminal
        console.print(_table((names[0], lines[0][0]), zip(names[1:], lines[0][1:], strict=True)))
    if outcomes:
        job = outcomes[0].job
        # a job's `path` is that of its folder below the run
        run_dir = job.folder.parents[len(Path(job.path).parts) - 1]
        console.print(f"\nrun folder: {run_dir}", markup=False, soft_wrap=True)


def _table(header: Iterable["Column | str"], rows: Iterable[Iterable[str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _row_title(outcome: Outcome) -> str:
    """`finetune nsmc` for all seeds and trials of that fine-tuning, else the job's own title."""
    return " ".join([outcome.job.stage, *outcome.job.name.split("/")[:1]]).strip()


def _row(title: str, group: list[Outcome], outcomes: list[Outcome]) -> list[str]:
    """The cells of the row of a `group` of the `outcomes`."""
    statuses = Counter(outcome.status for outcome in group)
    status = ", ".join(statuses if len(statuses) == 1 else (f"{count} {name}" for name, count in statuses.items()))
    # of a stage that was resumed all of its time, as its records have it
    seconds = sum(
        manifest.read(outcome.job.folder)["seconds"] if outcome.status == "done" else outcome.seconds
        for outcome in group
    )
    time = f"{seconds:.1f} s" if seconds < 60 else clock_time(seconds)
    first = group[0]
    if first.job.stage == "finetune":
        features = first.job.inputs.get("features")
        of_features = next((outcome.counts for outcome in outcomes if outcome.job.folder == features), {})
        result = finetune_result(group, of_features)
    else:
        result = result_of(first.counts, first.job.options)
    if first.job.stage == "publish":
        result = "; ".join([published(first.job.folder), *([result] if result else [])])
    return [title, status, time, result]


def result_of(counts: dict[str, Any], options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The counts of a stage that matter to its user; of questions that were made, how many its `options` ask for."""
    parts = [text.format(counts[name]) for name, text in COUNTS.items() if counts.get(name)]
    if "documents_kept" in counts:
        parts += corpus_results(counts)
    asked = (options.get("synthesize") or {}).get("questions")
    if asked and "synthetic_made" in counts:  # runs of earlier versions did not count them
        parts.append(f"{counts['synthetic_made']:,} of {asked:,} questions made from the corpus")
        parts.append(f"{counts['dev_examples']:,} dev examples")
        if counts["synthetic_made"] < asked and counts["train_examples"] < FEW:
            count = counts["train_examples"]
            parts.append(f"{count:,} training examples are too few to learn from, so add texts, or write questions")
    if 0 < counts.get("held_out_documents", 0) < FEW:
        parts.append(f"only {counts['held_out_documents']} document{'s' * (counts['held_out_documents'] > 1)} held out")
    if "train_labels" in counts:
        parts.append(label_counts(counts["train_labels"]))
    if contradicting := sum(counts.get(f"{split}_texts_contradicting", 0) for split in ("train", "dev", "test")):
        parts.append(f"texts with more than one label: {contradicting:,}")
    if "vocab_size" in counts:
        parts.append(f"{counts['vocab_size']:,} tokens in the vocabulary")
    if (rate := counts.get("unknown_rate", counts.get("train_unknown_rate"))) is not None:
        # of a tokenizer's own corpus it is low, unless the vocabulary was made for too few characters
        missing = "unknown_rate" in counts and rate > HIGH_UNKNOWN_RATE
        parts.append(f"unknown rate {rate:.2%}{': characters are missing from it' * missing}")
    if counts.get("train_truncated", 0) > TRUNCATED_SHARE * counts.get("train_examples", 0):
        share = counts["train_truncated"] / counts["train_examples"]
        advice = ", so a larger max_length may be much better" if share > MUCH_TRUNCATED else ""
        parts.append(f"{share:.0%} of them truncated to max_length{advice}")
    if "held_out_after" in counts:
        before, after = (counts[name]["loss"] for name in ("held_out_before", "held_out_after"))
        parts.append(f"held-out loss {after:.2f} (at first {before:.2f}), training loss {counts['train_loss']:.2f}")
        parts += [f"{counts['tokens_seen']:,} tokens seen", by_source_text(counts), new_head_text(counts)]
    unusable = {
        "file": counts.get("files_skipped", 0) + counts.get("files_read_in_part", 0),
        "row": counts.get("rows_skipped", 0),
    }
    if any(unusable.values()):
        amounts = " and ".join(f"{n:,} {what}{'s' if n > 1 else ''}" for what, n in unusable.items() if n)
        parts.append(f"{amounts} unusable (`counts.skipped` in its manifest.json)")
    return ", ".join(filter(None, parts))


def corpus_results(counts: dict[str, Any]) -> list[str]:
    """How many documents of a corpus were kept, why others were dropped, and what was changed in those kept."""
    totals = f"{counts['documents_kept']:,} of {counts['documents_read']:,} documents kept"
    parts = [f"{totals}{dropped_documents(counts)}", *characters_by_source(counts.get("sources", {}))]
    parts += [text.format(counts[name]) for name, text in CORPUS_COUNTS.items() if counts.get(name)]
    if masked := sum(count for name, count in counts.items() if name.startswith("masked_")):
        parts.append(f"{masked:,} personal data masked")
    if counts.get("documents_with_tags", 0) > WITH_TAGS * counts["documents_read"]:
        parts.append(
            f"{counts['documents_with_tags']:,} documents have HTML tags, which cleaning: {{tags: remove}} removes"
        )
    if counts.get("documents_with_markup", 0) > WITH_TAGS * counts["documents_read"]:
        parts.append(f"{counts['documents_with_markup']:,} documents have markup of a wiki; extract their text first")
    return parts


def characters_by_source(sources: dict[str, dict[str, int]]) -> list[str]:
    """How many of the characters in each source are kept; of many sources, only the ones that keep the smallest
    shares."""
    read = {name: counts for name, counts in sources.items() if counts.get("characters_in")}
    # rounded down: 100 % are all of them, and 99.99 % nearly all
    shares = {
        name: 10_000 * counts.get("characters_kept", 0) // counts["characters_in"] / 100
        for name, counts in read.items()
    }
    return [
        f"{name}: {shares[name]:g}% of {read[name]['characters_in']:,} characters kept"
        for name in sorted(shares, key=lambda name: shares[name])[:SOURCES_SHOWN]
    ]


def label_counts(counts: dict[str, int]) -> str:
    """The labels with their numbers of training examples, the most frequent first."""
    ranked = sorted(counts.items(), key=lambda label: -label[1])
    more = [f"{len(ranked) - LABELS_SHOWN:,} more"] if len(ranked) > LABELS_SHOWN else []
    return "labels: " + "; ".join([*(f"{label} {count:,}" for label, count in ranked[:LABELS_SHOWN]), *more])


def finetune_result(group: list[Outcome], data: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The scores of a fine-tuning over its seeds, on test, or on dev where there is no test set. Trials of a grid
    search are only counted. `data`: the counts of its features, which say what the scores are worth."""
    trained = [outcome for outcome in group if "seed" in outcome.job.options]  # not the soft labels of a distillation
    by_seed = {
        outcome.job.name.rpartition("/")[2]: outcome.counts
        for outcome in trained
        if "grid" not in outcome.job.name.split("/")
    }
    seeds = list(by_seed.values())
    trials = len(trained) - len(seeds)
    parts = []
    if seeds:
        split = "test" if all("test" in counts for counts in seeds) else "dev"
        parts += split_scores(seeds, split)
        if split == "test" and all(counts.get("dev") for counts in seeds):
            parts += split_scores(seeds, "dev")  # by which rows are chosen
        if weights := {seed: both for seed, counts in by_seed.items() if (both := counts.get("ngrams_weights"))}:
            listed = [
                f"{both[0]:.2f} and {both[1]:.2f}" + f" (seed {seed})" * (len(seeds) > 1)
                for seed, both in weights.items()
            ]
            parts += [
                f"log-probabilities of network and n-grams, weighted {', '.join(listed)}",
                *lost_elsewhere(seeds, split),
            ]
        if len(seeds) > 1:
            parts.append(f"{len(seeds)} seeds")
        parts += worth(data, split)
        parts += missed_labels(by_seed, split)
        # classifiers over n-grams have no steps, and get no advice
        if (steps := min((counts["steps"] for counts in seeds if "steps" in counts), default=FEW_STEPS)) < FEW_STEPS:
            parts.append(f"only {steps} step{'s' * (steps > 1)}, so give more epochs")
    if trials:
        parts.append(f"best of {trials} settings on dev" if seeds else f"{trials} settings tried")
    return ", ".join(parts)


def split_scores(seeds: list[dict[str, Any]], split: str) -> list[str]:
    """The scores on a split over the seeds, whose counts are given: of the network alone and with what is added to it,
    where these were measured."""
    ablations = [counts.get(f"{split}_prior_ablation", {}) for counts in seeds]
    if not all(ablations):
        return [f"{split} {score}" for score in scores_over_seeds([counts[split] for counts in seeds])]
    return [
        f"{split}, {name.replace('_', ' ')}: {', '.join(scores_over_seeds([ablation[name] for ablation in ablations]))}"
        for name in ablations[0]
    ]


def lost_elsewhere(seeds: list[dict[str, Any]], split: str) -> list[str]:
    """How many points a model loses in programs that ignore its n-grams, if at least `MUCH_LOST`."""
    ablations = [counts.get(f"{split}_prior_ablation", {}) for counts in seeds]
    if not all(ablations):
        return []
    metric = next(iter(ablations[0]["network_alone"]))
    lost = mean([ablation["network_and_n-grams"][metric] - ablation["network_alone"][metric] for ablation in ablations])
    if lost < MUCH_LOST:
        return []
    return [f"programs other than kobert read the network alone and lose {lost:.1f} points of {metric}"]


def worth(data: Mapping[str, Any], split: str) -> list[str]:
    """Why scores on a split say little: few examples, or examples that were made by rules."""
    examples = data.get(f"{split}_examples", FEW)
    reasons = [f"only {examples:,} {split} example{'s' * (examples > 1)}"] if examples < FEW else []
    if split == "dev" and data.get("dev_examples_synthetic"):
        reasons.append(f"{data['dev_examples_synthetic']:,} dev examples were made by rules, not by people")
    return reasons


def missed_labels(by_seed: dict[str, dict[str, Any]], split: str) -> list[str]:
    """Which labels with examples in the split a seed never predicted there, by the counts of each seed; of tasks with
    one label for each text."""
    seeds_by_labels: dict[str, list[str]] = {}
    for seed, counts in by_seed.items():
        report = counts.get(f"{split}_classification_report", {})
        if "confusion_matrix" not in report:
            continue
        columns = zip(*report["confusion_matrix"], strict=True)
        missed = [
            f"'{row['label']}' ({row['support']:,} {split} example{'s' * (row['support'] > 1)})"
            for row, column in zip(report["classes"], columns, strict=True)
            if row["support"] and not any(column)
        ]
        if missed:
            more = [f"{len(missed) - LABELS_SHOWN:,} more labels"] if len(missed) > LABELS_SHOWN else []
            labels = ", ".join([*missed[:LABELS_SHOWN], *more])
            seeds_by_labels.setdefault(labels, []).append(seed)
    return [
        f"{'seed' if len(names) == 1 else 'seeds'} {', '.join(names)} never predicted {labels}"
        for labels, names in seeds_by_labels.items()
    ]


def scores_over_seeds(scores: list[dict[str, float]]) -> list[str]:
    """`accuracy 87.73`, or of several seeds with its range, for each metric."""
    return [f"{name} {_with_spread([of_seed[name] for of_seed in scores])}" for name in scores[0]]


def _with_spread(scores: list[float]) -> str:
    """`87.73`, or of several seeds the mean and range: `87.73 (87.68 to 87.76)`."""
    numbers = spread(scores)
    several = f" ({numbers['min']:.2f} to {numbers['max']:.2f})" if len(scores) > 1 else ""
    return f"{mean(scores):.2f}{several}"


def published(folder: Path) -> str:
    """The folder of a published checkpoint and the size of its files."""
    size = sum(file["size"] for file in manifest.read(folder)["files"].values())
    return f"{folder}, {size / 1e6:,.1f} MB"


def published_folder(planned: list[Job], name: str | None) -> Path:
    """The folder of the checkpoint `name`, or of the recipe's only checkpoint. Raises UserError if there is none."""
    folders = {job.name: job.folder for job in planned if job.stage == "publish"}
    if name is None and len(folders) == 1:
        return next(iter(folders.values()))
    if name not in folders:
        problem = f"has no checkpoint {name!r}" if name else f"publishes {len(folders)} checkpoints"
        raise UserError(
            f"the recipe {problem}; choose one with --name (allowed: {', '.join(sorted(folders)) or 'nothing'})"
        )
    return folders[name]
