"""Where a published model comes from: facts for the model card and the training manifest, read from the run's
manifests."""

import re
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import kobert_pipeline.finetune.stage as finetune_stage
import kobert_pipeline.publish.stage as publish_stage
from kobert_pipeline.checkpoint.source import analyzer_of
from kobert_pipeline.download.sources import find_dataset
from kobert_pipeline.features.format import SPLITS
from kobert_pipeline.features.metrics import mean
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import digest, read_json
from kobert_pipeline.finetune.inference_state import fine_tuned_for
from kobert_pipeline.finetune.ngrams import MODEL_TYPE as NGRAMS_TYPE
from kobert_pipeline.pipeline.card_from_dev import with_dev
from kobert_pipeline.pipeline.recipe import SECTIONS_FROM_TEXT, Recipe
from kobert_pipeline.pipeline.run import origin
from kobert_pipeline.progress import by_source_text, new_head_text
from kobert_pipeline.publish import ngrams
from kobert_pipeline.publish.card_facts import NO_NETWORK, CardFacts, Results
from kobert_pipeline.publish.costs import costs
from kobert_pipeline.publish.licences import without_known_licence
from kobert_pipeline.publish.model_card import auto_class_of
from kobert_pipeline.publish.quantization_loss import cost_on_dev, cost_on_held_out
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.compare import ablation_by_metric, final_split, scores_by_metric
from kobert_pipeline.runs.content_hash import ROUNDED

Manifest = dict[str, Any]

PUBLIC_ENTRIES = ("options", "counts", "seconds", "cpu_seconds", "versions", "device", "fit", ROUNDED)
"""The entries of each stage's manifest that the training manifest repeats."""
PRIVATE_COUNTS = ("contaminated_samples", "recurring_samples", "skipped", "failed")
"""Counts of corpus and analysis that are not published: they quote other people's texts or name the user's files."""


NO_PART = ("shards", "pretrain", "checkpoint")
"""Stages whose weights a classifier over n-grams does not have."""
PART = re.compile(r"(?<![a-z])(train|dev|valid(?:ation)?|test)(?![a-z])")
"""The part of a known data set that the name of its file states."""


def card_inputs(
    recipe: Recipe, recipe_name: str, options: publish_stage.PublishOptions, controls: dict[str, list[Path]]
) -> dict[str, str]:
    """Digests of what the model card contains besides the contents of the stage's input folders: the recipe, and the
    scores of the finished controls.

    With them in the fingerprint, a card whose numbers or texts have changed is stale.
    """
    files = recipe.training_files(options) + recipe.evaluation_files(options)
    digests = {"recipe": digest([recipe_name, recipe.without_data_dir(), files])}
    if scores := {name: [run["counts"] for run in runs] for name, runs in finished_controls(controls).items()}:
        digests["controls"] = digest(scores)
    return digests


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
    """Run the stage publish for the checkpoint `key`: choose the seed with the best dev score, collect the facts for
    the model card and the training manifest, and write to `out`. Returns the stage's counts. `tuned` are the folders of
    the fine-tuning's seeds, empty for a pretrained model; `controls` has the folders of each control's seeds."""
    options, begin = recipe.publish[key], origin(recipe)
    tokenizer = run_dir / begin.tokenizer[1]
    is_linear = bool(tuned) and recipe.finetune[options.source].ngrams is not None
    # a classifier over n-grams has the vocabulary of the run, and no weights of it
    upstream = [stage for stage in begin.upstream if not (is_linear and stage in NO_PART)]
    manifests = {stage: manifest.read(run_dir / stage) for stage in upstream}
    model, results, task = run_dir / begin.model[1], None, None
    cost = partial(cost_on_held_out, run_dir / "shards")
    related: dict[str, Manifest] = {}
    if tuned:
        features = recipe.finetune[options.source].features or options.source
        task, prepared = recipe.features[features].task, run_dir / "features" / features
        by_seed = {folder.name: manifest.read(folder) for folder in tuned}
        related = related_manifests(recipe, run_dir, options.source, features)
        results = results_of(options.source, task, by_seed, controls, related[f"features/{features}"]["counts"])
        results = describe_results(results, recipe.features[features], manifests | related)
        model = run_dir / "finetune" / options.source / results.seed / ("" if is_linear else finetune_stage.MODEL)
        cost = partial(ngrams.cost_on_dev, prepared, tokenizer) if is_linear else partial(cost_on_dev, prepared)
        manifests |= {f"finetune/{options.source}/{seed}": run for seed, run in by_seed.items()}
    # `related` counts in the card's costs and in the history, but its numbers are not results of the model
    analyzer, config = analyzer_of(tokenizer), read_json(model / "config.json")
    facts = card_facts(recipe, recipe_name, key, options, data_dir, manifests, related, config, task, results, analyzer)
    if task:
        facts = with_dev(facts, recipe.features[features], prepared, model, tokenizer)
    history = training_history(recipe, data_dir, manifests | related)
    counts = publish_stage.run(options, facts, history, model, tokenizer, out, cost)
    return counts | {"files_without_licence": 0 if options.permission else len(without_known_licence(facts.sources))}


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
    analyzer: dict[str, Any],
) -> CardFacts:
    """All facts of a model card. `config` is the model's `config.json`; a pretrained model has no task and results.
    `analyzer`: what `analyzer_of` returns."""
    auto_class = task.auto_class if task else auto_class_of(config)
    trained = manifests.get(f"finetune/{options.source}/{results.seed}" if results else "pretrain", {})
    return CardFacts(
        name=recipe_name if recipe_name.endswith(f"-{key}") else f"{recipe_name}-{key}",
        recipe=recipe_name,
        description=options.description or recipe.default_description(options.source),
        license=options.license,
        auto_class=auto_class,
        sources=known_datasets(strip_local_paths(recipe.training_files(options), data_dir)),
        counts=card_counts(manifests, config) | example_counts(options.source, related) | weight_counts(trained),
        results=results,
        paired=task is not None and task.paired,
        inference_options=fine_tuned_for(config)[1],
        evaluated=known_datasets(strip_local_paths(recipe.evaluation_files(options), data_dir)),
        **options.model_dump(include={"author", "selection", "permission"}),
        ngrams_weights=trained.get("counts", {}).get("ngrams_weights", []),
        **trained_with(trained),
        **analyzer,
        base=strip_local_paths(recipe.checkpoint, data_dir),
        base_model=manifests.get("checkpoint", manifests.get("pretrain", {})).get("counts", {}).get("base_model"),
        plain_agreement=manifests.get("tokenizer", {}).get("counts", {}).get("agreement_with_plain"),
        gives_vectors=not task.inputs if task else auto_class != "AutoModelForCausalLM",
        costs=costs(manifests | related),
    )


def known_datasets(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of files; where `kobert download` knows a file, with its data set, the name of that on the Hub, its
    authors, and what part of it the file holds."""
    complete = []
    for row in rows:
        if known := find_dataset(row["path"]):
            source, part = known
            credit = "; ".join(filter(None, [source.attribution, part and f"{Path(row['path']).name}: {part}"]))
            # a part that was prepared elsewhere is not the data set that the Hub has under that name
            dataset_id = "" if part else source.dataset_id or ""
            row |= {"dataset": source.name, "dataset_id": dataset_id, "attribution": credit}
        complete.append(row)
    return complete


def describe_results(results: Results, prepared: FeaturesOptions, manifests: dict[str, Manifest]) -> Results:
    """The results with what they are of: what was fine-tuned, the data set, the part of it by its file's own name (a
    public dev set that is read as test set stays a dev set), and the number of examples."""
    features = next(run["counts"] for stage, run in manifests.items() if stage.startswith("features/"))
    size = features.get(f"{results.split}_examples", 0)
    start = results.initial_weights if results.initial_weights == NO_NETWORK else initial_weights(manifests)
    results = replace(results, initial_weights=start, examples=size)
    file = prepared.test if results.split == "test" else prepared.dev
    if file is None:  # dev is a part of train
        return results
    source, _ = find_dataset(file) or (None, "")
    if source is None:  # what a user means by the words in a name is not known
        return replace(results, dataset=Path(file).name, dataset_split=results.split)
    stated = PART.search(Path(file).name.lower())
    part = stated[1] if stated else results.split
    return replace(results, dataset=source.name, dataset_split=part, dataset_id=source.dataset_id)


def initial_weights(manifests: dict[str, Manifest]) -> str:
    """What fine-tunings started from: after a single step of pretraining, the word vectors that it began with."""
    pretrain = manifests.get("pretrain", {"options": {}, "counts": {}})
    if pretrain["options"].get("word_vectors") and pretrain["counts"].get("steps") == 1:
        return "word vectors"
    return "pretrained"


def trained_with(trained: Manifest) -> dict[str, Any]:
    """The versions and the year of the stage that trained the weights, as entries of `CardFacts`."""
    return {"versions": trained.get("versions", {}), "year": trained.get("finished", "")[:4]}


def weight_counts(trained: Manifest) -> dict[str, str]:
    """How many n-grams a linear classifier knows; for another fine-tuning the weights of the labels in its loss, {}
    where every example counted the same."""
    if kept := trained.get("counts", {}).get("ngrams"):
        return {"n-grams with a weight": f"{kept:,}"}
    if not (weights := trained.get("counts", {}).get("class_weights")):
        return {}
    listed = ", ".join(f"{label} {weight:g}" for label, weight in weights.items())
    how = "balanced: " if trained["options"].get("class_weights") == "balanced" else ""
    return {"class weights in the loss": f"{how}{listed}"}


def training_history(recipe: Recipe, data_dir: Path, manifests: dict[str, Manifest]) -> dict[str, Any]:
    """The content of `training_manifest.json`: the recipe, and each stage's options, counts, seconds, versions and
    device."""
    stages = {
        stage: {key: content[key] for key in PUBLIC_ENTRIES if key in content} for stage, content in manifests.items()
    }
    for stage in stages.keys() & {"corpus", "analysis"}:
        counts = stages[stage]["counts"]
        stages[stage]["counts"] = {key: value for key, value in counts.items() if key not in PRIVATE_COUNTS}
    # a checkpoint without a corpus takes the place of these sections, and a recipe has only their defaults; left out
    # here and not in `without_data_dir`, which is in the fingerprint of models that are published already
    unused = SECTIONS_FROM_TEXT if recipe.checkpoint and recipe.corpus is None else ()
    values = {key: value for key, value in recipe.without_data_dir().items() if key not in unused}
    history: dict[str, Any] = strip_local_paths({"recipe": values, "stages": stages}, data_dir)
    return history


def results_of(
    name: str,
    task: Task,
    by_seed: dict[str, Manifest],
    controls: dict[str, list[Path]],
    data: dict[str, Any],
) -> Results:
    """The scores of the fine-tuning `name` and of its finished controls, on test where there is a test set, else on
    dev. Controls over n-grams are the baselines.

    `by_seed` holds the manifest of each seed, `data` the counts of the features. Both the published seed and the order
    of the controls are chosen by dev scores, since a choice by test scores would make these too good.
    """

    def dev_score(run: Manifest) -> float:
        return task.selection_score(run["counts"]["dev"])

    runs = list(by_seed.values())
    split = final_split(runs)
    best = max(by_seed, key=lambda seed: dev_score(by_seed[seed]))
    control_runs = finished_controls(controls)
    # a control may leave the test set unread, and then there is nothing to compare
    finished = {control: of_seeds for control, of_seeds in control_runs.items() if split in of_seeds[0]["counts"]}
    order = sorted(finished, key=lambda control: -mean([dev_score(run) for run in finished[control]]))
    with_ngrams = [control for control in order if "ngrams" in finished[control][0]["options"]]
    scores = {control: scores_by_metric(finished[control], split) for control in order}
    return Results(
        name, task.name, split, scores_by_metric(runs, split),
        {control: scores[control] for control in order if control not in with_ngrams}, best,
        by_seed[best]["counts"][split],
        by_seed[best]["counts"].get(f"{split}_classification_report", {}),
        by_seed[best]["options"].get("init") == "scratch", data.get("dev_examples_synthetic", 0),
        ablation=ablation_by_metric(runs, split),
        baselines={control: scores[control] for control in with_ngrams},
        seed_ablation=by_seed[best]["counts"].get(f"{split}_prior_ablation", {}),
        initial_weights=NO_NETWORK if "ngrams" in by_seed[best]["options"] else "pretrained",
    )  # fmt: skip


def finished_seeds(recipe: Recipe, run_dir: Path, options: publish_stage.PublishOptions) -> tuple[Path, ...]:
    """The folders of all seeds of the controls that are finished."""
    seeds = ((name, str(seed)) for name in recipe.controls(options) for seed in recipe.finetune[name].seeds)
    folders = (run_dir / "finetune" / name / seed for name, seed in seeds)
    return tuple(filter(manifest.is_finished, folders))


def finished_controls(controls: dict[str, list[Path]]) -> dict[str, list[Manifest]]:
    """The manifests of the controls whose seeds are all finished; the others are left out, since a model may be
    published before its controls are trained."""
    finished = {name: folders for name, folders in controls.items() if all(map(manifest.is_finished, folders))}
    return {name: [manifest.read(folder) for folder in folders] for name, folders in finished.items()}


def related_manifests(recipe: Recipe, run_dir: Path, source: str, features: str) -> dict[str, Manifest]:
    """The manifests of jobs that a fine-tuned model cost without being part of it: its features, the trials of its
    grid, and where it was distilled or starts from another fine-tuning, the soft labels and what the others cost."""
    tuned = run_dir / "finetune"
    folders = [run_dir / "features" / features]
    chain = recipe.fine_tunings_of(source)
    for name in chain:
        folders += [*sorted((tuned / name / "grid").glob("*")), tuned / name / finetune_stage.SOFT_LABELS_FOLDER]
    folders += [tuned / name / str(seed) for name in chain[1:] for seed in recipe.finetune[name].seeds]
    return {
        folder.relative_to(run_dir).as_posix(): manifest.read(folder)
        for folder in folders
        if manifest.is_finished(folder)
    }


def card_counts(manifests: dict[str, Manifest], config: dict[str, Any]) -> dict[str, str]:
    """The numbers of the model card by label, from the manifests and the model's config; numbers of stages that were
    not run are left out."""
    # GPT-2's config has names of its own
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    width = config.get("hidden_size", config.get("n_embd"))
    task, state = fine_tuned_for(config)
    numbers = {}
    if "corpus" in manifests:
        numbers["documents"] = f"{manifests['corpus']['counts']['documents_kept']:,}"
    if "tokenizer" in manifests:
        numbers["vocabulary"] = f"{manifests['tokenizer']['counts']['vocab_size']:,}"
    shape = f", {layers} layers, hidden size {width}" if layers else ""
    numbers["architecture"] = f"{config['model_type']}{shape}"
    if "checkpoint" in manifests:
        begun = manifests["checkpoint"]["counts"]
        numbers["vocabulary"] = f"{begun['vocab_size']:,}"
        numbers["parameters of the encoder"] = f"{begun['parameters']:,}"
        if "commit" in begun:
            numbers["commit of the checkpoint"] = begun["commit"]
    if "shards" in manifests:
        numbers |= unknown_rate("pretraining", manifests["shards"]["counts"])
    if "pretrain" in manifests:
        trained = manifests["pretrain"]["counts"]
        losses = [f"{trained[f'held_out_{when}']['loss']:.3f}" for when in ("before", "after")]
        numbers["parameters in pretraining"] = f"{trained['parameters']:,}"
        numbers["tokens seen in pretraining"] = f"{trained['tokens_seen']:,}"
        numbers["held-out loss before and after"] = " -> ".join(losses)
        if trained.get("held_out_by_source"):
            numbers["held-out texts of each source, before and after"] = by_source_text(trained)
        if learned_anew := new_head_text(trained):
            numbers["of the model it started from"] = learned_anew
    if task and "id2label" in config:
        numbers["labels"] = ", ".join(config["id2label"].values())
    if "max_length" in state and config["model_type"] != NGRAMS_TYPE:  # n-grams read texts whole
        numbers["maximum tokens per window in fine-tuning"] = f"{state['max_length']:,}"
    return numbers


def example_counts(source: str, related: dict[str, Manifest]) -> dict[str, str]:
    """How much the fine-tuning `source` learned from and was measured on, by label: the sizes of train, dev and test,
    the parts of train that were made in another way than the rest, and the texts that its teachers labelled."""
    features = (content for stage, content in related.items() if stage.startswith("features/"))
    counts: dict[str, Any] = next((content["counts"] for content in features), {})
    labelled = related.get(f"finetune/{source}/{finetune_stage.SOFT_LABELS_FOLDER}", {"counts": {}})["counts"]
    names = {"train": "train", "dev": "dev (to choose the model)", "test": "the final evaluation"}
    sizes = {f"examples in {names[split]}": counts.get(f"{split}_examples") for split in SPLITS}
    sizes["of train, made from the corpus"] = counts.get("train_examples_synthetic")
    sizes["of train and dev, with the text of one of the final evaluation"] = counts.get("train_examples_in_test")
    sizes["of dev, made from the corpus"] = counts.get("dev_examples_synthetic")
    sizes["of train, tokenized without the analyzer"] = counts.get("train_examples_plain")
    sizes["of train, without their white space"] = counts.get("train_examples_unspaced")
    sizes["unlabelled texts with pseudo-labels (soft labels of its teachers)"] = labelled.get("texts")
    rows = {label: f"{size:,}" for label, size in sizes.items() if size is not None}
    return rows | unknown_rate("the training examples", counts)


def unknown_rate(texts: str, counts: dict[str, Any]) -> dict[str, str]:
    """The share of the tokens of training texts that the vocabulary lacks, as a row of the card, from the counts of a
    stage; none of runs of earlier versions."""
    share = counts.get("train_unknown_rate")
    return {} if share is None else {f"unknown tokens in {texts}": f"{share:.2%}"}


def strip_local_paths(value: Any, data_dir: Path) -> Any:
    """`value` with every absolute path in it made relative to `data_dir`, or shortened to its last part: a published
    file must not show the folders of the machine that trained the model."""
    if isinstance(value, dict):
        public: dict[str, Any] = {}
        for key, item in value.items():
            # counts by source have its paths as their key; files of one name in several folders are numbered
            name = ", ".join(strip_local_paths(path, data_dir) for path in str(key).split(", "))
            names = chain([name], (f"{name} ({index})" for index in count(2)))
            public[next(name for name in names if name not in public)] = strip_local_paths(item, data_dir)
        return public
    if isinstance(value, (list, tuple)):
        return [strip_local_paths(item, data_dir) for item in value]
    if not isinstance(value, str) or not value.startswith("/"):
        return value
    path = Path(value)
    return path.relative_to(data_dir).as_posix() if path.is_relative_to(data_dir) else path.name
