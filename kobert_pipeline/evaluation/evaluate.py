"""Scores of a checkpoint on a labelled file: clean, by kind of text, under noise, and what it gets wrong."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation import error_analysis, subsets
from kobert_pipeline.evaluation.calibration import calibration
from kobert_pipeline.evaluation.noise import Noise, add_noise, noisy_fields
from kobert_pipeline.evaluation.wrong_labels import wrong_labels
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.files import sha256
from kobert_pipeline.finetune.prior_ablation import prior_ablation

Report = Callable[[str], None]
"""Prints a line of progress."""


class Predictor(Protocol):
    """What is evaluated: a checkpoint with its task. An evaluation needs nothing else of it."""

    @property
    def task(self) -> Task:
        """The task whose examples it predicts."""
        ...

    @property
    def max_length(self) -> int:
        """Tokens that it reads of a text or window."""
        ...

    @property
    def reads_whole(self) -> bool:
        """Whether it reads texts however long they are."""
        ...

    def predict_examples(self, examples: list[Example]) -> Predicted:
        """The predictions for examples of the task."""
        ...

    def truncated(self, predicted: Predicted) -> list[int]:
        """The numbers of the predicted examples that have more tokens than were read."""
        ...


def evaluate(
    checkpoint: Predictor,
    file: Path,
    noises: list[Noise],
    field_names: list[str],
    explain: bool,
    limit: int | None = None,
    noise_limit: int | None = None,
    report: Report = lambda line: print(line, file=sys.stderr),
) -> dict[str, Any]:
    """The results, as JSON values. `field_names` are the text fields that get noise ([]: all), and `explain` adds the
    texts with wrong labels or the analysis of wrong answers. `limit` examples are evaluated, and `noise_limit` of these
    with each noise (None: all).

    Raises UserError for a file or an argument that does not fit the task.
    """
    task = checkpoint.task
    # arguments that do not fit are refused before the model runs for minutes
    fields = noisy_fields(task, field_names) if noises or field_names else ()
    if explain:
        refuse_unexplained(task)
    max_length = None if checkpoint.reads_whole else checkpoint.max_length
    results: dict[str, Any] = {"task": task.dump(), "max_length": max_length, "file": file.name}
    every = examples_of(task, file)
    results["sha256"] = sha256(file)  # of what is read, which may be corrected while the model runs
    clean = checkpoint.predict_examples([every[index] for index in sampled(every, limit)])
    examples = len(clean.predictions)
    report(f"clean  {examples} examples  {format_scores(clean.scores)}")
    results |= {"examples_in_file": len(every), "clean": {"examples": examples, "scores": rounded(clean.scores)}}
    results["clean"] |= {"truncated": len(cut)} if (cut := checkpoint.truncated(clean)) else {}
    optional = {"notes": task.notes, "classification_report": clean.classification_report}
    results |= {name: value for name, value in optional.items() if value}
    results |= trust(clean)
    if isinstance(task, SequenceTask):
        results["subsets"] = by_kind(checkpoint, clean)
    if noises:
        results["noise"] = under_noise(checkpoint, clean, noises, fields, noise_limit, report)
    if isinstance(task, SpanTask):
        results["clean"] |= reachable(clean)
    return results | (mistakes(clean) if explain else {})


def refuse_unexplained(task: Task) -> None:
    """Raise UserError for a task whose mistakes are neither wrong labels nor wrong answers."""
    if not (isinstance(task, SpanTask) or task.classes()):
        raise UserError(
            f"--errors is for tasks that label texts or answer questions from them; {task.name} does neither, leave it "
            "out"
        )


def trust(predicted: Predicted) -> dict[str, Any]:
    """How far answers are learned and how sure they are: `prior_ablation` of a task with priors, `calibration` of one
    whose answers have a probability."""
    sections: dict[str, Any] = {}
    if ablation := prior_ablation(predicted):
        sections["prior_ablation"] = {name: rounded(scores) for name, scores in ablation.items()}
    return sections | (calibration(predicted) if isinstance(predicted.task, SpanTask) else {})


def mistakes(predicted: Predicted) -> dict[str, Any]:
    """The analysis of wrong answers (`errors`) of a task with questions, the `wrong_labels` of another."""
    if isinstance(predicted.task, SpanTask):
        return {"errors": error_analysis.analysis(predicted, predicted.task.max_answer_tokens)}
    return {"wrong_labels": wrong_labels(predicted)}


def examples_of(task: Task, file: Path) -> list[Example]:
    """The examples of a file. Raises UserError for a missing file or one without examples."""
    if not file.is_file():
        raise UserError(f"{file} does not exist in {Path.cwd()}; name a labelled file that the task {task.name} reads")
    examples = task.read(file)
    if not examples:
        raise UserError(f"{file} holds no examples of the task {task.name}; name another file")
    return examples


def by_kind(checkpoint: Predictor, clean: Predicted) -> list[dict[str, Any]]:
    """The scores of each kind of text."""
    return [
        {"name": name, "examples": len(indices), "scores": rounded(score(checkpoint, clean, indices))}
        for name, indices in subsets.subsets(clean.features.examples)
    ]


def under_noise(
    checkpoint: Predictor,
    clean: Predicted,
    noises: list[Noise],
    fields: tuple[str, ...],
    limit: int | None,
    report: Report,
) -> dict[str, Any]:
    """The scores under each noise, and the scores of the same examples without noise."""
    # the same examples for every noise, so that rows are compared with one clean score
    indices = sampled(clean.features.examples, limit)
    rows = []
    for noise in noises:
        row, scores = noise_row(checkpoint, clean, indices, fields, noise)
        rows.append(row)
        report(f"{noise.kind} {noise.rate}  {format_scores(scores)}")
    return {
        "examples": len(indices),
        "in": list(fields),
        "seed": noises[0].seed,
        "clean": rounded(score(checkpoint, clean, indices)),
        "conditions": rows,
    }


def noise_row(
    checkpoint: Predictor, clean: Predicted, indices: list[int], fields: tuple[str, ...], noise: Noise
) -> tuple[dict[str, Any], dict[str, float]]:
    """One noise condition as a row of the report, and its scores before rounding."""
    examples = [clean.features.examples[index] for index in indices]
    noisy = add_noise(examples, fields, noise)
    predicted = checkpoint.predict_examples(noisy)
    changed = sum(after != before for after, before in zip(noisy, examples, strict=True))
    row = {
        "kind": noise.kind,
        "rate": noise.rate,
        "changed": percent(changed, len(examples)),
        "scores": rounded(predicted.scores),
    }
    if isinstance(checkpoint.task, SpanTask):
        # a model may find the place of an answer that noise went through, and still not spell the original
        row["scores_against_original"] = rounded(checkpoint.task.score(predicted.predictions, examples))
        row["answers_changed"] = percent(sum(map(answers_differ, noisy, examples)), len(examples))
        row |= reachable(predicted)
    elif not isinstance(clean.predictions[0], float):  # such a number differs with any noise
        before = [clean.predictions[index] for index in indices]
        flipped = sum(new != old for new, old in zip(predicted.predictions, before, strict=True))
        row["predictions_changed"] = percent(flipped, len(examples))
    return row, predicted.scores


def answers_differ(noisy: Example, example: Example) -> bool:
    """Whether noise changed an answer."""
    return [text for text, _ in noisy["answers"]] != [text for text, _ in example["answers"]]


def reachable(predicted: Predicted) -> dict[str, float]:
    """The best exact match that the tokenizer allows, in percent of the examples with an answer, and the number of
    these; {} if there are none."""
    reaches = [reach for reach in error_analysis.reaches(predicted.features) if reach is not None]
    if not reaches:
        return {}
    # a score of 100 is out of reach where answers start or end inside tokens
    return {
        "ceiling_exact_match": percent(sum(reach.on_boundaries for reach in reaches), len(reaches)),
        "examples_with_answer": len(reaches),
    }


def score(checkpoint: Predictor, predicted: Predicted, indices: list[int]) -> dict[str, float]:
    """The scores of some of the examples."""
    predictions = [predicted.predictions[index] for index in indices]
    return checkpoint.task.score(predictions, [predicted.features.examples[index] for index in indices])


def sampled(examples: list[Example], limit: int | None) -> list[int]:
    """The indices of `limit` examples, in order. Those with the smallest hashes are taken, so that a sample does not
    depend on the order of the file, and a larger one contains a smaller one."""
    if limit is None or limit >= len(examples):
        return list(range(len(examples)))
    order = sorted(range(len(examples)), key=lambda index: (digest(examples[index]), index))
    return sorted(order[:limit])


def digest(example: Example) -> bytes:
    """A hash of an example's id and group."""
    # strings of JSON may hold lone surrogates, which UTF-8 refuses
    content = f"{example['id']}\n{example['group']}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=8).digest()


def percent(part: int, total: int) -> float:
    """A share in percent, to two decimals; 0 of nothing."""
    return round(100 * part / max(total, 1), 2)


def rounded(scores: dict[str, float]) -> dict[str, float]:
    """Scores to two decimals, as in the report."""
    return {name: round(value, 2) for name, value in scores.items()}


def format_scores(scores: dict[str, float]) -> str:
    """Scores as a line of progress."""
    return ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
