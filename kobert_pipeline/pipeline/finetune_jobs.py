"""The jobs of the stage finetune: seeds, the trials of a grid search, classifiers over n-grams, soft labels."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kobert_pipeline.finetune.stage as finetune_stage
from kobert_pipeline.errors import Postponed
from kobert_pipeline.finetune import distill, ngrams
from kobert_pipeline.finetune.distill import Distillation
from kobert_pipeline.finetune.ngrams import Ngrams
from kobert_pipeline.pipeline.provenance import origin
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.source_patterns import refuse_unmatched
from kobert_pipeline.runs.runner import Job

if TYPE_CHECKING:
    from kobert_pipeline.pipeline.stages import Run


def finetune_jobs(recipe: Recipe, run: "Run") -> Iterator[Job]:
    """Features and a pretrained model -> a fine-tuned model per seed; with a distillation, its soft labels first.

    A recipe with several learning rates or epochs first has a trial of each combination: with the first seed, and
    scored on dev only, so that the test set plays no part in the choice.
    """
    for name, options in recipe.finetune.items():
        if options.ngrams:
            yield from ngram_jobs(recipe, run, name, options, options.ngrams)
            continue
        soft_labels = soft_labels_job(recipe, run, name, options.distill) if options.distill else None
        if soft_labels:
            yield soft_labels
        yield from training_jobs(recipe, run, name, options, soft_labels.folder if soft_labels else None)


def training_jobs(
    recipe: Recipe, run: "Run", name: str, options: finetune_stage.FinetuneOptions, soft_labels: Path | None
) -> Iterator[Job]:
    """The trials and seeds of one fine-tuning; `soft_labels` is the folder of its distillation."""
    features = options.features or name
    inputs = {"features": run.run_dir / "features" / features}
    if soft_labels:
        inputs[finetune_stage.SOFT_LABELS_FOLDER] = soft_labels
        soft_labels = soft_labels.absolute()
    given = run.folder("features", features)
    recorded = recorded_options(options)
    folder = run.run_dir / "finetune" / name
    grid = options.plan.settings() if options.plan.varied else {}
    trials = {setting: folder / "grid" / setting for setting in grid}
    for setting, trial_plan in grid.items():
        seed, tracking = options.seeds[0], run.tracking(f"finetune/{name}/grid/{setting}")
        start, model = starting_model(recipe, run, options.earlier, seed)
        yield Job(
            "finetune", trials[setting], finetune_stage.VERSION,
            {**recorded, "plan": trial_plan.dump(), "seed": seed, "trial": True},
            name=f"{name}/grid/{setting}", resumable=True, inputs=inputs | start, writes=finetune_stage.WRITES,
            preflight=tracking.refuse_missing_libraries,
            run=partial(finetune_stage.trial, options, trial_plan, seed, given, model, tracking=tracking,
                        soft_labels=soft_labels),
        )  # fmt: skip
    absolute_trials = {setting: trial.absolute() for setting, trial in trials.items()}
    for seed in options.seeds:
        tracking = run.tracking(f"finetune/{name}/{seed}")
        start, model = starting_model(recipe, run, options.earlier, seed)
        yield Job(
            "finetune", folder / str(seed), finetune_stage.VERSION, {**recorded, "seed": seed},
            name=f"{name}/{seed}", resumable=True, inputs=inputs | start, candidates=tuple(trials.values()),
            writes=finetune_stage.WRITES, preflight=tracking.refuse_missing_libraries,
            extra_inputs=partial(finetune_stage.chosen_setting, options, inputs["features"], trials),
            run=partial(finetune_stage.run, options, seed, given, model, trials=absolute_trials, tracking=tracking,
                        soft_labels=soft_labels, before_test=run.before_test),
        )  # fmt: skip


def recorded_options(options: finetune_stage.FinetuneOptions) -> dict[str, Any]:
    """The options of a fine-tuning that all of its jobs have in their records.

    These contain neither the list of seeds nor the lists of a grid, so that they may grow without making finished jobs
    stale. Instead a record has the job's seed and a single setting: that of the trial, or the chosen one, which
    `extra_inputs` adds.
    """
    recorded = {key: value for key, value in options.dump().items() if key != "seeds"}
    recorded["plan"] = {key: value for key, value in recorded["plan"].items() if key not in options.plan.varied}
    return recorded


def starting_model(recipe: Recipe, run: "Run", name: str | None, seed: int) -> tuple[dict[str, Path], Path]:
    """The input of a fine-tuning whose weights it starts from, and the model's folder in it: the pretrained model or,
    for the `name` of an earlier fine-tuning, its model of the same seed, or else of its first."""
    if name is None:
        stage, model = origin(recipe).model
        return {stage: run.run_dir / stage}, run.folder(model)
    seeds = recipe.finetune[name].seeds
    earlier = ("finetune", name, str(seed if seed in seeds else seeds[0]))
    return {"/".join(earlier): run.run_dir.joinpath(*earlier)}, run.folder(*earlier, finetune_stage.MODEL)


def ngram_jobs(
    recipe: Recipe, run: "Run", name: str, options: finetune_stage.FinetuneOptions, given: Ngrams
) -> Iterator[Job]:
    """Features -> a classifier over n-grams per seed, with its options `given`. The pretrained model plays no part."""
    stage, tokenizer = origin(recipe).tokenizer
    features = options.features or name
    # `test` only where it is not the default, so that runs from before it existed stay valid
    recorded = {"ngrams": given.dump()} | ({} if options.test else {"test": False})
    for seed in options.seeds:
        yield Job(
            "finetune", run.run_dir / "finetune" / name / str(seed), finetune_stage.VERSION,
            {**recorded, "seed": seed}, name=f"{name}/{seed}", writes=ngrams.WRITES,
            inputs={"features": run.run_dir / "features" / features, stage: run.run_dir / stage},
            # it takes seconds, so nothing is trained before the test set may be read
            run=postpone if run.before_test and options.test else partial(
                ngrams.run, given, options.test, seed, run.folder("features", features), run.folder(tokenizer)
            ),
        )  # fmt: skip


def postpone(folder: Path) -> dict[str, Any]:
    """In place of a job that would read a test set that is not to be read yet."""
    raise Postponed("the test set")


def soft_labels_job(recipe: Recipe, run: "Run", name: str, options: Distillation) -> Job:
    """Shards and the models of another fine-tuning -> texts with soft labels, for the fine-tuning `name`."""
    stage, tokenizer = origin(recipe).tokenizer
    student = recipe.finetune[name]
    features = student.features or name
    inputs: dict[str, Path] = {}
    models: list[list[Path]] = []
    for teacher in options.teachers:
        tuned = recipe.finetune[teacher]
        folders = {f"{teacher}/{seed}": run.run_dir / "finetune" / teacher / str(seed) for seed in tuned.seeds}
        inputs |= folders
        models.append(
            [folder.absolute() / ("" if tuned.ngrams else finetune_stage.MODEL) for folder in folders.values()]
        )
    bf16 = student.plan.mixed_precision == "bf16"
    return Job(
        "finetune", run.run_dir / "finetune" / name / finetune_stage.SOFT_LABELS_FOLDER, distill.VERSION,
        # how often a student learns soft labels does not change them, the precision of the teachers does
        {key: value for key, value in options.dump().items() if key != "epochs"} | {"bf16": bf16},
        name=f"{name}/{finetune_stage.SOFT_LABELS_FOLDER}", writes=distill.WRITES,
        inputs={"features": run.run_dir / "features" / features, "shards": run.run_dir / "shards",
                stage: run.run_dir / stage} | inputs,
        preflight=partial(refuse_unmatched, recipe.corpus, run.data_dir,
                          {f"finetune.{name}.distill.sources": options.sources}),
        run=partial(distill.run, options, run.folder("features", features), run.folder("shards"),
                    run.folder(tokenizer), models, bf16),
    )  # fmt: skip
