"""The stages and what each one reads: the best place to start reading the code.

    raw text -> corpus -> analysis -> tokenizer -> shards, features -> pretrain -> finetune -> publish
    an existing model -> checkpoint -> features -> finetune -> publish
    an existing model, raw text -> checkpoint, corpus -> shards, features -> pretrain -> finetune -> publish
    an existing model, raw text to make examples from -> checkpoint, corpus -> features -> finetune -> publish

A recipe has one section per stage; a run has one folder per stage, with a manifest in it. `jobs` yields one `Job` per
folder that a recipe asks for, in the order of execution, and `runs/runner.py` runs, skips, resumes or refuses each job.
A stage knows nothing of recipes and manifests: it is called with its options and folders, and returns counts. All of
this is one file, because what one stage reads is what another writes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import kobert_pipeline.analysis.stage as analysis_stage
import kobert_pipeline.checkpoint.stage as checkpoint_stage
import kobert_pipeline.corpus.stage as corpus_stage
import kobert_pipeline.features.stage as features_stage
import kobert_pipeline.finetune.stage as finetune_stage
import kobert_pipeline.pretrain.stage as pretrain_stage
import kobert_pipeline.publish.stage as publish_stage
import kobert_pipeline.shards.stage as shards_stage
import kobert_pipeline.tokenizer.stage as tokenizer_stage
from kobert_pipeline.checkpoint.source import local_folder, small_files
from kobert_pipeline.config import recipe_file
from kobert_pipeline.config.options import errors_of
from kobert_pipeline.corpus.executor import Executor
from kobert_pipeline.corpus.executors.local import Local
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.errors import Postponed, UserError
from kobert_pipeline.features import splits
from kobert_pipeline.features.sequence import labels_single_texts
from kobert_pipeline.finetune import distill, ngrams
from kobert_pipeline.finetune.distill import Distillation
from kobert_pipeline.finetune.ngrams import Ngrams
from kobert_pipeline.pipeline.fit import FIT, recorded_fit, with_fit
from kobert_pipeline.pipeline.preflight import refuse_unmatched, validate_checkpoint
from kobert_pipeline.pipeline.provenance import card_inputs, finished_seeds, publish_model
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.run import Fit, Run, checkpoint_to_continue, data_folder, origin
from kobert_pipeline.runs.runner import Job
from kobert_pipeline.tokenizer.growing import load_base


def jobs(recipe: Recipe, run: Run) -> Iterator[Job]:
    """All jobs of a recipe, in the order of execution."""
    if recipe.checkpoint is not None:
        yield checkpoint_job(recipe.checkpoint, recipe.checkpoint_labels, run)
    if recipe.corpus is not None:
        yield corpus_job(recipe.corpus, run)
        if recipe.checkpoint is None:
            yield analysis_job(recipe, run)
            yield tokenizer_job(recipe, run)
        if recipe.needs_shards:
            yield shards_job(recipe, run)
    yield from features_jobs(recipe, run)
    if recipe.pretrains:
        yield pretrain_job(recipe, run)
    yield from finetune_jobs(recipe, run)
    yield from publish_jobs(recipe, run)


def checkpoint_job(checkpoint: str, labels: dict[str, int], run: Run) -> Job:
    """A checkpoint of the user or of the Hub -> its model and its tokenizer in the run's folder."""
    # `labels` only where there are some, so that runs from before the option stay valid
    options = {"checkpoint": checkpoint} | ({"checkpoint_labels": labels} if labels else {})
    return Job(
        "checkpoint", run.run_dir / "checkpoint", checkpoint_stage.VERSION, options,
        writes=checkpoint_stage.WRITES, source_files=partial(checkpoint_stage.raw_files, checkpoint),
        run=partial(checkpoint_stage.run, checkpoint, labels=labels),
    )  # fmt: skip


def corpus_job(options: CorpusOptions, run: Run) -> Job:
    """Raw files -> cleaned, deduplicated documents."""
    return Job(
        "corpus", run.run_dir / "corpus", corpus_stage.version(options), options.dump(), writes=corpus_stage.WRITES,
        resumable=True,
        source_files=partial(corpus_stage.raw_files, options, run.data_dir),
        sample=partial(corpus_stage.sample, options, run.data_dir),
        run=partial(corpus_stage.run, options, run.data, num_workers=run.num_workers),
    )  # fmt: skip


def analysis_job(recipe: Recipe, run: Run) -> Job:
    """Documents -> sentences of morphemes."""
    options, analyzer = recipe.analysis, recipe.analysis.analyzer
    return Job(
        "analysis", run.run_dir / "analysis", analysis_stage.VERSION, options.dump(), writes=analysis_stage.WRITES,
        resumable=True,
        inputs={"corpus": run.run_dir / "corpus"}, source_files=partial(analyzer.files, run.data_dir),
        # another version of the analyzer's model finds other morphemes, although the options are the same
        extra_inputs=lambda: {"analyzer": analyzer.segmenter(run.data_dir).version},
        preflight=partial(analyzer.segmenter, run.data_dir),  # raises UserError if the analyzer is not installed
        validate=partial(analyzer.taken_for, run.data_dir),
        run=partial(analysis_stage.run, options, run.folder("corpus"), run.data, num_workers=run.num_workers,
                    executor=executor_of(recipe)),
    )  # fmt: skip


def executor_of(recipe: Recipe) -> Executor:
    """Where the parts of the corpus, and those of the features, are worked on."""
    return recipe.corpus.executor if recipe.corpus else Local()


def tokenizer_job(recipe: Recipe, run: Run) -> Job:
    """Morphemes -> a tokenizer with a subword vocabulary."""
    options, analyzer, base = recipe.tokenizer, recipe.analysis.analyzer, None
    if options.base:
        base = (small_files(options.base) or Path(options.base)).absolute()
        options = options.model_copy(update={"base": str(base)})
    compared = options.report.compare_with
    if compared and not (run.data_dir / compared).is_dir() and (bundled := local_folder(compared)):
        report = options.report.model_copy(update={"compare_with": str(bundled.absolute())})
        options = options.model_copy(update={"report": report})
    return Job(
        # recorded as the recipe has them, since `options` has folders of this machine
        "tokenizer", run.run_dir / "tokenizer", tokenizer_stage.version(recipe.tokenizer), recipe.tokenizer.dump(),
        writes=tokenizer_stage.WRITES, inputs={"analysis": run.run_dir / "analysis"},
        source_files=partial(tokenizer_stage.raw_files, options, run.data_dir),
        # another style than the base's would be refused by the stage, after hours of analysis
        preflight=partial(load_base, base, {"analyzer": analyzer.name, "style": analyzer.style}) if base else dict,
        run=partial(tokenizer_stage.run, options, run.folder("analysis"), run.data),
    )  # fmt: skip


def shards_job(recipe: Recipe, run: Run) -> Job:
    """Morphemes, or for a checkpoint's tokenizer documents, and a tokenizer -> token ids in memory-mapped shards."""
    stage, tokenizer = origin(recipe).tokenizer
    source = "corpus" if recipe.checkpoint else "analysis"
    return Job(
        "shards", run.run_dir / "shards", shards_stage.VERSION, recipe.shards.dump(), writes=shards_stage.WRITES,
        resumable=True, inputs={name: run.run_dir / name for name in (source, stage)},
        run=partial(shards_stage.run, recipe.shards, run.folder(source), run.folder(tokenizer),
                    num_workers=run.num_workers, executor=executor_of(recipe), analyzed=not recipe.checkpoint),
    )  # fmt: skip


def features_jobs(recipe: Recipe, run: Run) -> Iterator[Job]:
    """Labelled data and a tokenizer -> arrays for fine-tuning, one folder per data set."""
    stage, tokenizer = origin(recipe).tokenizer
    for name, options in recipe.features.items():
        corpus = {"corpus": run.run_dir / "corpus"} if options.needs_corpus else {}
        yield Job(
            "features", run.run_dir / "features" / name, features_stage.VERSION, options.dump(), name=name,
            writes=features_stage.WRITES, resumable=True, inputs={stage: run.run_dir / stage} | corpus,
            source_files=partial(splits.raw_files, options, run.data_dir),
            extra_inputs=partial(features_stage.analyzer_versions, options, run.folder(tokenizer)),
            validate=partial(splits.describe, name, options, run.data_dir),
            preflight=partial(features_preflight, recipe, run, name),
            run=partial(features_stage.run, options, run.folder(tokenizer), run.data,
                        corpus=run.folder("corpus") if corpus else None, num_workers=run.num_workers,
                        executor=executor_of(recipe)),
        )  # fmt: skip


def features_preflight(recipe: Recipe, run: Run, name: str) -> None:
    """Raise UserError for a checkpoint that does not fit, or for sources that are not in the corpus."""
    validate_checkpoint(recipe, run.run_dir)
    options = recipe.features[name]
    groups = {"synthesize": options.synthesize, "pairs": options.pairs}
    patterns = {f"features.{name}.{option}.sources": group.sources for option, group in groups.items() if group}
    refuse_unmatched(recipe.corpus, run.data_dir, patterns)


def pretrain_preflight(recipe: Recipe, run: Run) -> None:
    """Raise UserError for a checkpoint that does not fit, a tracker that is not installed, or sources that are not in
    the corpus."""
    validate_checkpoint(recipe, run.run_dir)
    phases = {f"pretrain.phases.{i}.sources": phase.sources or () for i, phase in enumerate(recipe.pretrain.phases)}
    refuse_unmatched(recipe.corpus, run.data_dir, {"pretrain.sources": recipe.pretrain.sources} | phases)
    run.tracking("pretrain").refuse_missing_libraries()


def pretrain_job(recipe: Recipe, run: Run) -> Job:
    """Shards, and the checkpoint or base if there is one -> a pretrained model."""
    options, (stage, tokenizer) = recipe.pretrain, origin(recipe).tokenizer
    return Job(
        "pretrain", run.run_dir / "pretrain", pretrain_stage.VERSION, recipe.continued_options(),
        writes=pretrain_stage.WRITES, resumable=True, facts={FIT: run.fit} if run.fit else {},
        inputs={name: run.run_dir / name for name in ("shards", stage)},
        source_files=partial(pretrain_stage.raw_files, options),
        preflight=partial(pretrain_preflight, recipe, run),
        run=partial(pretrain_stage.run, options, run.folder("shards"), run.folder(tokenizer),
                    checkpoint=checkpoint_to_continue(recipe, run), tracking=run.tracking("pretrain")),
    )  # fmt: skip


def finetune_jobs(recipe: Recipe, run: Run) -> Iterator[Job]:
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
    recipe: Recipe, run: Run, name: str, options: finetune_stage.FinetuneOptions, soft_labels: Path | None
) -> Iterator[Job]:
    """The trials and seeds of one fine-tuning; `soft_labels` is the folder of its distillation."""
    features = options.features or name
    inputs = {"features": run.run_dir / "features" / features}
    if soft_labels:
        inputs[finetune_stage.SOFT_LABELS_FOLDER] = soft_labels
        soft_labels = soft_labels.absolute()
    features_dir, recorded = run.folder("features", features), recorded_options(options) | no_ngrams(recipe, options)
    of_ngrams, tokenizer = ngrams_tokenizer(recipe, run, options, features)
    inputs |= of_ngrams
    folder = run.run_dir / "finetune" / name
    grid = options.plan.settings() if options.plan.varied else {}
    trials = {setting: folder / "grid" / setting for setting in grid}
    for setting, trial_plan in grid.items():
        seed, tracking = options.seeds[0], run.tracking(f"finetune/{name}/grid/{setting}")
        start, model = starting_model(recipe, run, options.earlier, seed)
        yield Job(
            "finetune", trials[setting], finetune_stage.VERSION,
            {**recorded, "seed": seed, "plan": trial_plan.dump(), "trial": True},
            name=f"{name}/grid/{setting}", resumable=True, inputs=inputs | start, writes=finetune_stage.WRITES,
            preflight=tracking.refuse_missing_libraries,
            run=partial(finetune_stage.trial, options, trial_plan, seed, features_dir, model, tracking=tracking,
                        soft_labels=soft_labels),
        )  # fmt: skip
    absolute_trials = {setting: trial.absolute() for setting, trial in trials.items()}
    for seed in options.seeds:
        tracking = run.tracking(f"finetune/{name}/{seed}")
        start, model = starting_model(recipe, run, options.earlier, seed)
        yield Job(
            "finetune", folder / str(seed), finetune_stage.VERSION, recorded | {"seed": seed},
            name=f"{name}/{seed}", resumable=True, inputs=inputs | start, candidates=tuple(trials.values()),
            writes=finetune_stage.WRITES, preflight=tracking.refuse_missing_libraries,
            extra_inputs=partial(finetune_stage.chosen_setting, options, inputs["features"], trials),
            run=partial(finetune_stage.run, options, seed, features_dir, model, trials=absolute_trials,
                        tracking=tracking, soft_labels=soft_labels, before_test=run.before_test, tokenizer=tokenizer),
        )  # fmt: skip


def ngrams_tokenizer(
    recipe: Recipe, run: Run, options: finetune_stage.FinetuneOptions, features: str
) -> tuple[dict[str, Path], Path | None]:
    """The input of a fine-tuning that may get n-grams, and the folder of the tokenizer that spells its texts; {} and
    None for others."""
    if not (options.may_add_ngrams and labels_single_texts(recipe.features[features].task)):
        return {}, None
    stage, tokenizer = origin(recipe).tokenizer
    return {stage: run.run_dir / stage}, run.folder(tokenizer)


def no_ngrams(recipe: Recipe, options: finetune_stage.FinetuneOptions) -> dict[str, bool]:
    """What the records of a checkpoint's fine-tuning say where n-grams cannot be a part; of others their inputs say
    it, which the tokenizer is among only where they can, while that of a checkpoint is an input anyway."""
    begins = origin(recipe)
    is_checkpoint = begins.tokenizer[0] == begins.model[0]
    return {"with_ngrams": False} if is_checkpoint and options.baseline == "none" and not options.with_ngrams else {}


def recorded_options(options: finetune_stage.FinetuneOptions) -> dict[str, Any]:
    """The options of a fine-tuning that all of its jobs have in their records.

    These contain neither the list of seeds nor the lists of a grid, so that they may grow without making finished jobs
    stale, nor whether there is a baseline beside it. Instead a record has the job's seed and a single setting, the
    trial's or the chosen one, which `extra_inputs` adds.
    """
    recorded = {key: value for key, value in options.dump().items() if key not in ("seeds", "baseline")}
    recorded["plan"] = {key: value for key, value in recorded["plan"].items() if key not in options.plan.varied}
    return recorded


def starting_model(recipe: Recipe, run: Run, name: str | None, seed: int) -> tuple[dict[str, Path], Path]:
    """The input of a fine-tuning whose weights it starts from, and the model's folder in it: the pretrained model or,
    for the `name` of an earlier fine-tuning, its model of the same seed, or else of its first."""
    if name is None:
        stage, model = origin(recipe).model
        return {stage: run.run_dir / stage}, run.folder(model)
    seeds = recipe.finetune[name].seeds
    earlier = ("finetune", name, str(seed if seed in seeds else seeds[0]))
    # the slash in its label says that each seed may have another one (`runs.seeds`)
    return {"/".join(earlier): run.run_dir.joinpath(*earlier)}, run.folder(*earlier, finetune_stage.MODEL)


def ngram_jobs(
    recipe: Recipe, run: Run, name: str, options: finetune_stage.FinetuneOptions, ngram_options: Ngrams
) -> Iterator[Job]:
    """Features -> a classifier over n-grams per seed, with `ngram_options`. The pretrained model plays no part."""
    stage, tokenizer = origin(recipe).tokenizer
    features = options.features or name
    # `test` only where it is not the default, so that runs from before it existed stay valid
    recorded = {"ngrams": ngram_options.dump(), "features": features} | ({} if options.test else {"test": False})
    for seed in options.seeds:
        yield Job(
            "finetune", run.run_dir / "finetune" / name / str(seed), ngrams.VERSION,
            recorded | {"seed": seed}, name=f"{name}/{seed}", writes=ngrams.WRITES,
            inputs={"features": run.run_dir / "features" / features, stage: run.run_dir / stage},
            # it takes seconds, so nothing is trained before the test set may be read
            run=postpone if run.before_test and options.test else partial(
                ngrams.run, ngram_options, options.test, seed, run.folder("features", features), run.folder(tokenizer),
            ),
        )  # fmt: skip


def postpone(folder: Path) -> dict[str, Any]:
    """Raise Postponed, in place of a job that would read a test set that is not to be read yet."""
    raise Postponed("the test set")


def soft_labels_job(recipe: Recipe, run: Run, name: str, options: Distillation) -> Job:
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
        kind = "" if tuned.ngrams else finetune_stage.MODEL
        models.append([folder.absolute() / kind for folder in folders.values()])
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


def publish_jobs(recipe: Recipe, run: Run) -> Iterator[Job]:
    """A pretrained model or the best seed of a fine-tuning, and the tokenizer -> a checkpoint folder with a model card.

    The card also gives the scores of the controls: fine-tunings from scratch on the same features, as baselines.
    """
    for name, options in recipe.publish.items():
        # `source` is the name of a fine-tuning, or "pretrain", which has no seeds
        seeds = recipe.finetune[options.source].seeds if options.source in recipe.finetune else []
        tuned = {f"{options.source}/{seed}": run.run_dir / "finetune" / options.source / str(seed) for seed in seeds}
        controls = {
            control: [run.folder("finetune", control, str(seed)) for seed in recipe.finetune[control].seeds]
            for control in recipe.controls(options)
        }
        tuned_folders = [folder.absolute() for folder in tuned.values()]
        yield Job(
            "publish", run.run_dir / "publish" / name, publish_stage.VERSION, options.dump(), name=name,
            writes=publish_stage.WRITES if recipe.checkpoint is None else publish_stage.FOREIGN_WRITES,
            inputs={stage: run.run_dir / stage for stage in origin(recipe).card_stages} | tuned,
            # the card gives the scores of finished controls, so these must match the recipe
            candidates=finished_seeds(recipe, run.run_dir, options),
            # here and not in `inputs`, since a model may be published before its controls are trained
            extra_inputs=partial(card_inputs, recipe, run.name, options, controls),
            preflight=partial(publish_stage.refuse_missing_libraries, options),
            run=partial(publish_model, recipe, run.name, name, run.data, run.folder(), tuned_folders, controls),
        )  # fmt: skip


def load_recipe(recipe: str, settings: list[str] | None = None) -> Recipe:
    """A recipe by its path or name, with `settings` (`key.key=value`) applied. Raises UserError for one that is not
    valid."""
    content = recipe_file.load(recipe, settings or [])
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise UserError(f"recipe {recipe}: {'; '.join(errors_of(error))}") from None


def plan(
    recipe: str,
    settings: list[str] | None,
    run_dir: Path | None,
    num_workers: int | None,
    find_fit: Callable[[Recipe, Run], Fit | None] = recorded_fit,
    before_test: bool = False,
) -> tuple[Recipe, list[Job]]:
    """Load a recipe by its path or name, apply `settings` (`key.key=value`) and the token budget of `find_fit`, and
    list its jobs.

    Raises UserError for a recipe that is not valid or a data folder that does not exist.
    """
    loaded = load_recipe(recipe, settings)
    data_dir = data_folder(recipe, loaded.data_dir)
    name = recipe_file.find(recipe).stem
    run = Run(name, data_dir, run_dir or Path("runs") / name, num_workers, loaded.report_to, before_test=before_test)
    fit = find_fit(loaded, run) if loaded.pretrains else None
    loaded = with_fit(loaded, fit)
    return loaded, list(jobs(loaded, replace(run, fit=fit)))
