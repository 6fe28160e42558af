"""The model card: how to load it, how it was made, what it scored, what it is not for. Every number comes from the
run's manifests."""

from dataclasses import dataclass, field
from typing import Any

from kobert_pipeline.markdown import code, deviation_and_range, escaped, front_matter, mean, paragraphs, spread, table
from kobert_pipeline.publish.costs import Cost, EmissionsOptions, grams
from kobert_pipeline.publish.licences import hub_name, unstated
from kobert_pipeline.publish.snippets import ONNX, PAIRED, UNANSWERABLE, USES, VECTORS

Scores = dict[str, list[float]]
"""{metric: [value per seed]}"""


@dataclass(frozen=True)
class Results:
    """What the fine-tuning `name` scored on a `split` of the `task`'s data. `controls` are the scores of the same
    network from random weights on the same data, by the names of those fine-tunings, the best on dev first. `seed` is
    that of the weights in the folder, `own` what they scored by themselves."""

    name: str
    task: str
    split: str
    scores: Scores
    controls: dict[str, Scores] = field(default_factory=dict)
    seed: str = ""
    own: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CardFacts:
    """What the run knows about the model. `sources` that it was made from and those it was `evaluated` on: rows of
    `path`, `license` and `use`; `library` is what the analyzer needs; `plain_agreement` the share of eojeols that the
    tokenizer in `plain/` spells alike, None where there is none; `paired` says whether it labels pairs of texts,
    `null_threshold` by how much the score of no answer must exceed that of the best span, None where every question is
    answered; `gives_vectors` whether `sentence-transformers` may load it; `onnx_difference` is the largest between the
    ONNX file and torch, None where there is none."""

    name: str
    recipe: str
    description: str
    license: str
    auto_class: str
    sources: list[dict[str, str]]
    counts: dict[str, str]
    analyzer: str
    style: str
    library: str
    results: Results | None = None
    plain_agreement: float | None = None
    paired: bool = False
    null_threshold: float | None = None
    gives_vectors: bool = False
    onnx_difference: float | None = None
    permission: str | None = None
    evaluated: list[dict[str, str]] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    emissions: EmissionsOptions | None = None


PIPELINES = {
    "AutoModelForSequenceClassification": "text-classification",
    "AutoModelForQuestionAnswering": "question-answering",
    "AutoModelForMultipleChoice": "multiple-choice",
    "AutoModelForTokenClassification": "token-classification",
    "AutoModelForPreTraining": "fill-mask",
    "AutoModelForMaskedLM": "fill-mask",
    "AutoModelForCausalLM": "text-generation",
    "AutoModel": "feature-extraction",
}

HUB_METRICS = {
    "macro_f1": "f1", "mcc": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr",
    "entity_f1": "f1", "entity_precision": "precision", "entity_recall": "recall", "character_macro_f1": "f1",
    "HasAns_exact": "exact_match", "HasAns_f1": "f1", "NoAns_exact": "exact_match", "NoAns_f1": "f1",
}  # fmt: skip
"""Scores that the hub calls otherwise than we."""


def auto_class_of(config: dict[str, Any]) -> str:
    """The class of `transformers` that loads a pretrained model for what it can do."""
    kind = config["architectures"][0]
    if kind.startswith("Electra") and kind.endswith("ForPreTraining"):  # a discriminator fills no masks
        return "AutoModel"
    suffixes = {
        "ForPreTraining": "AutoModelForPreTraining",
        "ForMaskedLM": "AutoModelForMaskedLM",
        "LMHeadModel": "AutoModelForCausalLM",
    }
    return next(auto for suffix, auto in suffixes.items() if kind.endswith(suffix))


def model_card(facts: CardFacts) -> str:
    """The card as Markdown with YAML metadata."""
    parts = [
        front_matter(metadata(facts)),
        f"# {escaped(facts.name)}",
        paragraphs(facts.description),
        tokenizer_text(facts),
        f"```python\n{snippet(facts)}\n```",
        *other_ways(facts),
        "## Results",
        results_text(facts.results),
        "## How it was made",
        f"Recipe {code(facts.recipe)} of kobert-pipeline; options and counts of every stage are in "
        "`training_manifest.json`.",
        table(["measure", "value"], [[escaped(name), escaped(value)] for name, value in facts.counts.items()]),
        "## Data",
        *data_text(facts),
        "## Cost",
        *cost_text(facts),
        "## Intended use and limits",
        "Korean text understanding and research. The model repeats what its data says, prejudice included; check it on "
        "your own data. " + how_picked(facts.results),
    ]
    return "\n\n".join(parts) + "\n"


def snippet(facts: CardFacts) -> str:
    """Python that uses the model."""
    if facts.null_threshold is not None:
        return UNANSWERABLE.replace("NULL_THRESHOLD", f"{facts.null_threshold:.6g}")
    return PAIRED if facts.paired else USES[facts.auto_class]


def how_picked(results: Results | None) -> str:
    """What the figures above are worth."""
    if results is None:
        return "The held-out loss above is of documents that were kept out of training; the model is that of the last step."
    tested = " and the test set read once per run" if results.split == "test" else "; there was no test set"
    return f"The figures above were obtained with the model picked on a dev split{tested}."


def other_ways(facts: CardFacts) -> list[str]:
    """The same by `sentence-transformers` and by ONNX Runtime, where the folder has their files."""
    parts = []
    if facts.gives_vectors:
        parts += [
            "As vectors of texts: the last states, averaged over all tokens but padding. The model was not trained to "
            "compare texts, so "
            "fine-tune it before you rely on distances.",
            f"```python\n{VECTORS}\n```",
        ]
    if facts.onnx_difference is not None:
        parts += [
            "Without torch: `onnx/model.onnx` takes any number of texts of any length that the model takes; its "
            "outputs differ from "
            f"torch's by {facts.onnx_difference:.1e} at most (float32, checked when it was made).",
            f"```python\n{ONNX}\n```",
        ]
    return parts


def data_text(facts: CardFacts) -> list[str]:
    """The files with their licences, and what is to be said of those."""
    rows = [[escaped(one[key]) for key in ("path", "license", "use")] for one in facts.sources + facts.evaluated]
    parts = [table(["file", "licence", "used to"], rows)]
    if unstated(facts.sources):
        parts.append("Where no licence is stated, find it out before you pass the model on.")
    if facts.permission:
        parts.append(f"Why it is published, in its maker's words: {paragraphs(facts.permission)}")
    return parts


def cost_text(facts: CardFacts) -> list[str]:
    """Hours by stage; CO2 only from numbers that were given."""
    rows = [[escaped(cost.stage), f"{cost.hours:.3f}", escaped(cost.device)] for cost in facts.costs]
    parts = [table(["stage", "device hours", "on"], rows)] if rows else ["Not recorded."]
    if facts.emissions:
        given = facts.emissions
        hours = sum(cost.hours for cost in facts.costs)
        parts.append(
            f"CO2: {hours:.3f} h x {given.watts:g} W / 1000 x {given.grams_per_kwh:g} g/kWh = "
            f"{grams(facts.costs, given):,.1f} g; "
            "power and grams are what its maker states."
        )
    return parts


def tokenizer_text(facts: CardFacts) -> str:
    """What the tokenizer cuts by, what it needs, and what there is without it."""
    needs = (
        f"`pip install {facts.library}` and `trust_remote_code=True`" if facts.library else "`trust_remote_code=True`"
    )
    text = (
        f"The text is cut by the analyzer {facts.analyzer} (style `{facts.style}`), so the tokenizer needs {needs}; "
        "without the flag it does not load at all, rather than load as another tokenizer."
    )
    if facts.plain_agreement is None:
        return text
    return text + (
        " In `plain/` lies the same vocabulary as a tokenizer that needs neither: it spells "
        f"{facts.plain_agreement:.1%} of the corpus's "
        "eojeols by the same tokens, the others otherwise than the model has learned them."
    )


def metadata(facts: CardFacts) -> dict[str, Any]:
    """YAML metadata with `model-index`, as the hub reads it."""
    found: dict[str, Any] = {
        "language": "ko",
        **hub_name(facts.license),
        "library_name": "transformers",
        "pipeline_tag": PIPELINES[facts.auto_class],
        "tags": ["korean", "morphemes", facts.analyzer, *(["sentence-transformers"] if facts.gives_vectors else [])],
        "model-index": [{"name": facts.name, "results": [indexed(facts, facts.results)]}] if facts.results else [],
    }
    if facts.emissions:
        trained = [cost for cost in facts.costs if cost.stage.startswith(("pretrain", "finetune"))]
        found["co2_eq_emissions"] = {
            "emissions": round(grams(facts.costs, facts.emissions), 1),
            "source": "device hours of all stages x power x grams per kWh, the last two as its maker states",
            "training_type": "fine-tuning" if facts.results else "pre-training",
            "hardware_used": "; ".join(dict.fromkeys(cost.device for cost in trained)),
        }
    return found


def indexed(facts: CardFacts, results: Results) -> dict[str, Any]:
    """An entry of `model-index`: the means, and beside each its spread and what the best control reached."""
    metrics = []
    for name, values in results.scores.items():
        beside: dict[str, Any] = {"seeds": len(values), **spread(values)}
        for control, scores in list(results.controls.items())[:1]:
            beside |= {"random_weights": control, "random_weights_mean": round(mean(scores[name]), 2)}
        metrics.append(hub_metric(name) | {"value": round(mean(values), 2), "args": beside})
    return {
        "task": {"type": PIPELINES[facts.auto_class]},
        "dataset": {"name": f"{results.name} ({results.split})", "type": results.task, "split": results.split},
        "metrics": metrics,
    }


def hub_metric(name: str) -> dict[str, str]:
    """A score as `model-index` calls it: its type on the hub, and our name where that is another."""
    kind = HUB_METRICS.get(name, name)
    return {"type": kind} if kind == name else {"type": kind, "name": name}


def results_text(results: Results | None) -> str:
    """Mean and spread over the seeds, and the controls."""
    if results is None:
        return "Held-out losses are below; this model was not fine-tuned."
    told = {"pretraining": results.scores} | {
        f"random weights ({code(name)})": scores for name, scores in results.controls.items()
    }
    rows = [
        [escaped(f"{results.name} ({results.split})"), weights, name, f"{mean(values):.2f}", *spread_of(values)]
        for weights, scores in told.items()
        for name, values in scores.items()
    ]
    parts = [table(["set", "started from", "metric", "mean", "standard deviation", "range", "seeds"], rows)]
    if results.own:
        own = ", ".join(f"{name} {value:.2f}" for name, value in results.own.items())
        parts.append(
            f"The weights in this folder are those of seed {results.seed}, the best on dev; by themselves they scored: "
            f"{own}."
        )
    if not results.controls:
        parts.append("The same network was not trained from random weights, so what pretraining added is not known.")
    return "\n\n".join(parts)


def spread_of(values: list[float]) -> list[str]:
    """Standard deviation, range and number."""
    return [*deviation_and_range(spread(values)), str(len(values))]
