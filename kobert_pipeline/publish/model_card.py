"""The model card: how to load the model, how it was trained, its scores, data, cost and limits. Every number comes from
the run's manifests."""

import re
from typing import TYPE_CHECKING, Any

from kobert_pipeline.features.metrics import mean, spread
from kobert_pipeline.finetune.prior_ablation import WHOLE
from kobert_pipeline.markdown import code, escaped, front_matter, paragraphs, table
from kobert_pipeline.publish.card_facts import CardFacts, Results, RoundingCost
from kobert_pipeline.publish.card_results import ngrams_text, noise_text, results_text, rules_text, thresholds_text
from kobert_pipeline.publish.licences import hub_name, link, split_names, without_known_licence
from kobert_pipeline.publish.snippets import ONNX, PAIRED, SEVERAL_LABELS, USES, VECTORS, span_example, with_example
from kobert_pipeline.tokenizer.loading import has_morphemes

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

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
    "auprc": "average_precision", "macro_f1": "f1", "micro_f1": "f1", "subset_accuracy": "accuracy",
    "mcc": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr",
    "entity_f1": "f1", "entity_precision": "precision", "entity_recall": "recall", "entity_macro_f1": "f1",
    "character_macro_f1": "f1", "character_macro_f1_with_o": "f1",
    "klue_exact_match": "exact_match", "rouge_w": "rouge",
    "HasAns_exact": "exact_match", "HasAns_f1": "f1", "NoAns_exact": "exact_match", "NoAns_f1": "f1",
}  # fmt: skip
"""{our metric: its name on the Hub}, where they differ."""


def auto_class_of(config: dict[str, Any]) -> str:
    """The Auto class of `transformers` for the head of a pretrained model, from its config."""
    architecture = config["architectures"][0]
    # a discriminator cannot fill masks, although its class has the suffix of models that can
    if architecture == "ElectraForPreTraining":
        return "AutoModel"
    suffixes = {
        "ForPreTraining": "AutoModelForPreTraining",
        "ForMaskedLM": "AutoModelForMaskedLM",
        "LMHeadModel": "AutoModelForCausalLM",
    }
    return next(auto for suffix, auto in suffixes.items() if architecture.endswith(suffix))


def model_card(facts: CardFacts) -> str:
    """The card as Markdown with YAML metadata."""
    use = [tokenizer_text(facts), f"```python\n{snippet(facts)}\n```", *encoder_alone(facts), *other_ways(facts)]
    return card_text(facts, metadata(facts), use)


def card_text(facts: CardFacts, fields: dict[str, Any], use: list[str]) -> str:
    """The card of a model with metadata `fields`; `use` are the paragraphs that say how to load it."""
    parts = [
        front_matter(fields),
        f"# {escaped(facts.name)}",
        paragraphs(facts.description),
        *use,
        "## Results",
        results_text(facts.results, is_rounded=facts.bfloat16_cost is not None),
        *ngrams_text(facts),
        *rules_text(facts),
        *thresholds_text(facts),
        *noise_text(facts),
        "## How it was made",
        f"Recipe {code(facts.recipe)} of kobert-pipeline{versions_text(facts.versions)}; options and counts of every "
        "stage are in `training_manifest.json`.",
        table(["quantity", "value"], [[escaped(name), escaped(value)] for name, value in facts.counts.items()]),
        *([f"How options were chosen: {paragraphs(facts.selection)}"] if facts.selection else []),
        "## Data",
        *data_text(facts),
        "## Cost",
        *cost_text(facts),
        "## Intended use and limits",
        *limits_text(facts),
        "## Licence and citation",
        *citation_text(facts),
    ]
    return "\n\n".join(parts) + "\n"


def snippet(facts: CardFacts) -> str:
    """The Python example for the model's head."""
    text = PAIRED if facts.paired else USES[facts.auto_class]
    if facts.results and facts.results.task == "multilabel":
        text = SEVERAL_LABELS
    if facts.auto_class == "AutoModelForQuestionAnswering":
        # as `SpanTask` does, which ignores the option where words are eojeols
        ignored = {} if has_morphemes(facts.analyzer, facts.style) else {"whole_words": False}
        text = span_example(facts.inference_options | ignored)
    return with_example(loading(facts, text), facts.example)


def loading(facts: CardFacts, code_example: str) -> str:
    """A Python example, without the flag that lets a tokenizer run code where the folder's own has none."""
    needs_code = facts.analyzer and not facts.plain_is_own
    return code_example if needs_code else code_example.replace(", trust_remote_code=True", "")


def model_choice(facts: CardFacts) -> str:
    """On what data the published weights were chosen, and how often the final evaluation's was read."""
    results = facts.results
    if results is None:
        return "The held-out loss above is on documents excluded from training; the weights are those of the last step."
    read = results.title if results.dataset else "the test set"
    if results.split != "test":
        return "The models were picked on a dev split; no test set was read."
    again = "; this model was measured on it again afterwards, to report" * facts.measured_again
    return f"The models were picked on a dev split, and {escaped(read)} was read once per run, at its end{again}."


def other_ways(facts: CardFacts) -> list[str]:
    """What other forms of the model the folder has, with examples: weights of fewer bits, `sentence-transformers`, ONNX
    Runtime."""
    parts = []
    if facts.bfloat16_cost is not None:
        parts.append(
            "The weights are stored in bfloat16 and computed in float32. "
            + cost_of_rounding(facts.bfloat16_cost, "those of the trained weights", bool(facts.ngrams_weights))
        )
    if facts.gives_vectors:
        parts += [
            "As text embeddings: the last hidden states, averaged over all tokens except padding. The model was not "
            "trained to compare texts, so fine-tune it before you rely on distances."
            if facts.results is None
            else "As text embeddings, pooled as in training; compare them by their cosine.",
            f"```python\n{loading(facts, VECTORS)}\n```",
        ]
    if facts.onnx_difference is not None:
        parts += [
            "Without torch: `onnx/model.onnx` accepts batches of any size, and texts as long as the model does; its "
            f"outputs differ from torch's by {facts.onnx_difference:.1e} at most (float32, checked when it was made).",
            f"```python\n{loading(facts, ONNX)}\n```",
        ]
    if facts.int8_cost is not None:
        parts.append(
            "`onnx/model_quantized.onnx` is the same in int8 (dynamic quantization): smaller and faster on a CPU. Its "
            "outputs depend a little on which texts are in a batch together. "
            + cost_of_rounding(facts.int8_cost, "torch's", bool(facts.ngrams_weights))
        )
    return parts


def encoder_alone(facts: CardFacts) -> list[str]:
    """What an example leaves out that does not compute the n-grams of the model."""
    if not facts.ngrams_weights:
        return []
    return [
        "**This is the encoder alone.** The scores below are of encoder and n-grams together, as `kobert predict` and "
        "`kobert serve` compute them."
    ]


def cost_of_rounding(cost: RoundingCost, others: str, is_alone: bool = False) -> str:
    """How far a rounded model is from the exact one, whose predictions are called `others`; `is_alone`: an encoder
    without its n-grams."""
    if cost.cosine:
        mean_cosine, least = cost.cosine
        return (
            f"The vectors of {cost.texts:,} held-out texts have a cosine of {mean_cosine:.4f} with {others} on "
            f"average, {least:.4f} at least."
        )
    exact, rounded = cost.scores
    differ = "" if cost.different is None else f"{cost.different:,} predictions differ from {others}, and "
    alone = ", by the encoder alone," if is_alone else ""
    return (
        f"On the {cost.texts:,} examples of dev{alone} {differ}{cost.metric} is {rounded:.2f} instead of {exact:.2f}."
    )


OUT_OF_SCOPE = {
    "AutoModelForQuestionAnswering": "Answers are passages of the given text, not checked facts, and a question that "
    "the text does not answer may get one all the same, so show an answer with its text.",
    "AutoModelForSequenceClassification": "It has learned the texts and labels of its data alone: measure it before "
    "you use it on texts of another kind, and do not decide about people with it.",
}
"""{class: what a model with such a head is not for}."""


def limits_text(facts: CardFacts) -> list[str]:
    """What the model is for, what it is not for, and on what data its weights were chosen."""
    scope = OUT_OF_SCOPE.get(facts.auto_class, "It was not measured on anything but what is above.")
    return [
        "For Korean text and research. The model repeats what its data says, prejudice included; check it on your own "
        f"data. {model_choice(facts)}",
        f"Out of scope: other languages; decisions that nobody checks. {scope}",
    ]


def versions_text(versions: dict[str, str]) -> str:
    """The version and commit of this package and of the libraries that trained the model, in brackets."""
    named = [f"{name} {version}" for name, version in versions.items()]
    return f" ({escaped(', '.join(named))})" if named else ""


def citation_text(facts: CardFacts) -> list[str]:
    """Under which licence weights and code are, and an entry to cite the model by."""
    licence = licence_cell(facts.license)
    by = f" by {escaped(facts.author)}" if facts.author else ""
    version = facts.versions.get("kobert-pipeline", "")
    note = " ".join(filter(None, ["Made with kobert-pipeline", version, f"(recipe {facts.recipe})"]))
    entry = {"title": facts.name, "author": facts.author, "year": facts.year, "note": note}
    lines = [f"  {key} = {{{bibtex(value)}}}," for key, value in entry.items() if value]
    return [
        f"The weights are published{by} under {licence}. The Python files in {code_place(facts)}, which are a "
        "tokenizer, are part of kobert-pipeline and under Apache-2.0 (`LICENSE` beside them)."
        if facts.analyzer
        else f"The weights are published{by} under {licence}.",
        "\n".join(["```bibtex", f"@misc{{{re.sub('[^A-Za-z0-9]', '', facts.name) or 'model'},", *lines, "}", "```"]),
    ]


def bibtex(value: str) -> str:
    """A value in one line, without what would end it, and with what LaTeX reads as a command escaped."""
    return re.sub(r"[&%$#_]", r"\\\g<0>", " ".join(re.sub(r"[{}`\\~^]", "", value).split()))


def licence_cell(names: str) -> str:
    """A licence, or several that all apply, each linked to its text where the text has an address."""
    addresses = {name: link(name) for name in split_names(names)}
    if not any(addresses.values()):
        return escaped(names)
    return " / ".join(f"[{escaped(name)}]({to})" if to else escaped(name) for name, to in addresses.items())


def data_text(facts: CardFacts) -> list[str]:
    """The files with their licences and authors, a warning where a licence is not known, and the permission."""
    files = facts.sources + facts.evaluated
    rows = [
        [escaped(row["path"]), escaped(row.get("dataset", "")), licence_cell(row["license"]), escaped(row["use"])]
        for row in files
    ]
    parts = [table(["file", "data set", "licence", "used to"], rows)]
    credits = dict.fromkeys((row["dataset"], row["attribution"]) for row in files if row.get("attribution"))
    if credits:
        parts.append("\n".join(f"- {escaped(dataset)}: {paragraphs(credit)}." for dataset, credit in credits))
    if without_known_licence(facts.sources):
        parts.append(
            "Where no licence is stated, or one that kobert-pipeline does not know, find out what it allows before you "
            "pass the model on."
        )
    if facts.permission:
        parts.append(f"Why it may be published, in its publisher's words: {paragraphs(facts.permission)}")
    return parts


def cost_text(facts: CardFacts) -> list[str]:
    """Device hours by stage."""
    rows = [[escaped(cost.stage), f"{cost.hours:.3f}", escaped(cost.device)] for cost in facts.costs]
    return [table(["stage", "device hours", "on"], rows)] if rows else ["Not recorded."]


def tokenizer_text(facts: CardFacts) -> str:
    """Which analyzer the tokenizer uses, what it requires, and the tokenizer without it."""
    begun = ""
    if facts.base:
        how = "Further pretrained" if any(row["use"].startswith("pretrain") for row in facts.sources) else "Fine-tuned"
        begun = f"{how} from {code(facts.base)}, with that checkpoint's own tokenizer"
        if not facts.analyzer:
            return f"{begun}: it loads with plain `transformers`, and no analyzer is needed."
        begun += ". "
    library = f"`pip install {facts.library}` and " if facts.library else ""
    analyzed = f"The analyzer {facts.analyzer} (style `{facts.style}`) segments the text"
    if facts.plain_is_own:
        return begun + own_plain_text(facts, library)
    text = (
        f"{begun}{analyzed}, so the tokenizer needs {library}`trust_remote_code=True`; without the flag it does not "
        "load at all, rather than as another tokenizer."
    )
    return text + (plain_text(facts) if facts.plain else "")


def code_place(facts: CardFacts) -> str:
    """Where the tokenizer with the analyzer is."""
    return code(f"{facts.analyzer}/") if facts.plain_is_own else "this folder"


def own_plain_text(facts: CardFacts, library: str) -> str:
    """The tokenizer without an analyzer, which is the folder's own, and the one with it beside."""
    agreement = (
        "" if facts.plain_agreement is None
        else f" It gives the same tokens for {facts.plain_agreement:.1%} of the eojeols of a sample of the corpus."
    )  # fmt: skip
    return (
        "The tokenizer needs no analyzer and no code: it splits the text into eojeols and punctuation marks, and those "
        f"into subwords. {facts.plain_share:.0%} of the training examples were tokenized so, and all results below are "
        f"with it. The other examples were segmented by the analyzer {facts.analyzer} (style `{facts.style}`), whose "
        f"tokenizer is in {code_place(facts)}: `kobert predict FOLDER TEXT --tokenizer {facts.analyzer}`, or in Python "
        f'{library}`AutoTokenizer.from_pretrained("FOLDER/{facts.analyzer}", trust_remote_code=True)`.{agreement}'
    )


def plain_text(facts: CardFacts) -> str:
    """How the tokenizer in `plain/` differs, on whose tokens the model was not trained."""
    begun = " `plain/` has the same vocabulary as a tokenizer that needs neither: it gives"
    if facts.plain_agreement is None:  # made from a checkpoint: nobody knows what that one was trained on
        return (
            f"{begun} other tokens where subwords alone do not find the morphemes, on which the model was not "
            "fine-tuned."
        )
    return (
        f"{begun} the same tokens for {facts.plain_agreement:.1%} of the eojeols of a sample of the corpus. "
        "The model was not trained on the tokens that it gives for the others."
    )


def metadata(facts: CardFacts) -> dict[str, Any]:
    """The YAML metadata, with the scores as `model-index`."""
    from huggingface_hub import ModelCardData

    licence = hub_name(facts.license)
    data = ModelCardData(
        language="ko",
        license=licence["license"],
        license_name=licence.get("license_name"),
        library_name="transformers",
        base_model=facts.base_model,
        pipeline_tag=PIPELINES[facts.auto_class],
        tags=[
            "korean",
            *(["morphemes", facts.analyzer] if facts.analyzer else []),
            *(["sentence-transformers"] if facts.gives_vectors else []),
        ],
        datasets=list(dict.fromkeys(row["dataset_id"] for row in facts.sources if row.get("dataset_id"))) or None,
        model_name=facts.name,
        eval_results=eval_results(facts, facts.results) if facts.results else None,
        **widget(facts),
    )
    fields: dict[str, Any] = data.to_dict()
    return fields


def widget(facts: CardFacts) -> dict[str, Any]:
    """The text that the Hub's page of the model offers to try, for models of single texts."""
    single = facts.auto_class in ("AutoModelForSequenceClassification", "AutoModelForTokenClassification")
    return {"widget": [{"text": facts.example["text"]}]} if single and not facts.paired and facts.example else {}


def eval_results(facts: CardFacts, results: Results) -> list["EvalResult"]:
    """One result per metric, for a task with priors also of the network and of the priors alone: the mean over the
    seeds, and in its `args` the spread, the score of the published weights and the mean of the best control."""
    from huggingface_hub import EvalResult

    rows = []
    # with priors the first score is what the network has learned, and the last needs no network at all
    parts = results.ablation or {"": results.scores}
    for part, name, values in (
        (part, name, values) for part, scores in parts.items() for name, values in scores.items()
    ):
        details: dict[str, Any] = {"seeds": len(values), **spread(values)}
        of_seed = results.seed_ablation.get(part, {}) if part else results.seed_scores
        if len(values) > 1 and name in of_seed:
            details["these_weights"] = round(of_seed[name], 2)
        for control, scores in list(results.controls.items())[:1] if part in ("", *WHOLE) else ():
            details |= {"random_weights": control, "random_weights_mean": round(mean(scores[name]), 2)}
        kind = HUB_METRICS.get(name, name)
        metric_name = " ".join(
            filter(None, [name if part or kind != name else "", part and f"({part.replace('_', ' ')})"])
        )
        rows.append(
            EvalResult(
                task_type=PIPELINES[facts.auto_class],
                dataset_type=results.dataset_id or results.task,
                dataset_name=results.title,
                dataset_split=results.dataset_split or results.split,
                metric_type=kind,
                metric_name=metric_name or None,
                metric_value=round(mean(values), 2),
                metric_args=details,
            )
        )
    return rows
