"""`kobert compare`: finished runs side by side. All numbers come from their manifests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.metrics import mean, spread
from kobert_pipeline.files import digest
from kobert_pipeline.markdown import table
from kobert_pipeline.progress import new_head_text, perplexity
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.latex import PREAMBLE, booktabs
from kobert_pipeline.runs.seeds import SOFT_LABELS, current_seeds, features_folder
from kobert_pipeline.runs.stage_folder import FINISHED

Table = tuple[list[str], list[list[str]]]
"""Header and rows of a table."""
VOCABULARIES = ("morphemes.json", "tokenizer.json")
"""The files that hold a vocabulary of our own, or a checkpoint's."""
NO_MODEL = "n-grams, no model"
"""The start of a linear classifier."""
SEED_OPTIONS = (["seed"], ["plan", "seed"])
"""Options in the record of a fine-tuning that its list of seeds replaces."""
BEST_SETTING = "setting that is best on dev"
"""The input of a fine-tuning that a grid search chose."""


def comparison_rows(run_dirs: list[Path]) -> list[dict[str, Any]]:
    """One row per fine-tuning of each run: its scores over the seeds, and the model that it started from, which is the
    run's own or an existing checkpoint.

    Raises UserError for a run whose pretraining is not finished.
    """
    rows: list[dict[str, Any]] = []
    for run_dir in run_dirs:
        base = {"run": run_dir.name} | _origin(run_dir)
        tuned = sorted(path for path in (run_dir / "finetune").glob("*") if path.is_dir())
        scores = [_scores(folder) for folder in tuned] or [{"finetune": "", "seeds": 0, "scores": {}}]
        # what the run's encoder is and cost says nothing of n-grams
        rows += [({"run": run_dir.name} if row.get("start") == NO_MODEL else base) | row for row in scores]
    for row in rows:
        row["start"] = row.get("start") or _start(row)
    return rows


def _start(row: dict[str, Any]) -> str:
    """What a fine-tuning started from where its options do not say otherwise: the run's pretraining, with the model
    that this began with, or a checkpoint as it was."""
    before = row.get("base") or row.get("checkpoint")
    if "tokens_seen" not in row:
        return str(before)
    start = f"own pretraining from {before}" if before else "own pretraining"
    return "; ".join(filter(None, [start, new_head_text(row)]))


def _origin(run_dir: Path) -> dict[str, Any]:
    """The entries of a row that belong to the model which a run's fine-tunings started from."""
    if manifest.is_finished(run_dir / "checkpoint"):
        counts = manifest.read(run_dir / "checkpoint")["counts"]
        start = {"checkpoint": counts["source"], "vocab_size": counts["vocab_size"], "parameters": counts["parameters"]}
        return start | (_pretraining(run_dir, "checkpoint") if run_dir / "pretrain" in _stages_read(run_dir) else {})
    if not manifest.is_finished(run_dir / "pretrain"):
        raise UserError(f"{run_dir.absolute()} is not a finished run: it has no {run_dir / 'pretrain' / FINISHED}")
    tokenizer, pretrain = (manifest.read(run_dir / stage) for stage in ("tokenizer", "pretrain"))
    if "tokens_seen" not in pretrain["counts"]:
        raise UserError(f"{run_dir} was made by an earlier version of kobert with other records; run it again")
    sizes = {
        "vocab_size": tokenizer["counts"]["vocab_size"],
        "parameters": pretrain["counts"]["parameters"],
    }
    return sizes | _pretraining(run_dir, "tokenizer")


def _stages_read(run_dir: Path) -> set[Path]:
    """The folders of the stages that a run's fine-tuned models were made from, by their records, or of all stages where
    no model was tuned: a folder may also be of an earlier recipe."""
    last = {folder: record for folder in run_dir.glob("finetune/*") for record in current_seeds(folder)[0][-1:]}
    labelled = [manifest.read(path.parent) for path in run_dir.glob(f"finetune/*/{SOFT_LABELS}/{FINISHED}")]
    inputs = {run_dir / label for record in (*last.values(), *labelled) for label in record["inputs"]}
    if not inputs & {run_dir / "pretrain", run_dir / "checkpoint"}:
        return {path.parent for path in run_dir.rglob(FINISHED)}
    inputs |= {features_folder(folder, record) for folder, record in last.items()}
    stages = set[Path]()
    while new_stages := {folder for folder in inputs if manifest.is_finished(folder)} - stages:
        stages |= new_stages
        inputs = {run_dir / label for folder in new_stages for label in manifest.read(folder)["inputs"]}
    return stages


def _pretraining(run_dir: Path, vocabulary_of: str) -> dict[str, Any]:
    """The entries of a row about a pretraining: what it took and reached, and what its loss depends on. The vocabulary
    is taken from the stage `vocabulary_of`."""
    pretrain, files = manifest.read(run_dir / "pretrain"), manifest.read(run_dir / vocabulary_of)["files"]
    return {
        "vocabulary": digest({name: file["sha256"] for name, file in files.items() if Path(name).name in VOCABULARIES}),
        "objective": pretrain["options"]["objective"],
        "shards": pretrain["inputs"]["shards"],
        "held_out_texts": _held_out_texts(run_dir),
        "tokens_seen": pretrain["counts"]["tokens_seen"],
        "held_out_loss": round(pretrain["counts"]["held_out_after"]["loss"], 4),
        "perplexity_per_character": [
            value for when in ("before", "after")
            if (value := perplexity(pretrain["counts"][f"held_out_{when}"])) is not None
        ],
        "pretrain_seconds": pretrain["seconds"],
        **{key: pretrain["options"][key] for key in ("base",) if pretrain["options"].get(key)},
        **{key: pretrain["counts"][key] for key in ("new_head",) if key in pretrain["counts"]},
    }  # fmt: skip


def _held_out_texts(run_dir: Path) -> str:
    """What the held-out texts of a run depend on, whatever its vocabulary; "" where its corpus is not at hand."""
    if not all(manifest.is_finished(run_dir / stage) for stage in ("corpus", "shards")):
        return ""
    corpus, shards = (manifest.read(run_dir / stage) for stage in ("corpus", "shards"))
    return digest([corpus["options"], corpus["inputs"], shards["options"].get("held_out")])


def final_split(runs: list[dict[str, Any]]) -> str:
    """The split whose scores are reported: `test` if the runs have one, else `dev`. `runs` are manifests."""
    return "test" if runs and "test" in runs[0]["counts"] else "dev"


def scores_by_metric(runs: list[dict[str, Any]], split: str) -> dict[str, list[float]]:
    """{metric: [score of each run]} on a split. `runs` are manifests."""
    return _by_metric([run["counts"][split] for run in runs])


def ablation_by_metric(runs: list[dict[str, Any]], split: str) -> dict[str, dict[str, list[float]]]:
    """{part: {metric: [score of each run]}} of the network alone, with its priors, and of the priors alone; {} for a
    task without priors, and for runs of versions that did not measure it. `runs` are manifests."""
    ablations = [run["counts"].get(f"{split}_prior_ablation", {}) for run in runs]
    if not all(ablations):
        return {}
    return {part: _by_metric([ablation[part] for ablation in ablations]) for part in (ablations or [{}])[0]}


def _by_metric(scores: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [values[name] for values in scores] for name in scores[0]}


def _scores(folder: Path) -> dict[str, Any]:
    """The entries of a row that belong to one fine-tuning: scores over its seeds and on how many examples, which seeds
    are left out and why, and the trials of its grid."""
    runs, left_out = current_seeds(folder)
    split = final_split(runs)
    row = {"finetune": folder.name, "split": split, "seeds": len(runs), "scores": _summary(runs, split)}
    if start := _other_start(runs):
        row["start"] = start
    if start == NO_MODEL:
        row["parameters"] = runs[-1]["counts"]["ngrams"]
    row |= _ablation("prior_ablation", runs, split)
    # any of the seeds: current ones have the same features
    if runs and manifest.is_finished(features := features_folder(folder, runs[0])):
        row["examples"] = manifest.read(features)["counts"][f"{split}_examples"]
    if left_out:
        row["left_out"] = left_out
    if split == "test":
        row |= {"dev_scores": _summary(runs, "dev")} | _ablation("dev_prior_ablation", runs, "dev")
    trials = {
        path.parent.name: manifest.read(path.parent)["counts"].get("dev")
        for path in sorted(folder.glob(f"grid/*/{FINISHED}"))
    }
    return row | ({"tried_on_dev": trials} if trials else {})


def _other_start(runs: list[dict[str, Any]]) -> str:
    """What a fine-tuning started from, if not the run's model: `runs` are manifests."""
    options = runs[-1]["options"] if runs else {}
    if "ngrams" in options:
        return NO_MODEL
    init = options.get("init", "pretrained")
    return {"pretrained": "", "scratch": "random weights"}.get(init, f"fine-tuning {init}")


def _summary(runs: list[dict[str, Any]], split: str) -> dict[str, Any]:
    """{metric: mean, spread and range} of a split over the seeds."""
    return _spreads(scores_by_metric(runs, split)) if runs else {}


def _ablation(entry: str, runs: list[dict[str, Any]], split: str) -> dict[str, Any]:
    """The `entry` of a row with `ablation_by_metric` as means, spreads and ranges; {} where there is none."""
    ablation = {part: _spreads(values) for part, values in ablation_by_metric(runs, split).items()}
    return {entry: ablation} if ablation else {}


def _spreads(values: dict[str, list[float]]) -> dict[str, Any]:
    return {name: {"mean": round(mean(v), 2), **spread(v)} for name, v in values.items()}


def option_differences(run_dirs: list[Path]) -> dict[str, list[Any]]:
    """Options in which the runs differ, by their names for --set: one value per run, None for a run without it."""
    options_by_run = [dict(_options(run_dir)) for run_dir in run_dirs]
    names = list(dict.fromkeys(name for options in options_by_run for name in options))
    values_by_name = {name: [options.get(name) for options in options_by_run] for name in names}
    return {name: values for name, values in values_by_name.items() if any(value != values[0] for value in values)}


def _options(run_dir: Path) -> Iterator[tuple[str, Any]]:
    """(name, value) of every option of the stages that a run's models were made from, as a recipe has it, and of every
    file that they read by the first digits of its hash: the seeds of a fine-tuning are one list. `publish` is left out,
    as it changes no number, and so are the trials of a grid, since a fine-tuning has the setting that was chosen."""
    stages_read = _stages_read(run_dir)
    for path in sorted(run_dir.rglob(FINISHED)):
        stage, *name = path.parent.relative_to(run_dir).parts
        if (path.parent in stages_read and stage not in ("publish", "finetune")) or name[1:] == [SOFT_LABELS]:
            record, section = manifest.read(path.parent), ".".join([stage, *name])
            yield from manifest.flat(record["options"], section).items()
            read = {name: value for name, value in record["inputs"].items() if name.startswith("file ")}
            yield from ((f"{section}: {name}", f"sha256 {value[:12]}") for name, value in read.items())
    for folder in sorted(run_dir.glob("finetune/*")):
        runs, _ = current_seeds(folder)
        if not runs:
            continue
        section, last = f"finetune.{folder.name}", runs[-1]
        options = manifest.flat(last["options"], section)
        # in place of a seed of its own, and of the seed in its plan, which only a pretraining reads
        options = {name: value for name, value in options.items() if name.split(".")[2:] not in SEED_OPTIONS}
        yield from options.items()
        if BEST_SETTING in last["inputs"]:
            yield f"{section}.plan: {BEST_SETTING}", last["inputs"][BEST_SETTING]
        yield f"{section}.seeds", [run["options"]["seed"] for run in runs]


def notes(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each reason why seeds of a fine-tuning are left out."""
    sentences = []
    for row in rows:
        seeds_by_reason: dict[str, list[str]] = {}
        for seed, reason in row.get("left_out", {}).items():
            seeds_by_reason.setdefault(reason, []).append(seed)
        for reason, seeds in seeds_by_reason.items():
            numbers = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(seeds)}"
            sentences.append(f"{row['run']}: {numbers} of {row['finetune']} left out as stale: {reason}")
    return sentences


def score_table(run_dirs: list[Path], columns: dict[str, str]) -> Table:
    """A row per run, with the mean over the seeds of each of the `columns` {title: FINETUNING.SCORE}, and how many
    seeds these are; "-" for a fine-tuning that the run does not have.

    Raises UserError for a score that its task does not have.
    """
    lines = []
    for run_dir in run_dirs:
        rows = comparison_rows([run_dir])
        names = [column.partition(".")[0] for column in columns.values()]
        tuned = {row["finetune"]: row for row in rows if row["scores"] and row["finetune"] in names}
        starts = dict.fromkeys(row["start"] for row in tuned.values() or rows)
        seeds = [row["seeds"] for row in tuned.values()]
        several = " to ".join(map(str, sorted({min(seeds), max(seeds)}))) if seeds else "-"
        scores = [_score(tuned, column) for column in columns.values()]
        lines.append([run_dir.name, ", ".join(starts), several, *scores])
    return ["run", "start", "seeds", *columns], lines


def _score(tuned: dict[str, dict[str, Any]], column: str) -> str:
    """The mean of one score of one of the fine-tunings `tuned`, where there is no test set that on dev."""
    name, _, metric = column.partition(".")
    if name not in tuned:
        return "-"
    row = tuned[name]
    if metric not in row["scores"]:
        raise UserError(f"{name} has no score '{metric}'; its scores are {', '.join(row['scores'])}")
    return f"{row['scores'][metric]['mean']:.2f}{'' if row['split'] == 'test' else ' (dev)'}"


def records(of_table: Table) -> list[dict[str, str]]:
    """The rows of a table as JSON objects."""
    header, lines = of_table
    return [dict(zip(header, line, strict=True)) for line in lines]


def fine_tuning_table(rows: list[dict[str, Any]]) -> Table:
    """A row per fine-tuning of each run, and per part of an ablation of priors."""
    losses = loss_columns(rows)
    # test sets are read once, at the end, so it is by dev that runs are chosen
    on_dev = ["dev: mean (range)"] if any("dev_scores" in row for row in rows) else []
    common = ["perplexity per character, before and after"] if losses else []
    have_other_texts = len({row["held_out_texts"] for row in rows if row.get("perplexity_per_character")}) > 1
    header = ["run", "start", "parameters", "vocabulary", "tokens seen", *losses.values(), *common, "fine-tuning",
              "split", "seeds", "scores: mean (range)", "examples", *on_dev]  # fmt: skip
    lines = []
    parts = [(row, part) for row in rows for part in row.get("prior_ablation", [""])]
    for row, part in parts:
        key = _loss_key(row)
        # of priors beside a test set only the whole is measured on dev, by which runs are chosen
        whole = {part: row.get("dev_scores", row["scores"])} if not part or part.startswith("network_and") else {}
        on_dev_by_part = whole | row.get("dev_prior_ablation" if "dev_scores" in row else "prior_ablation", {})
        lines.append(
            [row["run"], row["start"],
             *(f"{row[key]:,}" if key in row else "-" for key in ("parameters", "vocab_size", "tokens_seen")),
             *(f"{row['held_out_loss']:.3f}" if key == column else "-" for column in losses),
             *(_perplexities_text(row, have_other_texts) for _ in common),
             " ".join(filter(None, [row["finetune"], part.replace("_", " ")])), row.get("split", ""), str(row["seeds"]),
             _scores_text(row["prior_ablation"][part] if part else row["scores"]),
             f"{row['examples']:,}" if "examples" in row else "-",
             *(_scores_text(on_dev_by_part[part]) if part in on_dev_by_part else "-" for _ in on_dev)]
        )  # fmt: skip
    return header, lines


def options_table(run_dirs: list[Path], differing: dict[str, list[Any]]) -> list[Table]:
    """A table of the options that differ between the runs; none where all are the same."""
    rows = [[name, *(str(value)[:60] for value in values)] for name, values in differing.items()]
    return [(["option", *(run_dir.name for run_dir in run_dirs)], rows)] if rows else []


def _perplexities_text(row: dict[str, Any], have_other_texts: bool) -> str:
    """The perplexity per character before and after a pretraining; "33.24 after" where a head that was learned anew
    gave the one before. Where the rows of a table `have_other_texts` held out, also of which run these are."""
    values = row.get("perplexity_per_character", [])
    if not values:
        return "-"
    is_new = row.get("new_head")
    text = f"{values[-1]:.2f} after" if is_new else " -> ".join(f"{value:.2f}" for value in values)
    return text + (f" (texts of {row['run']})" if have_other_texts else "")


def _scores_text(scores: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {v['mean']:.2f}" + (f" ({v['min']:.2f} to {v['max']:.2f})" if "standard_deviation" in v else "")
        for name, v in scores.items()
    )  # a single seed has no range


def loss_columns(rows: list[dict[str, Any]]) -> dict[str, str]:
    """{key: title} of the columns of held-out losses, one for each objective, vocabulary and set of held-out texts.

    Losses of unlike objectives are sums of unlike things (NSP adds a loss of its own, RTD guesses between two classes),
    and a share of masked tokens changes how much context is left. A smaller vocabulary splits a text into more tokens,
    each easier to predict. In one column the smaller number would look like the better model.
    """
    trained = {_loss_key(row): row for row in rows if "objective" in row}
    titles = {}
    for key, row in trained.items():
        others = [other for other_key, other in trained.items() if other_key != key]
        name, options = row["objective"]["name"], row["objective"]
        namesakes = [other for other in others if other["objective"]["name"] == name]
        # only what sets objectives of one name apart
        varied = [
            option
            for option in options
            if any(other["objective"].get(option) != options[option] for other in namesakes)
        ]
        objective = " ".join([name, *(f"{option}={options[option]}" for option in varied)])
        same_size = any(
            other["vocab_size"] == row["vocab_size"] and other["vocabulary"] != row["vocabulary"] for other in others
        )
        vocabulary = f"vocabulary {row['vocab_size']:,}" + (f" of {row['run']}" if same_size else "")
        of_run = f", texts of {row['run']}" if any(other["shards"] != row["shards"] for other in namesakes) else ""
        titles[key] = f"held-out loss ({objective}, {vocabulary}{of_run})"
    return titles


def _loss_key(row: dict[str, Any]) -> str:
    """A key that is equal for rows whose held-out losses may be compared; "" for a row without such a loss."""
    return digest([row["objective"], row["vocabulary"], row["shards"]]) if "objective" in row else ""


def markdown(printed: list[Table]) -> str:
    """The tables in Markdown."""
    return "\n\n".join(table(header, lines) for header, lines in printed)


def latex(printed: list[Table]) -> str:
    """The tables in LaTeX."""
    return "\n\n".join([PREAMBLE, *(booktabs(header, lines) for header, lines in printed)])
