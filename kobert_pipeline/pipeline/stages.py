"""The stages and what each one reads: the best place to start reading the code.

    raw text -> corpus -> analysis -> tokenizer -> shards, features -> pretrain -> finetune -> publish
    an existing model -> checkpoint -> features -> finetune -> publish
    an existing model, raw text -> checkpoint, corpus -> shards, features -> pretrain -> finetune -> publish

A recipe has one section per stage; a run has one folder per stage, with a manifest in it. `jobs` yields one `Job` per
folder that a recipe asks for, in the order of execution, and `runs/runner.py` runs, skips, resumes or refuses each job.
A stage knows nothing of recipes and manifests: it is called with its options and folders, and returns counts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import ValidationError

import kobert_pipeline.analysis.stage as analysis_stage
import kobert_pipeline.checkpoint.stage as checkpoint_stage
import kobert_pipeline.corpus.stage as corpus_stage
import kobert_pipeline.features.stage as features_stage
import kobert_pipeline.pretrain.stage as pretrain_stage
import kobert_pipeline.publish.stage as publish_stage
import kobert_pipeline.shards.stage as shards_stage
import kobert_pipeline.tokenizer.stage as tokenizer_stage
from kobert_pipeline.config import recipe_file
from kobert_pipeline.config.options import first_error
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.errors import UserError
from kobert_pipeline.features import splits
from kobert_pipeline.pipeline.checkpoint_fit import refuse_unfit_checkpoint
from kobert_pipeline.pipeline.data_folder import data_folder
from kobert_pipeline.pipeline.finetune_jobs import finetune_jobs
from kobert_pipeline.pipeline.fit import FIT, Fit, recorded_fit, with_fit
from kobert_pipeline.pipeline.provenance import card_inputs, origin, publish_model
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.source_patterns import refuse_unmatched
from kobert_pipeline.runs.runner import Job
from kobert_pipeline.training.trackers import Tracker, Tracking


@dataclass(frozen=True)
class Run:
    """Where a run reads and writes.

    Messages show `data_dir` and `run_dir` as the user gave them. Stages get absolute paths, since their workers may run
    in other folders or on other machines.
    """

    name: str
    data_dir: Path
    run_dir: Path
    num_workers: int | None = None
    """Worker processes of the stages `corpus` and `analysis`; None: one per core. It does not change the result."""
    report_to: tuple[Tracker, ...] = ()
    fit: Fit | None = None
    """How the token budget of the pretraining was fitted to a time, if it was."""
    before_test: bool = False
    """Whether fine-tunings are postponed when only their test sets are left."""

    @property
    def data(self) -> Path:
        """`data_dir` as an absolute path."""
        return self.data_dir.absolute()

    def folder(self, *parts: str) -> Path:
        """A folder inside the run folder as an absolute path; without `parts` the run folder itself."""
        return self.run_dir.joinpath(*parts).absolute()

    def tracking(self, job: str) -> Tracking:
        """What tracks the training of a job."""
        return Tracking(self.report_to, self.folder().name, job, self.folder())


def jobs(recipe: Recipe, run: Run) -> Iterator[Job]:
    """All jobs of a recipe, in the order of execution."""
    if recipe.checkpoint is not None:
        yield checkpoint_job(recipe.checkpoint, run)
    if recipe.corpus is not None:
        yield corpus_job(recipe.corpus, run)
        if recipe.checkpoint is None:
            yield analysis_job(recipe, run)
            yield tokenizer_job(recipe, run)
        yield shards_job(recipe, run)
    yield from features_jobs(recipe, run)
    if recipe.corpus is not None:
        yield pretrain_job(recipe, run)
    yield from finetune_jobs(recipe, run)
    yield from publish_jobs(recipe, run)


def checkpoint_job(checkpoint: str, run: Run) -> Job:
    """A checkpoint of the user or of the Hub -> its model and its tokenizer in the run's folder."""
    return Job(
        "checkpoint", run.run_dir / "checkpoint", checkpoint_stage.VERSION, {"checkpoint": checkpoint},
        writes=checkpoint_stage.WRITES, source_files=partial(checkpoint_stage.raw_files, checkpoint),
        run=partial(checkpoint_stage.run, checkpoint),
    )  # fmt: skip


def corpus_job(options: CorpusOptions, run: Run) -> Job:
    """Raw files -> cleaned, deduplicated documents."""
    return Job(
        "corpus", run.run_dir / "corpus", corpus_stage.VERSION, options.dump(), writes=corpus_stage.WRITES,
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
        run=partial(analysis_stage.run, options, run.folder("corpus"), run.data, num_workers=run.num_workers),
    )  # fmt: skip


def tokenizer_job(recipe: Recipe, run: Run) -> Job:
    """Morphemes -> a tokenizer with a subword vocabulary."""
    options = recipe.tokenizer
    return Job(
        "tokenizer", run.run_dir / "tokenizer", tokenizer_stage.VERSION, options.dump(), writes=tokenizer_stage.WRITES,
        inputs={"analysis": run.run_dir / "analysis"},
        source_files=partial(tokenizer_stage.raw_files, options, run.data_dir),
        run=partial(tokenizer_stage.run, options, run.folder("analysis"), run.data),
    )  # fmt: skip


def shards_job(recipe: Recipe, run: Run) -> Job:
    """Morphemes, or for a checkpoint's tokenizer documents, and a tokenizer -> token ids in memory-mapped shards."""
    stage, tokenizer = origin(recipe).tokenizer
    source, write = ("corpus", shards_stage.run_unanalyzed) if recipe.continues else ("analysis", shards_stage.run)
    return Job(
        "shards", run.run_dir / "shards", shards_stage.VERSION, recipe.shards.dump(), writes=shards_stage.WRITES,
        resumable=True, inputs={name: run.run_dir / name for name in (source, stage)},
        run=partial(write, recipe.shards, run.folder(source), run.folder(tokenizer)),
    )  # fmt: skip


def features_jobs(recipe: Recipe, run: Run) -> Iterator[Job]:
    """Labelled data and a tokenizer -> arrays for fine-tuning, one folder per data set."""
    stage, tokenizer = origin(recipe).tokenizer
    for name, options in recipe.features.items():
        corpus = {"corpus": run.run_dir / "corpus"} if options.needs_corpus else {}
        yield Job(
            "features", run.run_dir / "features" / name, features_stage.VERSION, options.dump(), name=name,
            writes=features_stage.WRITES, inputs={stage: run.run_dir / stage} | corpus,
            source_files=partial(splits.raw_files, options, run.data_dir),
            validate=partial(splits.prepare, options, run.data_dir),
            preflight=partial(features_preflight, recipe, run, name),
            run=partial(features_stage.run, options, run.folder(tokenizer), run.data,
                        corpus=run.folder("corpus") if corpus else None),
        )  # fmt: skip


def features_preflight(recipe: Recipe, run: Run, name: str) -> None:
    """Raise UserError for a checkpoint that does not fit, or for sources that are not in the corpus."""
    refuse_unfit_checkpoint(recipe, run.run_dir)
    options = recipe.features[name]
    made = {"synthesize": options.synthesize, "pairs": options.pairs}
    given = {f"features.{name}.{option}.sources": group.sources for option, group in made.items() if group}
    refuse_unmatched(recipe.corpus, run.data_dir, given)


def pretrain_preflight(recipe: Recipe, run: Run) -> None:
    """Raise UserError for a checkpoint that does not fit, a tracker that is not installed, or sources that are not in
    the corpus."""
    refuse_unfit_checkpoint(recipe, run.run_dir)
    phases = {f"pretrain.phases.{i}.sources": phase.sources or () for i, phase in enumerate(recipe.pretrain.phases)}
    refuse_unmatched(recipe.corpus, run.data_dir, {"pretrain.sources": recipe.pretrain.sources} | phases)
    run.tracking("pretrain").refuse_missing_libraries()


def pretrain_job(recipe: Recipe, run: Run) -> Job:
    """Shards, and the checkpoint if there is one -> a pretrained model."""
    options, (stage, tokenizer) = recipe.pretrain, origin(recipe).tokenizer
    return Job(
        "pretrain", run.run_dir / "pretrain", pretrain_stage.VERSION, recipe.continued_options(),
        writes=pretrain_stage.WRITES, resumable=True, facts={FIT: run.fit} if run.fit else {},
        inputs={name: run.run_dir / name for name in ("shards", stage)},
        source_files=partial(pretrain_stage.raw_files, options, run.data_dir),
        preflight=partial(pretrain_preflight, recipe, run),
        run=partial(pretrain_stage.run, options, run.folder("shards"), run.folder(tokenizer), run.data,
                    checkpoint=checkpoint_to_continue(recipe, run), tracking=run.tracking("pretrain")),
    )  # fmt: skip


def checkpoint_to_continue(recipe: Recipe, run: Run) -> Path | None:
    """The model of an existing checkpoint that is pretrained further."""
    return run.folder("checkpoint", checkpoint_stage.MODEL) if recipe.continues else None


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
            # here and not in `inputs`, since a model may be published before its controls are trained
            extra_inputs=partial(card_inputs, recipe, run.name, options, controls),
            preflight=partial(publish_stage.refuse_missing_libraries, options),
            run=partial(publish_model, recipe, run.name, name, run.data, run.folder(), tuned_folders, controls),
        )  # fmt: skip


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
    content = recipe_file.load(recipe, settings or [])
    try:
        loaded = Recipe.model_validate(content)
    except ValidationError as error:
        raise UserError(f"recipe {recipe}: {first_error(error)}") from None
    data_dir = data_folder(recipe, loaded.data_dir)
    name = recipe_file.find(recipe).stem
    run = Run(name, data_dir, run_dir or Path("runs") / name, num_workers, loaded.report_to, before_test=before_test)
    fit = find_fit(loaded, run) if loaded.corpus else None
    loaded = with_fit(loaded, fit)
    return loaded, list(jobs(loaded, replace(run, fit=fit)))
