"""The page to read first: the stages, and what each one reads. The next is `running.py`: how a run goes on, skips or refuses.

    raw text -> corpus -> analysis -> tokenizer -> shards, features -> pretrain -> finetune -> publish

A recipe has a section per stage; a run has a folder per stage with a manifest. `jobs` lists everything a recipe asks for, in order, with
what it reads. No stage knows about any of this: it is built here, is given folders, and returns counts.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import model_validator

import kobert_pipeline.analysis.stage as analysis_stage
import kobert_pipeline.corpus.stage as corpus_stage
import kobert_pipeline.features.stage as features_stage
import kobert_pipeline.finetune.stage as finetune_stage
import kobert_pipeline.pretrain.stage as pretrain_stage
import kobert_pipeline.publish.stage as publish_stage
import kobert_pipeline.shards.stage as shards_stage
import kobert_pipeline.tokenizer.stage as tokenizer_stage
from kobert_pipeline import manifest
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.files import digest, read_json
from kobert_pipeline.gathering import beside, card_counts, finished, null_threshold, placeless, results_of
from kobert_pipeline.options import Options
from kobert_pipeline.publish.costs import costs
from kobert_pipeline.publish.licences import NOT_STATED, refusal, unstated
from kobert_pipeline.publish.model_card import Facts, auto_class_of
from kobert_pipeline.running import STAGES, Job

PLAIN_NAME = re.compile(r"\w[\w.+-]{0,79}")
"""Names in a recipe become folders of a run, so none may lead out of it, or be hidden."""


class Recipe(Options):
    """Everything a run is made from, a section per stage."""

    description: str = ""
    """What the recipe is for, in a sentence."""
    data_dir: str | None = None
    """Folder below which data files are named; --set data_dir=PATH or the environment variable KOBERT_DATA."""
    corpus: CorpusOptions
    """Sources and what is dropped from them."""
    analysis: analysis_stage.AnalysisOptions = analysis_stage.AnalysisOptions()
    """The analyzer."""
    tokenizer: tokenizer_stage.TokenizerOptions = tokenizer_stage.TokenizerOptions()
    """The vocabulary."""
    shards: shards_stage.ShardsOptions = shards_stage.ShardsOptions()
    """The held-out share."""
    features: dict[str, features_stage.FeaturesOptions] = {}
    """Fine-tuning sets by name."""
    pretrain: pretrain_stage.PretrainOptions = pretrain_stage.PretrainOptions()
    """Objective, architecture and budget."""
    finetune: dict[str, finetune_stage.FinetuneOptions] = {}
    """Fine-tunings by name."""
    publish: dict[str, publish_stage.PublishOptions] = {}
    """Checkpoints by name."""

    @model_validator(mode="after")
    def _names(self) -> "Recipe":
        for section in ("features", "finetune", "publish"):
            for name in getattr(self, section):
                if not PLAIN_NAME.fullmatch(name):
                    raise ValueError(
                        f"{section}: {name[:80]!r} is not a plain file name, which its folder in the run needs; use letters, digits, dots, "
                        f"dashes and underscores, at most 80, a letter or digit first"
                    )
        for name, tuned in self.finetune.items():
            if len(set(tuned.seeds)) < len(tuned.seeds):
                raise ValueError(f"finetune.{name}.seeds names a seed twice ({tuned.seeds}); each has a folder of its own")
        return self

    @model_validator(mode="after")
    def _names_and_lengths(self) -> "Recipe":
        for name, options in self.finetune.items():
            wanted = options.features or name
            if wanted not in self.features:
                raise ValueError(
                    f"finetune.{name} wants the features '{wanted}', which the recipe has not{did_you_mean(wanted, self.features)}"
                )
            task = self.features[wanted].task
            if task.auto_class in self.pretrain.architecture.headless:
                raise ValueError(
                    f"finetune.{name} is a task of the kind {task.name}, for which {self.pretrain.architecture.name} has no head "
                    f"(transformers' {task.auto_class}); choose another pretrain.architecture"
                )
            if options.encoder == "frozen" and not isinstance(self.features[wanted].task, TaggingTask):
                raise ValueError(f"finetune.{name}.encoder is 'frozen', which is for tasks that tag; leave it out")
        for name, published in self.publish.items():
            if published.source not in ("pretrain", *self.finetune):
                raise ValueError(
                    f"publish.{name}.source is '{published.source}'{did_you_mean(published.source, ['pretrain', *self.finetune])}"
                )
            if published.source in self.finetune and self.finetune[published.source].encoder == "frozen":
                raise ValueError(
                    f"publish.{name}.source is '{published.source}', whose encoder is frozen: plain transformers has no class for "
                    f"such a model; fine-tune with encoder: tuned to publish, or give predict the run's model and --tokenizer"
                )
            if published.onnx and self._head(published).endswith("MultipleChoice"):
                raise ValueError(f"publish.{name}.onnx: choices are not written as ONNX yet; leave it out")
            if not published.permission and (why := refusal(_sources(self, published), published.license)):
                raise ValueError(f"publish.{name}: {why}")
        positions = self.pretrain.architecture.max_position_embeddings
        for name, prepared in self.features.items():
            if prepared.max_length > positions:
                raise ValueError(
                    f"features.{name}.max_length is {prepared.max_length}, beyond the model's {positions} positions "
                    f"(pretrain.architecture.max_position_embeddings); lower the one or raise the other"
                )
        return self

    def _head(self, published: publish_stage.PublishOptions) -> str:
        """The class of what is published from a fine-tuning, "" from a pretraining."""
        tuned = self.finetune.get(published.source)
        return self.features[tuned.features or published.source].task.auto_class if tuned else ""


def jobs(recipe: Recipe, name: str, data_dir: Path, run_dir: Path, num_workers: int | None = None) -> Iterator[Job]:
    """Everything the recipe asks for, in the order it is done. People are told the paths they gave; what is made, maybe by workers
    in other folders or on other machines, is given absolute ones."""
    at = {stage: run_dir / stage for stage in STAGES}
    data, made = data_dir.absolute(), {stage: folder.absolute() for stage, folder in at.items()}

    yield Job(
        "corpus", at["corpus"], corpus_stage.VERSION, recipe.corpus.dump(), writes=corpus_stage.WRITES, resumes=True,
        raw=partial(corpus_stage.raw_files, recipe.corpus, data_dir),
        sample=partial(corpus_stage.sample, recipe.corpus, data_dir),
        make=partial(corpus_stage.run, recipe.corpus, data, num_workers=num_workers),
    )  # fmt: skip
    yield Job(
        "analysis", at["analysis"], analysis_stage.VERSION, recipe.analysis.dump(), writes=analysis_stage.WRITES, resumes=True,
        reads={"corpus": at["corpus"]}, raw=partial(recipe.analysis.analyzer.files, data_dir),
        fixed=lambda: {"analyzer": recipe.analysis.analyzer.cutter(data_dir).version},
        wants=partial(recipe.analysis.analyzer.cutter, data_dir),
        make=partial(analysis_stage.run, recipe.analysis, made["corpus"], data, num_workers=num_workers),
    )  # fmt: skip
    yield Job(
        "tokenizer", at["tokenizer"], tokenizer_stage.VERSION, recipe.tokenizer.dump(), writes=tokenizer_stage.WRITES,
        reads={"analysis": at["analysis"]}, raw=partial(tokenizer_stage.raw_files, recipe.tokenizer, data_dir),
        make=partial(tokenizer_stage.run, recipe.tokenizer, made["analysis"], data),
    )  # fmt: skip
    yield Job(
        "shards", at["shards"], shards_stage.VERSION, recipe.shards.dump(), writes=shards_stage.WRITES, resumes=True,
        reads={"analysis": at["analysis"], "tokenizer": at["tokenizer"]},
        make=partial(shards_stage.run, recipe.shards, made["analysis"], made["tokenizer"]),
    )  # fmt: skip
    for key, prepared in recipe.features.items():
        yield Job(
            "features", at["features"] / key, features_stage.VERSION, prepared.dump(), name=key, writes=features_stage.WRITES,
            reads={"tokenizer": at["tokenizer"]}, raw=partial(features_stage.raw_files, prepared, data_dir),
            check=partial(features_stage.prepared, prepared, data_dir),
            make=partial(features_stage.run, prepared, made["tokenizer"], data),
        )  # fmt: skip
    yield Job(
        "pretrain", at["pretrain"], pretrain_stage.VERSION, recipe.pretrain.dump(), writes=pretrain_stage.WRITES, resumes=True,
        reads={"shards": at["shards"], "tokenizer": at["tokenizer"]}, raw=partial(pretrain_stage.raw_files, recipe.pretrain, data_dir),
        make=partial(pretrain_stage.run, recipe.pretrain, made["shards"], made["tokenizer"], data),
    )  # fmt: skip
    for key, tuned in recipe.finetune.items():
        featurized, pretrained = at["features"] / (tuned.features or key), made["pretrain"] / pretrain_stage.MODEL
        reads = {"features": featurized, "pretrain": at["pretrain"]}
        given = {name: value for name, value in tuned.dump().items() if name != "seeds"}
        given["plan"] = {name: value for name, value in given["plan"].items() if name not in tuned.plan.varied}
        settings = tuned.plan.settings() if tuned.plan.varied else {}
        trials = {setting: at["finetune"] / key / "grid" / setting for setting in settings}
        for setting, plan in settings.items():
            seed = tuned.seeds[0]
            yield Job(
                "finetune", trials[setting], finetune_stage.VERSION, {**given, "plan": plan.dump(), "seed": seed, "trial": True},
                name=f"{key}/grid/{setting}", resumes=True, reads=reads, writes=finetune_stage.WRITES,
                make=partial(finetune_stage.trial, tuned, plan, seed, featurized.absolute(), pretrained),
            )  # fmt: skip
        tried = {setting: folder.absolute() for setting, folder in trials.items()}
        for seed in tuned.seeds:
            yield Job(
                "finetune", at["finetune"] / key / str(seed), finetune_stage.VERSION, {**given, "seed": seed}, name=f"{key}/{seed}",
                resumes=True, reads=reads, weighs=tuple(trials.values()), writes=finetune_stage.WRITES,
                fixed=partial(finetune_stage.settled, tuned, featurized, trials),
                make=partial(finetune_stage.run, tuned, seed, featurized.absolute(), pretrained, trials=tried),
            )  # fmt: skip
    for key, published in recipe.publish.items():
        seeds = recipe.finetune[published.source].seeds if published.source in recipe.finetune else []
        models = {f"{published.source}/{seed}": at["finetune"] / published.source / str(seed) for seed in seeds}
        controls = {
            one: [made["finetune"] / one / str(seed) for seed in recipe.finetune[one].seeds] for one in _controls(recipe, published)
        }
        yield Job(
            "publish", at["publish"] / key, publish_stage.VERSION, published.dump(), name=key, writes=publish_stage.WRITES,
            reads={"tokenizer": at["tokenizer"], "pretrain": at["pretrain"], "corpus": at["corpus"], **models},
            fixed=partial(_fixed, recipe, name, published, controls), wants=partial(publish_stage.refuse_missing_libraries, published),
            make=partial(_publish, recipe, name, key, data, run_dir.absolute(), [model.absolute() for model in models.values()], controls),
        )  # fmt: skip


def _publish(
    recipe: Recipe, recipe_name: str, key: str, data_dir: Path, run_dir: Path, tuned: list[Path], controls: dict[str, list[Path]], out: Path
) -> dict[str, Any]:
    """Gather what the run knows about a model, pick the seed that is best on dev, and hand both to the stage."""
    options = recipe.publish[key]
    made = {stage: manifest.read(run_dir / stage) for stage in ("corpus", "analysis", "tokenizer", "shards", "pretrain")}
    model, results, task = run_dir / "pretrain" / pretrain_stage.MODEL, None, None
    behind: dict[str, dict[str, Any]] = {}
    if tuned:
        features = recipe.finetune[options.source].features or options.source
        task = recipe.features[features].task
        runs = {folder.name: manifest.read(folder) for folder in tuned}
        results = results_of(options.source, task.name, task.metric, runs, controls)
        model = run_dir / "finetune" / options.source / results.seed / finetune_stage.MODEL
        made |= {f"finetune/{options.source}/{seed}": one for seed, one in runs.items()}
        behind = beside(run_dir, options.source, features)
    config = read_json(model / "config.json")
    auto_class = task.auto_class if task else auto_class_of(config)
    cutter, sources = recipe.analysis.analyzer.cutter(data_dir), placeless(_sources(recipe, options), data_dir)
    facts = Facts(
        name=f"{recipe_name}-{key}", recipe=recipe_name, description=options.description or _described(recipe), license=options.license,
        auto_class=auto_class, sources=sources, counts=card_counts(made, config), results=results,
        paired=task is not None and task.paired, null_threshold=null_threshold(config),
        evaluated=placeless(_evaluated(recipe, options), data_dir), analyzer=cutter.analyzer, style=cutter.style, library=cutter.library,
        plain_agreement=made["tokenizer"]["counts"]["agreement_with_plain"] if options.plain else None,
        gives_vectors=not tuned and auto_class != "AutoModelForCausalLM", permission=options.permission,
        costs=costs(made | behind), emissions=options.emissions,
    )  # fmt: skip
    told = ("options", "counts", "seconds", "versions", "device")
    stages = {stage: {key: one[key] for key in told if key in one} for stage, one in (made | behind).items()}
    for names in ("contaminated_samples", "skipped"):  # other people's texts, and names of files
        stages["corpus"]["counts"].pop(names, None)
    history = placeless({"recipe": _dump(recipe), "stages": stages}, data_dir)
    counts = publish_stage.run(options, facts, history, model, run_dir / "tokenizer", out)
    return counts | {"files_without_licence": 0 if options.permission else len(unstated(sources))}


def _described(recipe: Recipe) -> str:
    """The first sentence of a card that was given none."""
    base = recipe.pretrain.base
    return f"A Korean language model over morphemes, {f'trained on from {Path(base).name}' if base else 'pretrained from scratch'}."


def _dump(recipe: Recipe) -> dict[str, Any]:
    """The recipe without data_dir."""
    return {key: value for key, value in recipe.dump().items() if key != "data_dir"}


def _sources(recipe: Recipe, published: publish_stage.PublishOptions) -> list[dict[str, str]]:
    """The files that a published model has learned from, what for, and their licences."""
    found = [source | {"use": "pretrain"} for reader in recipe.corpus.sources for source in reader.provenance()]
    if recipe.pretrain.base:
        found.append({"path": recipe.pretrain.base, "license": recipe.pretrain.base_license or NOT_STATED, "use": "start"})
    if recipe.tokenizer.base and recipe.tokenizer.keep == "all":
        found.append({"path": recipe.tokenizer.base, "license": recipe.tokenizer.base_license or NOT_STATED, "use": "vocabulary"})
    if published.source in recipe.finetune:
        featurized = recipe.features[recipe.finetune[published.source].features or published.source]
        licence = featurized.license or NOT_STATED
        found += [{"path": path, "license": licence, "use": "fine-tune"} for path in features_stage.train_files(featurized)]
    return found


def _evaluated(recipe: Recipe, published: publish_stage.PublishOptions) -> list[dict[str, str]]:
    """The files that say how good a published model is."""
    if published.source not in recipe.finetune:
        return []
    featurized = recipe.features[recipe.finetune[published.source].features or published.source]
    files = {"choose (dev)": featurized.dev, "evaluate (test)": featurized.test}
    return [{"path": path, "license": featurized.license or NOT_STATED, "use": use} for use, path in files.items() if path]


def _controls(recipe: Recipe, published: publish_stage.PublishOptions) -> list[str]:
    """The fine-tunings of the same network from random weights, on the features of the published one."""
    if published.source not in recipe.finetune:
        return []
    wanted = recipe.finetune[published.source].features or published.source
    tuned = {name: one for name, one in recipe.finetune.items() if name != published.source and one.encoder == "tuned"}
    return [name for name, one in tuned.items() if one.weights == "random" and (one.features or name) == wanted]


def _fixed(recipe: Recipe, name: str, published: publish_stage.PublishOptions, controls: dict[str, list[Path]]) -> dict[str, str]:
    """What a card depends on beside the folders that are read."""
    found = {"recipe": digest([name, _dump(recipe), _sources(recipe, published)])}
    if scores := {one: [made["counts"] for made in runs] for one, runs in finished(controls).items()}:
        found["controls"] = digest(scores)
    return found
