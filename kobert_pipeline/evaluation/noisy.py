"""Examples with noise: their texts are spoilt, and answers keep the characters they had."""

from collections.abc import Iterable
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation.noise import Noise
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Example, Task


def fields(task: Task, wanted: list[str]) -> tuple[str, ...]:
    """The texts of the task's examples that take noise: those `wanted`, or all, each once. Raises UserError for
    others."""
    if isinstance(task, SpanTask):
        known: tuple[str, ...] = ("question", "context")
    elif isinstance(task, SequenceTask) and "id2label" in task.config():  # one of several candidates is not labelled
        known = ("text", "text_pair") if task.paired else ("text",)
    else:
        raise UserError(
            f"noise is known for tasks that label texts or answer questions; {task.name} is neither, leave --noise out"
        )
    for name in wanted:
        if name not in known:
            raise UserError(f"--noise-in {name}: the task {task.name} has the texts {', '.join(known)}")
    return tuple(dict.fromkeys(wanted)) or known


def noisy(examples: Iterable[Example], names: tuple[str, ...], noise: Noise) -> list[Example]:
    """The examples with noise in the texts `names`. Each answer is what stands in the noisy context where its
    characters went."""
    made = []
    for example in examples:
        edits = {name: noise(example[name]) for name in names if name in example}
        changed: dict[str, Any] = {name: edit.text for name, edit in edits.items()}
        if "context" in edits:
            places = [edits["context"].span(start, start + len(text)) for text, start in example["answers"]]
            changed["answers"] = [[changed["context"][start:end], start] for start, end in places]
        made.append({**example, **changed})
    return made
