"""What an architecture cannot be fine-tuned for, refused before anything is trained."""

from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.pretrain.architecture import Architecture


def refuse_unfit_task(name: str, features: str, task: Task, architecture: Architecture) -> None:
    """Raise ValueError where the fine-tuning `name` needs a head or inputs that models of the architecture do not
    have."""
    if task.auto_class in architecture.unsupported_heads:
        raise ValueError(
            f"finetune.{name} uses the task {task.name}, for which {architecture.name} has no head "
            f"(transformers' {task.auto_class}); choose another pretrain.architecture"
        )
    if isinstance(task, SpanTask) and task.mark_matches and not architecture.token_types:
        raise ValueError(
            f"features.{features}.task.mark_matches needs an architecture with token types, and {architecture.name} "
            "does not have them; leave it out, or choose another pretrain.architecture, such as bert"
        )
