"""The figures of a checkpoint on a labelled file: clean, by kind of text, under noise, and where its answers go
wrong."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation import error_analysis, noisy, subsets
from kobert_pipeline.evaluation.noise import Noise
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.files import sha256
from kobert_pipeline.finetune.model import Predicted
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.predict import predict_examples

Say = Callable[[str], None]


def evaluate(
    checkpoint: Checkpoint,
    file: Path,
    noises: list[Noise],
    names: list[str],
    explain: bool,
    limit: int | None = None,
    noise_limit: int | None = None,
    say: Say = lambda line: print(line, file=sys.stderr),
) -> dict[str, Any]:
    """The figures, as JSON values. `names` are the texts that take noise (none: all); `explain` adds the analysis of
    errors; `limit` and `noise_limit` say how many examples are measured, and how many of these under noise, a choice by
    their contents that is always the same.

    Raises UserError for a file or wish that does not fit the task.
    """
    task = checkpoint.task
    takers = noisy.fields(task, names) if noises or names else ()
    if explain and not isinstance(task, SpanTask):
        raise UserError(
            f"errors are analysed of tasks that answer questions by spans of a text; {task.name} is none, leave "
            "--errors out"
        )
    every = examples_of(task, file)
    examples = sample(every, limit)
    clean = predict_examples(checkpoint, examples)
    say(f"clean  {len(examples)} examples  {format_scores(clean.scores)}")
    found: dict[str, Any] = {
        "task": task.dump(),
        "max_length": checkpoint.max_length,
        "file": file.name,
        "sha256": sha256(file),
        "examples_in_file": len(every),
        "clean": {"examples": len(examples), "scores": rounded(clean.scores)},
    }
    if isinstance(task, SequenceTask):
        found["subsets"] = by_kind(checkpoint, clean)
    if noises:
        found["noise"] = under_noise(checkpoint, clean, noises, takers, noise_limit, say)
    if isinstance(task, SpanTask):
        found["clean"] |= reachable(clean)
    if explain:
        found["errors"] = error_analysis.analysis(clean, task.max_answer_tokens)  # type: ignore[attr-defined]
    return found


def examples_of(task: Task, file: Path) -> list[Example]:
    """The examples of a file. Raises UserError for one that holds none, or is none."""
    if not file.is_file():
        raise UserError(f"{file} does not exist; name a labelled file that the task {task.name} reads")
    examples = task.read(file)
    if not examples:
        raise UserError(f"{file} holds no examples of the task {task.name}")
    return examples


def by_kind(checkpoint: Checkpoint, clean: Predicted) -> list[dict[str, Any]]:
    """A row per kind of text."""
    return [
        {"name": name, "examples": len(numbers), "scores": rounded(score(checkpoint, clean, numbers))}
        for name, numbers in subsets.subsets(clean.features.examples)
    ]


def under_noise(
    checkpoint: Checkpoint, clean: Predicted, noises: list[Noise], takers: tuple[str, ...], limit: int | None, say: Say
) -> dict[str, Any]:
    """A row per noise, and the same examples without it."""
    numbers = sampled(clean.features.examples, limit)
    examples = [clean.features.examples[number] for number in numbers]
    rows = []
    for noise in noises:
        spoilt = noisy.noisy(examples, takers, noise)
        got = predict_examples(checkpoint, spoilt)
        changed = sum(one != other for one, other in zip(spoilt, examples, strict=True))
        row = {
            "kind": noise.kind,
            "rate": noise.rate,
            "changed": share(changed, len(examples)),
            "scores": rounded(got.scores),
        }
        if isinstance(checkpoint.task, SpanTask):
            row["scores_against_original"] = rounded(checkpoint.task.score(got.predictions, examples))
            row["answers_changed"] = share(sum(map(answers_differ, spoilt, examples)), len(examples))
            row |= reachable(got)
        elif checkpoint.task.config().get("problem_type") != "regression":
            flipped = sum(
                one != clean.predictions[number] for one, number in zip(got.predictions, numbers, strict=True)
            )
            row["predictions_changed"] = share(flipped, len(examples))
        rows.append(row)
        say(f"{noise.kind} {noise.rate}  {format_scores(got.scores)}")
    return {
        "examples": len(examples),
        "in": list(takers),
        "seed": noises[0].seed,
        "clean": rounded(score(checkpoint, clean, numbers)),
        "conditions": rows,
    }


def answers_differ(spoilt: Example, example: Example) -> bool:
    """Whether noise went through an answer."""
    return [text for text, _ in spoilt["answers"]] != [text for text, _ in example["answers"]]


def reachable(got: Predicted) -> dict[str, float]:
    """The best EM that the tokens allow, in percent of the examples with an answer, and how many these are; empty where
    none has one."""
    reaches = [reach for reach in error_analysis.reaches(got.features) if reach is not None]
    if not reaches:
        return {}
    return {
        "ceiling_exact_match": share(sum(reach.on_borders for reach in reaches), len(reaches)),
        "examples_with_answer": len(reaches),
    }


def score(checkpoint: Checkpoint, got: Predicted, numbers: list[int]) -> dict[str, float]:
    """The scores of some of the examples."""
    return checkpoint.task.score(
        [got.predictions[number] for number in numbers], [got.features.examples[number] for number in numbers]
    )


def sample(examples: list[Example], limit: int | None) -> list[Example]:
    """`limit` of the examples, in their order."""
    return [examples[number] for number in sampled(examples, limit)]


def sampled(examples: list[Example], limit: int | None) -> list[int]:
    """The numbers of `limit` examples: those whose contents have the smallest hashes."""
    if limit is None or limit >= len(examples):
        return list(range(len(examples)))
    order = sorted(range(len(examples)), key=lambda number: (digest(examples[number]), number))
    return sorted(order[:limit])


def digest(example: Example) -> bytes:
    """A hash of an example's id and group."""
    return hashlib.blake2b(
        f"{example['id']}\n{example['group']}".encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()


def share(part: int, whole: int) -> float:
    """In percent."""
    return round(100 * part / max(whole, 1), 2)


def rounded(scores: dict[str, float]) -> dict[str, float]:
    """To what a report shows."""
    return {name: round(value, 2) for name, value in scores.items()}


def format_scores(scores: dict[str, float]) -> str:
    """For the log."""
    return ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
