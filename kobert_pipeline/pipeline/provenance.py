"""What a run knows about a model: read from its manifests, for the model card and the training manifest."""

from pathlib import Path
from typing import Any

import kobert_pipeline.finetune.stage as finetune_stage
import kobert_pipeline.pretrain.stage as pretrain_stage
import kobert_pipeline.publish.stage as publish_stage
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import digest, read_json
from kobert_pipeline.markdown import mean
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.publish.costs import costs
from kobert_pipeline.publish.licences import unstated
from kobert_pipeline.publish.model_card import CardFacts, Results, auto_class_of
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.compare import final_split, scores_by_metric
from kobert_pipeline.training.hf_config import fine_tuned_for

Manifest = dict[str, Any]

UPSTREAM = ("corpus", "analysis", "tokenizer", "shards", "pretrain")
"""The stages that every published model comes from."""
PUBLIC_ENTRIES = ("options", "counts", "seconds", "versions", "device")
"""What the training manifest repeats of each stage's manifest."""
PRIVATE_COUNTS = ("contaminated_samples", "skipped")
"""Counts of the corpus that quote other people's texts or name the user's files: they are not published."""


def card_inputs(
    recipe: Recipe, recipe_name: str, options: publish_stage.PublishOptions, controls: dict[str, list[Path]]
) -> dict[str, str]:
    """Digests of what a model card repeats that is in no folder the stage reads: the recipe, and the scores of the
    controls so far."""
    found = {"recipe": digest([recipe_name, recipe.without_data_dir(), recipe.training_files(options)])}
    if scores := {name: [made["counts"] for made in runs] for name, runs in finished_controls(controls).items()}:
        found["controls"] = digest(scores)
    return found


def publish_model(
    recipe: Recipe,
    recipe_name: str,
    key: str,
    data_dir: Path,
    run_dir: Path,
    tuned: list[Path],
    controls: dict[str, list[Path]],
    out: Path,
) -> dict[str, Any]:
    """Run the stage publish: choose the seed with the best dev score, and collect the facts for the card and the
    training manifest."""
    options = recipe.publish[key]
    manifests = {stage: manifest.read(run_dir / stage) for stage in UPSTREAM}
    model, results, task = run_dir / "pretrain" / pretrain_stage.MODEL, None, None
    related: dict[str, Manifest] = {}
    if tuned:
        features = recipe.finetune[options.source].features or options.source
        task = recipe.features[features].task
        by_seed = {folder.name: manifest.read(folder) for folder in tuned}
        results = results_of(options.source, task, by_seed, controls)
        model = run_dir / "finetune" / options.source / results.seed / finetune_stage.MODEL
        manifests |= {f"finetune/{options.source}/{seed}": made for seed, made in by_seed.items()}
        related = related_manifests(run_dir, options.source, features)
    facts = card_facts(
        recipe, recipe_name, key, options, data_dir, manifests, related, read_json(model / "config.json"), task, results
    )
    history = training_history(recipe, data_dir, manifests | related)
    counts = publish_stage.run(options, facts, history, model, run_dir / "tokenizer", out)
    return counts | {"files_without_licence": 0 if options.permission else len(unstated(facts.sources))}


def card_facts(
    recipe: Recipe,
    recipe_name: str,
    key: str,
    options: publish_stage.PublishOptions,
    data_dir: Path,
    manifests: dict[str, Manifest],
    related: dict[str, Manifest],
    config: dict[str, Any],
    task: Task | None,
    results: Results | None,
) -> CardFacts:
    """Everything that the model card says. `config` is the model's; `task` and `results` are None for a pretrained
    model."""
    auto_class = task.auto_class if task else auto_class_of(config)
    segmenter = recipe.analysis.analyzer.segmenter(data_dir)
    return CardFacts(
        name=f"{recipe_name}-{key}",
        recipe=recipe_name,
        description=options.description or recipe.default_description(),
        license=options.license,
        auto_class=auto_class,
        sources=strip_local_paths(recipe.training_files(options), data_dir),
        counts=card_counts(manifests, config),
        results=results,
        paired=task is not None and task.paired,
        null_threshold=null_threshold(config),
        evaluated=strip_local_paths(recipe.evaluation_files(options), data_dir),
        analyzer=segmenter.analyzer,
        style=segmenter.style,
        library=segmenter.library,
        plain_agreement=manifests["tokenizer"]["counts"]["agreement_with_plain"] if options.plain else None,
        gives_vectors=task is None and auto_class != "AutoModelForCausalLM",
        permission=options.permission,
        costs=costs(manifests | related),
        emissions=options.emissions,
    )


def training_history(recipe: Recipe, data_dir: Path, manifests: dict[str, Manifest]) -> dict[str, Any]:
    """The content of `training_manifest.json`: the recipe, and of each stage its options, counts, seconds, versions and
    device."""
    stages = {stage: {key: made[key] for key in PUBLIC_ENTRIES if key in made} for stage, made in manifests.items()}
    if "corpus" in stages:
        counts = stages["corpus"]["counts"]
        stages["corpus"]["counts"] = {key: value for key, value in counts.items() if key not in PRIVATE_COUNTS}
    history: dict[str, Any] = strip_local_paths({"recipe": recipe.without_data_dir(), "stages": stages}, data_dir)
    return history


def results_of(name: str, task: Task, by_seed: dict[str, Manifest], controls: dict[str, list[Path]]) -> Results:
    """The scores of the fine-tuning `name` from its manifests by seed, on test where there is a test set, beside those
    of the finished controls, the best on dev first. The seed that is published is the one with the best dev score."""

    def dev_score(made: Manifest) -> float:
        return float(made["counts"]["dev"][task.metric])

    runs = list(by_seed.values())
    split = final_split(runs)
    best = max(by_seed, key=lambda seed: dev_score(by_seed[seed]))
    finished = finished_controls(controls)
    order = sorted(finished, key=lambda control: -mean([dev_score(made) for made in finished[control]]))
    control_scores = {control: scores_by_metric(finished[control], split) for control in order}
    return Results(
        name, task.name, split, scores_by_metric(runs, split), control_scores, best, by_seed[best]["counts"][split]
    )


def finished_controls(controls: dict[str, list[Path]]) -> dict[str, list[Manifest]]:
    """The manifests of the controls whose seeds are all finished. A control that was left out for want of time keeps
    nothing from being published."""
    finished = {name: folders for name, folders in controls.items() if all(map(manifest.is_finished, folders))}
    return {name: [manifest.read(folder) for folder in folders] for name, folders in finished.items()}


def related_manifests(run_dir: Path, source: str, features: str) -> dict[str, Manifest]:
    """The manifests of what was made for a fine-tuned model but is not in it: its features, and the trials of its
    grid."""
    folders = [run_dir / "features" / features, *sorted((run_dir / "finetune" / source / "grid").glob("*"))]
    return {
        folder.relative_to(run_dir).as_posix(): manifest.read(folder)
        for folder in folders
        if manifest.is_finished(folder)
    }


def null_threshold(config: dict[str, Any]) -> float | None:
    """Of a model whose questions may have no answer: by how much the score of no answer must exceed that of the best
    span."""
    threshold = fine_tuned_for(config)[1].get("null_threshold")
    return None if threshold is None else float(threshold)


def card_counts(manifests: dict[str, Manifest], config: dict[str, Any]) -> dict[str, str]:
    """The numbers of the model card, from the manifests and the model's config. Those of stages that were not run are
    left out."""
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    width = config.get("hidden_size", config.get("n_embd"))
    task, state = fine_tuned_for(config)
    found = {}
    if "corpus" in manifests:
        found["documents"] = f"{manifests['corpus']['counts']['documents_kept']:,}"
    if "tokenizer" in manifests:
        found["vocabulary"] = f"{manifests['tokenizer']['counts']['vocab_size']:,}"
    found["architecture"] = f"{config['model_type']}, {layers} layers of width {width}"
    if "pretrain" in manifests:
        trained = manifests["pretrain"]["counts"]
        losses = [f"{trained[f'held_out_{when}']['loss']:.3f}" for when in ("before", "after")]
        found["parameters"] = f"{trained['parameters']:,}"
        found["tokens seen in pretraining"] = f"{trained['tokens_seen']:,}"
        found["held-out loss before and after"] = " -> ".join(losses)
    if task and "id2label" in config:
        found["labels"] = ", ".join(config["id2label"].values())
    if "max_length" in state:
        found["tokens of a window in fine-tuning, at most"] = f"{state['max_length']:,}"
    return found


def strip_local_paths(value: Any, data_dir: Path) -> Any:
    """`value` with every absolute path in it replaced by a name: the path below data_dir, or its last part. Where files
    are on the machine that made a model is nobody's business."""
    if isinstance(value, dict):
        return {key: strip_local_paths(one, data_dir) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [strip_local_paths(one, data_dir) for one in value]
    if not isinstance(value, str) or not value.startswith("/"):
        return value
    path = Path(value)
    return path.relative_to(data_dir).as_posix() if path.is_relative_to(data_dir) else path.name
