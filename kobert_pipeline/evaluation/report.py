"""The results of `evaluate` as a Markdown page."""

from typing import Any

from kobert_pipeline.features.metrics import standard_error
from kobert_pipeline.finetune.prior_ablation import NETWORK, WITH_NGRAMS
from kobert_pipeline.markdown import ablation_table, class_tables, escaped, table

WRONG_LABELS = 20
"""Texts with a wrong label on the page."""
LONGEST_TEXT = 200
"""Characters of such a text on the page."""
ABLATION_NOTE = (
    "Priors are rules that add to the scores of answers and are not learned. Alone they choose among constant scores, "
    "with ties broken at random (the mean of three draws)."
)
THRESHOLD_NOTE = (
    "In the rows of the network alone and of the priors alone every question gets an answer, since the threshold for "
    "no answer was tuned on scores with priors."
)
CALIBRATION_NOTE = "Where probabilities hold, the last two columns are equal."
LARGE_MATRIX = "The confusion matrix of {classes} classes is in the JSON output (`--json`, `--out`)."
PROBABILITY = ("probability", "exact_match")
ENDS = {"too_much": "too many", "too_little": "too few"}


def markdown(results: dict[str, Any]) -> str:
    """The page of a checkpoint."""
    title = f"# {results['checkpoint']} on {results['file']}"
    return "\n\n".join([title, *sections(results)]) + "\n"


def sections(results: dict[str, Any]) -> list[str]:
    """The parts of the page below its title."""
    clean, max_length = results["clean"], results["max_length"]
    input_text = f"windows of {max_length} tokens" if max_length else "whole texts"
    parts = [
        f"Task `{results['task']['name']}`, {input_text}; {clean['examples']:,} of "
        f"{results['examples_in_file']:,} examples: {headline(results)}.{ceiling(clean)}{truncation(results)}"
        f"{sampling_error(clean) if clean['examples'] < results['examples_in_file'] else ''}"
    ]
    parts += [f"Note: {escaped(note)}." for note in results.get("notes", [])]
    if "prior_ablation" in results:
        parts += ablation_parts(results)
    if "calibration" in results:
        parts += ["## Probability of answers", CALIBRATION_NOTE, calibration_table(results["calibration"])]
    if "classification_report" in results:
        parts += ["## By class", *class_tables(results["classification_report"], LARGE_MATRIX)]
    if "subsets" in results:
        parts += ["## By kind of text", SUBSETS_NOTE, subsets_table(results["subsets"], clean)]
    if "noise" in results:
        parts += ["## Under noise", noise_note(results["noise"]), noise_table(results["noise"])]
    if "wrong_labels" in results:
        parts += ["## Predictions unlike the label", *wrong_label_parts(results["wrong_labels"], clean["examples"])]
    if "errors" in results:
        parts += ["## Where answers go wrong", *error_parts(results["errors"])]
    return parts


def ablation_parts(results: dict[str, Any]) -> list[str]:
    """What the network alone knows, and what is added to it."""
    ablation = results["prior_ablation"]
    if WITH_NGRAMS in ablation:
        return ["## With and without n-grams", ablation_table(ablation)]
    threshold = [THRESHOLD_NOTE] if results["task"].get("null_threshold") is not None else []
    return ["## With and without priors", " ".join([ABLATION_NOTE, *threshold]), ablation_table(ablation)]


def calibration_table(rows: list[dict[str, Any]]) -> str:
    """A row per interval of probability."""
    cells = [
        [f"{row['from']:g} to {row['to']:g}", f"{row['answers']:,}", *(f"{row[name]:.1f} %" for name in PROBABILITY)]
        for row in rows
    ]
    return table(["probability", "answers", "its mean", "exactly right"], cells)


def headline(results: dict[str, Any]) -> str:
    """The scores as a list, for a model with priors first the scores of the network alone."""
    scores = score_list(results["clean"]["scores"])
    if "prior_ablation" not in results:
        return scores
    added = "n-grams" if WITH_NGRAMS in results["prior_ablation"] else "its priors"
    return f"the network alone {score_list(results['prior_ablation'][NETWORK])}, with {added} {scores}"


def truncation(results: dict[str, Any]) -> str:
    """How many examples the model has read a part of."""
    clean = results["clean"]
    if "truncated" not in clean:
        return ""
    return f" Truncated to {results['max_length']} tokens: {clean['truncated']:,} of {clean['examples']:,}."


def sampling_error(clean: dict[str, Any]) -> str:
    """How far a score on a sample may be from the score on the whole file, for scores that are shares of the
    examples."""
    if (known := standard_error(clean["scores"], clean["examples"])) is None:
        return ""
    name, error = known
    return f" With so many examples the standard error of {name} is {error:.2f}."


def wrong_label_parts(rows: list[dict[str, Any]], examples: int) -> list[str]:
    """The wrong labels that the model is most sure of."""
    where = "; all are in the JSON output and, with `--out`, in a CSV file next to it" if rows[WRONG_LABELS:] else ""
    differ = f"{len(rows):,} of {examples:,} predictions differ from the label of the file."
    parts = [f"{differ} The most confident are first{where}."]
    if rows:
        names = [name for name in rows[0] if name not in ("id", "probability")]
        cells = [[*(escaped(row[name][:LONGEST_TEXT]) for name in names), f"{row['probability']:.4f}"] for row in rows]
        parts.append(table([*names, "probability"], cells[:WRONG_LABELS]))
    return parts


SUBSETS_NOTE = "No noise is added. A text may be of several kinds."


def subsets_table(subsets: list[dict[str, Any]], clean: dict[str, Any]) -> str:
    """A row per kind of text."""
    names = list(clean["scores"])
    rows = [
        [row["name"], f"{row['examples']:,}", *(f"{row['scores'][name]:.2f}" for name in names)]
        for row in (*subsets, {"name": "all", **clean})
    ]
    return table(["texts with", "examples", *names], rows)


def noise_note(noise: dict[str, Any]) -> str:
    """What the columns of the noise table mean."""
    note = (
        f"{noise['examples']:,} examples, noise in {' and '.join(noise['in'])}, seed {noise['seed']}. In brackets the "
        "difference from the same examples without noise. Rates are per white-space character (dropped), per gap "
        "between two letters (inserted), per syllable (keys), per final consonant that has others of its sound "
        "(mistaken)."
    )
    first = noise["conditions"][0]
    if "scores_against_original" in first:
        note += (
            " The first scores compare with the answer in the noisy text, the second (original) with the answer before "
            "noise"
        )
        if "ceiling_exact_match" in first:
            note += f"; 'best EM' is what the tokens of the noisy text allow{of_answerable(noise | first)}"
        note += "."
    return note


EXTRA_COLUMNS = {
    "answers_changed": "answers changed",
    "predictions_changed": "predictions changed",
    "ceiling_exact_match": "best EM",
}


def noise_table(noise: dict[str, Any]) -> str:
    """A row per noise condition, the clean scores first."""
    names = list(noise["clean"])
    with_original = any("scores_against_original" in row for row in noise["conditions"])
    original_names = names if with_original else []
    extra = {key: title for key, title in EXTRA_COLUMNS.items() if any(key in row for row in noise["conditions"])}
    header = ["noise", "rate", "examples changed", *names, *(f"{name}, original" for name in original_names)]
    clean = ["none", "", "", *(f"{noise['clean'][name]:.2f}" for name in names)]
    rows = [[*clean, *[""] * (len(original_names) + len(extra))]]
    for row in noise["conditions"]:
        scores = [f"{row['scores'][name]:.2f} ({row['scores'][name] - noise['clean'][name]:+.2f})" for name in names]
        original = [f"{row['scores_against_original'][name]:.2f}" for name in original_names]
        rate = "all" if row["kind"] == "spaces-removed" else f"{row['rate']:g}"
        more = [f"{row[key]:.1f} %" for key in extra]
        rows.append([row["kind"], rate, f"{row['changed']:.1f} %", *scores, *original, *more])
    return table([*header, *extra.values()], rows)


def error_parts(errors: dict[str, Any]) -> list[str]:
    """The categories of wrong answers, the ends of almost right ones, and samples."""
    rows = []
    for category in errors["categories"]:
        shares = [f"{category['percent_of_errors']:.2f} %", f"{category['percent_of_questions']:.2f} %"]
        row = [category["name"], category["meaning"], f"{category['count']:,}", *shares, f"{category['f1']:.1f}"]
        rows.append(row)
    parts = [
        f"{errors['wrong']:,} of {errors['questions']:,} questions have an exact match of 0. Each is in the first "
        "category that applies.",
        table(["category", "what", "questions", "of the errors", "of all", "mean F1"], rows),
    ]
    for name, amount in ENDS.items():
        ends = errors["ends"][name]
        for side in ("after", "before"):
            if ends[side]:
                listed = ", ".join(f"{text} {count}" for text, count in ends[side].items())
                by = f" (by a particle alone: {ends['by_a_particle']:,})" if side == "after" else ""
                parts.append(f"A few characters {amount} {side} the answer{by}: {listed}.")
    for name, rows_of_name in errors["samples"].items():
        parts += [f"### {name}", "\n".join(map(sample_item, rows_of_name))] if rows_of_name else []
    return parts


def sample_item(sample: dict[str, str]) -> str:
    """One wrong answer as a list item."""
    answer = f"`{sample['answered_in']}`" if "answer" in sample else "none"
    prediction = f"`{sample['predicted_in']}`" if "predicted_in" in sample else "nothing"
    return f"- {sample['question']} ({sample['id']})\n  - answer: {answer}\n  - given: {prediction}"


def ceiling(clean: dict[str, Any]) -> str:
    """The best exact match that the tokens allow, where it is known."""
    if "ceiling_exact_match" not in clean:
        return ""
    return f" The tokens allow an exact match of {clean['ceiling_exact_match']:.2f} at best{of_answerable(clean)}."


def of_answerable(counts: dict[str, Any]) -> str:
    """What the best exact match is a share of, where some questions have no answer."""
    all_answerable = counts.get("examples_with_answer", counts["examples"]) >= counts["examples"]
    return "" if all_answerable else " of the questions with an answer"


def score_list(scores: dict[str, float]) -> str:
    """Scores as a list in a sentence."""
    return ", ".join(f"{name} **{value:.2f}**" for name, value in scores.items())
