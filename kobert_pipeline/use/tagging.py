"""Entities of a text with their characters, by a checkpoint that was fine-tuned to tag."""

from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.tasks.tagging import Tagging
from kobert_pipeline.finetune.model import logits
from kobert_pipeline.use.load import reading_of

BATCH = 32


def tag(model: Any, tokenizer: Any, texts: list[str], max_length: int) -> list[dict[str, Any]]:
    """Per text its `entities`: `start` and `end` in its characters, `text`, `label`, and `score`, the mean probability of their pieces'
    labels. Long texts are read in windows of `max_length` pieces. Raises UserError for a model that has other labels than O, B-X, I-X."""
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    kinds = [name.removeprefix("B-") for name in names[1::2]]
    if not kinds or len(set(kinds)) < len(kinds) or names != ["O", *(f"{side}-{kind}" for kind in kinds for side in "BI")]:
        raise UserError(f"this checkpoint's labels are {', '.join(names[:9])}; O, B-X, I-X, B-Y, I-Y and so on were expected")
    task = Tagging(labels=kinds, **reading_of(model, Tagging.reading))
    examples = [{"id": str(i), "group": text, "text": text, "entities": []} for i, text in enumerate(texts)]
    features = Features(task.featurize(examples, tokenizer, max_length), examples)
    found = task.found(logits(model, features, BATCH, "cpu"), features) if texts else []
    return [
        {
            "text": text,
            "entities": [
                {"start": start, "end": end, "text": text[start:end], "label": kind, "score": round(score, 4)}
                for start, end, kind, score in of_text
            ],
        }
        for text, of_text in zip(texts, found, strict=True)
    ]
