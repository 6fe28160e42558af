"""The section Results of a model card: scores with their spread, controls, and what the scores are worth."""

from kobert_pipeline.markdown import class_tables, code, deviation_and_range, escaped, mean, spread, table
from kobert_pipeline.publish.card_facts import CardFacts, Results

LARGE_MATRIX = "The confusion matrix of {classes} classes is in `training_manifest.json`."


def results_text(results: Results | None) -> str:
    """The table of means and spreads over the seeds, controls included."""
    if results is None:
        return "Held-out losses are below; this model was not fine-tuned."
    by_start = {"from scratch" if results.from_scratch else "pretrained": results.scores}
    by_start |= {f"from scratch ({code(name)})": scores for name, scores in results.controls.items()}
    rows = [
        [escaped(f"{results.name} ({results.split})"), start, name, f"{mean(values):.2f}", *spread_cells(values)]
        for start, scores in by_start.items()
        for name, values in scores.items()
    ]
    parts = [table(["set", "initial weights", "metric", "mean", "standard deviation", "range", "seeds"], rows)]
    if results.own:
        own = ", ".join(f"{name} {value:.2f}" for name, value in results.own.items())
        parts.append(
            f"The weights in this folder are those of seed {results.seed}, the best on dev; their own scores: {own}."
        )
    if results.made_for_dev and results.split == "dev":
        parts.append(
            f"{results.made_for_dev:,} examples of this dev set were made from the corpus by rules, so the scores do "
            "not say how well the model does on examples by people."
        )
    if results.class_report:
        by_class = class_tables(results.class_report, LARGE_MATRIX)
        parts += [f"By class, seed {results.seed} on {results.split}:", *by_class]
    if not results.controls and not results.from_scratch:
        parts.append("The same network was not trained from scratch, so what pretraining added is not known.")
    return "\n\n".join(parts)


def rules_text(facts: CardFacts) -> list[str]:
    """Which rules without any weights take part in the predictions, and so in the scores."""
    bonuses = {name: value for name, value in facts.inference_options.items() if name.endswith("_bonus") and value}
    if not bonuses or facts.results is None:
        return []
    given = ", ".join(f"`{name}` {value:g}" for name, value in bonuses.items())
    without = " ".join(f"--set {name}=0" for name in bonuses)
    return [
        f"The scores include what rules add to the scores of answers ({given} of the config), which is not learned; "
        f"`kobert evaluate` with `{without}` measures the network alone."
    ]


def spread_cells(values: list[float]) -> list[str]:
    """Standard deviation, range and number of seeds."""
    return [*deviation_and_range(spread(values)), str(len(values))]
