"""Publish a linear classifier over n-grams: its files, a tokenizer, and a card.

`transformers` has no class for such a model, so its card shows this package's commands.
"""

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import atomic_write, read_json, write_json
from kobert_pipeline.finetune.inference_state import inference_length
from kobert_pipeline.finetune.ngrams import CONFIG, NgramModel, Ngrams
from kobert_pipeline.progress import report
from kobert_pipeline.publish.card_facts import CardFacts, Compare, RoundingCost, WeightFile
from kobert_pipeline.publish.export import export_plain
from kobert_pipeline.publish.model_card import card_text, cost_of_rounding, metadata
from kobert_pipeline.publish.quantization_loss import difference
from kobert_pipeline.publish.snippets import EXAMPLE
from kobert_pipeline.tokenizer.loading import backend_in, load_tokenizer
from kobert_pipeline.tokenizer.plain import PLAIN
from kobert_pipeline.training.weight_files import NGRAMS


def run(
    facts: CardFacts, history: dict[str, Any], model: Path, tokenizer: Path, out: Path, cost_of_tokens: Compare
) -> dict[str, Any]:
    """Write the classifier in `model` to `out`; `history` becomes `training_manifest.json`. `cost_of_tokens` compares
    the predictions of both folders. Returns the stage's counts."""
    report("exporting")
    export(model, tokenizer, out)
    report("comparing predictions")
    cost = cost_of_tokens(WeightFile(model, NGRAMS), WeightFile(out, NGRAMS))
    # the card describes the folder's own tokenizer, which then needs no analyzer
    as_published = replace(facts, analyzer="") if (out / "tokenizer.json").is_file() else facts
    with atomic_write(out / "README.md") as part:
        part.write_text(card(as_published, Ngrams(**read_json(out / CONFIG)["ngrams"]), cost), encoding="utf-8")
    write_json(out / "training_manifest.json", history)
    return {"tokens_cost": asdict(cost)} | ({"noise": facts.noise} if facts.noise else {})


def export(model: Path, tokenizer: Path, out: Path) -> None:
    """Write the classifier and its tokenizer to `out`: the one that needs no analyzer where there is one, since its
    tokens spell a text as the training's tokens do, unknown tokens aside."""
    config = read_json(model / CONFIG)
    if (tokenizer / PLAIN).is_dir():
        export_plain(config, tokenizer / PLAIN, out)
    else:
        loaded = load_tokenizer(tokenizer)
        loaded.model_max_length = inference_length(config)
        loaded.save_pretrained(out)
    for name in (CONFIG, NGRAMS):
        shutil.copyfile(model / name, out / name)


def cost_on_dev(features: Path, tokenizer: Path, trained: WeightFile, published: WeightFile) -> RoundingCost:
    """The predictions of the published folder for the texts of dev, beside the training's predictions for their tokens
    in the folder `features`, which the other `tokenizer` made."""
    from kobert_pipeline.training.log import quiet_transformers

    task, dev = Task.of_features(features), Features.load(features / "dev")
    folder, config = published.folder, read_json(published.folder / CONFIG)
    quiet_transformers()  # it warns of a model type that it does not know
    loaded = load_tokenizer(folder)
    arrays = featurize_in_parts(task, dev.examples, loaded, inference_length(config))
    ours = NgramModel.load(trained.folder, backend_in(tokenizer)).predict(task, dev)
    theirs = NgramModel.load(folder, loaded.backend_tokenizer).predict(task, Features(arrays, dev.examples))
    return difference(ours, theirs)


def card(facts: CardFacts, options: Ngrams, cost: RoundingCost) -> str:
    """The model card."""
    text = facts.example.get("text", EXAMPLE["text"])
    units = {"jamo": "jamo", "character": "characters"}[options.unit]
    use = [
        f"No network: a linear classifier over n-grams of {options.min_n} to {options.max_n} {units} (logistic "
        "regression with naive Bayes weights, Wang and Manning 2012). It needs kobert-pipeline, but no torch.",
        f"```console\n$ kobert predict PATH/TO/THIS/FOLDER {quote(text)}\n$ kobert serve PATH/TO/THIS/FOLDER\n```",
    ]
    if cost.different:
        use.append(f"The tokenizer in this folder needs no analyzer. {cost_of_rounding(cost, 'those of the training')}")
    return card_text(facts, metadata(facts) | {"library_name": "kobert-pipeline"}, use)
