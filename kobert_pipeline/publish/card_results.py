"""The section Results of a model card: scores with their spread, controls, and what the scores are worth."""

from collections.abc import Iterator

from kobert_pipeline.features.metrics import mean, spread, standard_error
from kobert_pipeline.finetune.prior_ablation import PRIORS, WHOLE
from kobert_pipeline.markdown import class_tables, code, escaped, table
from kobert_pipeline.publish.card_facts import NO_NETWORK, CardFacts, Results, Scores

LARGE_MATRIX = "The confusion matrix of {classes} classes is in `training_manifest.json`."


def results_text(results: Results | None, is_rounded: bool = False) -> str:
    """The table of means and spreads over the seeds, controls included, and what must be known to read it."""
    if results is None:
        return "Held-out losses are below; this model was not fine-tuned."
    rows = [
        [escaped(results.title), start, name, f"{mean(values):.2f}", *spread_cells(values)]
        for start, scores in scores_by_start(results)
        for name, values in scores.items()
    ]
    parts = [table(["set", "initial weights", "metric", "mean", "standard deviation", "range", "seeds"], rows)]
    parts += [" ".join([*sampling_errors(results), *own_scores(results)])]
    if results.made_for_dev and results.split == "dev":
        parts.append(
            f"{results.made_for_dev:,} examples of this dev set were made from the corpus by rules, so the scores do "
            "not say how well the model does on examples by people."
        )
    if results.class_report:
        by_class = class_tables(results.class_report, LARGE_MATRIX)
        as_trained = ", with the weights as trained" * is_rounded
        of_seed = f"By class, seed {results.seed}{with_part(results)} on {escaped(results.title)}"
        parts += [f"{of_seed}{as_trained}:", *by_class]
    if not results.controls and not results.from_scratch and results.initial_weights != NO_NETWORK:
        added = "pretraining" if results.initial_weights == "pretrained" else f"the {results.initial_weights}"
        parts.append(f"The same network was not trained from scratch, so what {added} added is not known.")
    return "\n\n".join(part for part in parts if part)


def scores_by_start(results: Results) -> Iterator[tuple[str, Scores]]:
    """(initial weights, scores) of each row of the table. With priors the network alone is first: what was learned."""
    start = "from scratch" if results.from_scratch else results.initial_weights
    for part, scores in (results.ablation or {"": results.scores}).items():
        yield (
            ("no network" if part == PRIORS else start) + (f", {part.replace('_', ' ')}" if part else ""),
            scores,
        )
    for name, scores in results.controls.items():
        yield f"from scratch ({code(name)}){with_part(results)}", scores
    for name, scores in results.baselines.items():
        yield f"no network: linear over n-grams ({code(name)})", scores


def with_part(results: Results) -> str:
    """What the whole model consists of besides the network, after a comma; "" of a network alone."""
    whole = next((part for part in results.ablation if part in WHOLE), "")
    return f", {whole.replace('_', ' ')}" if whole else ""


def sampling_errors(results: Results) -> list[str]:
    """How far a score may be from the score on all texts of the kind, since the set is only a sample of them."""
    # with priors, of the first row of the table
    scores = next(iter(results.ablation.values()), results.scores)
    means = {name: mean(values) for name, values in scores.items()}
    if not results.examples or (known := standard_error(means, results.examples)) is None:
        return []
    name, error = known
    of_what = f"the first row's {name}" if results.ablation else name
    return [f"With {results.examples:,} examples the sampling error (one standard error) of {of_what} is {error:.2f}."]


def own_scores(results: Results) -> list[str]:
    """The scores of the seed whose weights the folder holds."""
    if not results.seed_scores:
        return []
    published = f"The weights in this folder are those of seed {results.seed}"
    if len(next(iter(results.scores.values()))) == 1:
        return [f"{published}."]  # whose scores the table shows
    by_part = results.seed_ablation or {"": results.seed_scores}
    listed = "; ".join(
        f"{part.replace('_', ' ')} " * bool(part) + ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        for part, scores in by_part.items()
    )
    return [f"{published}, the best on dev; their own scores: {listed}."]


def ngrams_text(facts: CardFacts) -> list[str]:
    """Who computes the n-grams that are a part of the model."""
    if not facts.ngrams_weights:
        return []
    encoder, ngrams = facts.ngrams_weights
    return [
        "The model is an encoder and a linear classifier over n-grams of jamo (`ngrams/`) that was trained on the same "
        f"texts. kobert-pipeline adds the logarithms of their probabilities with the weights {encoder:g} and "
        f"{ngrams:g}, chosen on dev. `transformers`, ONNX Runtime and other programs compute the encoder alone."
    ]


def rules_text(facts: CardFacts) -> list[str]:
    """Which rules without any weights take part in the predictions, and so in the scores."""
    priors = facts.inference_options.get("answer_priors")
    if not priors or facts.results is None:
        return []
    listed = ", ".join(f"{name} {value:g}" for name, value in priors.items())
    text = (
        f"The model answers with priors (`answer_priors` of the config: {listed}): rules that add to the scores of "
        "answers and are not learned. "
    )
    if facts.results.ablation:
        text += "Priors alone choose among constant scores, ties broken at random (the mean of three draws)."
        if "null_threshold" in facts.inference_options:
            text += (
                " Without priors, and by priors alone, every question gets an answer, since the threshold for no "
                "answer was tuned on scores with priors."
            )
        if facts.results.ablation_as_stored:
            text += " These scores are of the weights as stored."
    else:
        text += "`kobert evaluate` measures the network alone, with its priors, and the priors alone."
    return [text]


def thresholds_text(facts: CardFacts) -> list[str]:
    """The sentence about the probability from which on a text has a label, for models of several labels."""
    thresholds = facts.inference_options.get("thresholds")
    if thresholds is None:
        return []
    how = "A text has every label whose probability is at least its threshold (`thresholds` of the config"
    if not isinstance(thresholds, dict):
        return [f"{how}): {thresholds:g} for all."]
    listed = ", ".join(f"{escaped(label)} {value:.3f}" for label, value in thresholds.items())
    return [f"{how}, the one with the best F1 on dev): {listed}."]


def noise_text(facts: CardFacts) -> list[str]:
    """The section with the scores under missing spaces and typing errors, which users' texts have."""
    if not facts.noise:
        return []
    names = list(facts.noise["clean"])
    rows = [["none", "", *(f"{facts.noise['clean'][name]:.2f}" for name in names)]]
    rows += [
        [row["kind"], f"{row['rate']:g}", *(f"{row['scores'][name]:.2f}" for name in names)]
        for row in facts.noise["conditions"]
    ]
    return [
        "## Measured weaknesses",
        f"{facts.noise['examples']:,} examples of {escaped(facts.noise['of'])}, with noise in "
        f"{' and '.join(facts.noise['in'])} (`kobert evaluate --noise`; a rate is a share of the places where an error "
        "may be):",
        table(["noise", "rate", *names], rows),
    ]


def spread_cells(values: list[float]) -> list[str]:
    """Standard deviation, range and number of seeds."""
    numbers = spread(values)
    deviation = f"{numbers['standard_deviation']:.2f}" if "standard_deviation" in numbers else "-"
    return [deviation, f"{numbers['min']:.2f} to {numbers['max']:.2f}", str(len(values))]
