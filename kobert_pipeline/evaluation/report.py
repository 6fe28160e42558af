"""The figures of `measured` as a page."""

from typing import Any

from kobert_pipeline.markdown import table

ENDS = {"too_much": "too much", "too_little": "too little"}


def markdown(found: dict[str, Any]) -> str:
    """The page of a checkpoint."""
    title = f"# {found['checkpoint']} on {found['file']}"
    return "\n\n".join([title, *sections(found)]) + "\n"


def sections(found: dict[str, Any]) -> list[str]:
    """The parts of the page below its title."""
    clean = found["clean"]
    parts = [
        f"Task `{found['task']['name']}`, windows of {found['max_length']} tokens; {clean['examples']:,} of "
        f"{found['examples_in_file']:,} "
        f"examples: {told(clean['scores'])}.{ceiling(clean)}"
    ]
    if "subsets" in found:
        parts += ["## By kind of text", SUBSETS_NOTE, subsets_table(found["subsets"], clean)]
    if "noise" in found:
        parts += ["## Under noise", noise_note(found["noise"]), noise_table(found["noise"])]
    if "errors" in found:
        parts += ["## Where answers go wrong", *error_parts(found["errors"])]
    return parts


SUBSETS_NOTE = "No noise is added. A text may be of several kinds."


def subsets_table(subsets: list[dict[str, Any]], clean: dict[str, Any]) -> str:
    """A row per kind of text."""
    names = list(clean["scores"])
    rows = [[one["name"], f"{one['examples']:,}", *(f"{one['scores'][name]:.2f}" for name in names)] for one in subsets]
    return table(
        ["texts with", "examples", *names],
        [*rows, ["all", f"{clean['examples']:,}", *(f"{clean['scores'][n]:.2f}" for n in names)]],
    )


def noise_note(noise: dict[str, Any]) -> str:
    """What the table of noise holds."""
    note = (
        f"{noise['examples']:,} examples, noise in {' and '.join(noise['in'])}, seed {noise['seed']}. In brackets the "
        "difference to the "
        "same examples without noise. Rates are per white space (dropped), per gap between two letters (inserted), per "
        "syllable (keys), "
        "per final consonant that has others of its sound (mistaken)."
    )
    first = noise["conditions"][0]
    if "scores_against_original" in first:
        note += " The first scores compare with the answer as it stands in the noisy text, the second (original) with the answer as it was"
        best = f"; 'best EM' is what the tokens of the noisy text allow{of_those(noise | first)}"
        note += f"{best if 'ceiling_exact_match' in first else ''}."
    return note


def noise_table(noise: dict[str, Any]) -> str:
    """A row per noise, the clean one first."""
    names = list(noise["clean"])
    against = any("scores_against_original" in row for row in noise["conditions"])
    more = {
        "answers_changed": "answers changed",
        "predictions_changed": "predictions changed",
        "ceiling_exact_match": "best EM",
    }
    more = {key: name for key, name in more.items() if any(key in row for row in noise["conditions"])}
    header = [
        "noise",
        "rate",
        "examples changed",
        *names,
        *(f"{name}, original" for name in names if against),
        *more.values(),
    ]
    blank = len(header) - 3 - len(names)
    rows = [["none", "", "", *(f"{noise['clean'][name]:.2f}" for name in names), *[""] * blank]]
    for row in noise["conditions"]:
        scores = [f"{row['scores'][name]:.2f} ({row['scores'][name] - noise['clean'][name]:+.2f})" for name in names]
        original = [f"{row['scores_against_original'][name]:.2f}" for name in names] if against else []
        rate = "all" if row["kind"] == "spaces-removed" else f"{row['rate']:g}"
        rows.append(
            [row["kind"], rate, f"{row['changed']:.1f} %", *scores, *original, *(f"{row[key]:.1f} %" for key in more)]
        )
    return table(header, rows)


def error_parts(errors: dict[str, Any], samples: bool = True) -> list[str]:
    """Categories, ends, and examples."""
    rows = []
    for one in errors["categories"]:
        shares = [f"{one['percent_of_errors']:.2f} %", f"{one['percent_of_questions']:.2f} %"]
        rows.append([one["name"], one["meaning"], f"{one['count']:,}", *shares, f"{one['f1']:.1f}"])
    parts = [
        f"{errors['wrong']:,} of {errors['questions']:,} questions have an exact match of 0. Each is in the first "
        "category that holds.",
        table(["category", "what", "questions", "of the errors", "of all", "mean F1"], rows),
    ]
    for name, word in ENDS.items():
        ends = errors["ends"][name]
        for side in ("behind", "before"):
            if ends[side]:
                listed = ", ".join(f"{text} {count}" for text, count in ends[side].items())
                by = f" (by a particle alone: {ends['by_a_particle']:,})" if side == "behind" else ""
                parts.append(f"A few characters {word} {side} the answer{by}: {listed}.")
    if samples:
        for name, shown in errors["samples"].items():
            parts += [f"### {name}", "\n".join(map(sample, shown))] if shown else []
    return parts


def sample(shown: dict[str, str]) -> str:
    """One wrong answer."""
    answer = f"`{shown['answered_in']}`" if "answer" in shown else "none"
    given = f"`{shown['predicted_in']}`" if "predicted_in" in shown else "nothing"
    return f"- {shown['question']} ({shown['id']})\n  - answer: {answer}\n  - given: {given}"


def ceiling(clean: dict[str, Any]) -> str:
    """The best EM, where there is one."""
    if "ceiling_exact_match" not in clean:
        return ""
    return f" The tokens allow an exact match of {clean['ceiling_exact_match']:.2f} at best{of_those(clean)}."


def of_those(counts: dict[str, Any]) -> str:
    """What a best EM is of, where some questions have no answer."""
    return (
        " of the questions with an answer"
        if counts.get("examples_with_answer", counts["examples"]) < counts["examples"]
        else ""
    )


def told(scores: dict[str, float]) -> str:
    """Scores in a sentence."""
    return ", ".join(f"{name} **{value:.2f}**" for name, value in scores.items())
