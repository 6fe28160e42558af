"""The scores of a model with missing spaces and typing errors, for its card: the texts of users have both, and
evaluation sets often have neither."""

from pathlib import Path
from typing import Any

import kobert_pipeline.finetune.stage as finetune_stage
from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation.noise import conditions, noisy_fields
from kobert_pipeline.files import read_json_lines

NOISE = ["spaces-removed", "key-neighbour=0.05,0.1"]
MOST, FEWEST = 1000, 100
"""Dev examples that are read, and how many there must be: scores of fewer say nothing."""


def noise_on_dev(model: Path, tokenizer: Path, features: Path, file: str | None) -> dict[str, Any]:
    """What `evaluate.under_noise` gives for up to `MOST` dev examples of the `features`; {} for a task whose texts get
    no noise, and where dev is too small. `file` is that of dev, None where it is a part of train. The analyzer must be
    installed."""
    from kobert_pipeline.evaluation.evaluate import sampled, under_noise
    from kobert_pipeline.inference.checkpoint import Checkpoint, load
    from kobert_pipeline.inference.predict import predict_examples

    task = finetune_stage.task_of(features)
    try:
        fields = noisy_fields(task, [])
    except UserError:
        return {}
    examples = list(read_json_lines(features / "dev" / "examples.jsonl"))
    if len(examples) < FEWEST:
        return {}
    checkpoint = Checkpoint.of_task(model, *load(model, tokenizer))
    clean = predict_examples(checkpoint, [examples[index] for index in sampled(examples, MOST)])
    name = Path(file).name if file else "dev, a part of train"
    return {"of": name, **under_noise(checkpoint, clean, conditions(NOISE, 1), fields, None, lambda line: None)}
