"""Predict with a checkpoint: labels or scores for texts and pairs of texts, answers to questions, entities, tokens for
[MASK].

A text becomes features by the code of the stage `features`, and these become predictions by `finetune.model.predict`,
as in fine-tuning's own test. A text of more tokens than in training is therefore cut there too (answers and entities
are looked for in all of it, in windows).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.features.tasks.choice import Choice
from kobert_pipeline.features.unanswerable import null_scores
from kobert_pipeline.finetune.model import Predicted, drop_unsupported_inputs, refuse_not_finite
from kobert_pipeline.finetune.model import predict as predict_features
from kobert_pipeline.inference.checkpoint import Checkpoint, load, task_by_head, task_options
from kobert_pipeline.training.device import device


def predict(
    folder: Path,
    texts: list[str],
    question: str | None = None,
    top_k: int = 5,
    pair: str | None = None,
    tokenizer_folder: Path | None = None,
) -> list[dict[str, Any]]:
    """One result per text, of the kind the checkpoint's head gives. `question` is answered from each text. Where the
    checkpoint labels pairs, `pair` is the second text of each; without it each text holds both, with a tab between
    them. Where it chooses, each text is followed by its candidates, with tabs between them. `tokenizer_folder` is a
    run's tokenizer, for a model of that run that is not published.

    Raises UserError when the head and the input, or model and tokenizer, do not fit.
    """
    model, tokenizer = load(folder, tokenizer_folder)
    given = task_options(folder, model.config.to_dict())
    if not given and fills_masks(model):
        refuse_unused(folder, None, question, pair)
        return fill_masks(model, tokenizer, texts, top_k)
    checkpoint = Checkpoint.of(model, tokenizer, given or task_by_head(folder, model))
    examples = examples_of(folder, checkpoint.task, texts, question, pair)
    results: dict[int, dict[str, Any]] = {}
    for numbers in by_choices(examples):
        found = predict_examples(checkpoint, [examples[number] for number in numbers])
        results |= dict(zip(numbers, format_predictions(found), strict=True))
    return [results[number] for number in range(len(examples))]


def by_choices(examples: list[Example]) -> list[list[int]]:
    """The numbers of examples that go together: all, or those with as many choices, which fill the rows of a batch."""
    groups: dict[int, list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(len(example.get("choices", ())), []).append(number)
    return list(groups.values())


def predict_examples(checkpoint: Checkpoint, examples: list[Example]) -> Predicted:
    """What a checkpoint predicts for examples of its task."""
    features = Features(checkpoint.task.featurize(examples, checkpoint.tokenizer, checkpoint.max_length), examples)
    return predict_features(checkpoint.model, checkpoint.task, features, checkpoint.device)


def examples_of(folder: Path, task: Task, texts: list[str], question: str | None, pair: str | None) -> list[Example]:
    """The texts as examples of the task, without an answer. Raises UserError where they, or what is asked, do not fit
    it."""
    refuse_unused(folder, task, question, pair)
    if isinstance(task, SpanTask):
        if question is None:
            raise UserError(f"{folder} answers questions; give one with --question")
        return [{"question": question, "context": text, "answers": []} for text in texts]
    if isinstance(task, TaggingTask):
        return [{"text": text, "entities": []} for text in texts]
    if isinstance(task, Choice):
        return list(with_choices(folder, texts))
    if task.paired:
        return [{"text": first, "text_pair": second, "label": 0} for first, second in pairs_of(folder, texts, pair)]
    return [{"text": text, "label": 0} for text in texts]


def refuse_unused(folder: Path, task: Task | None, question: str | None, pair: str | None) -> None:
    """Raise UserError for a question or a second text that nothing would read."""
    if pair is not None and not (task and task.paired):
        raise UserError(f"{folder} does not compare texts; leave --pair out")
    if question is not None and not isinstance(task, SpanTask):
        raise UserError(f"{folder} does not answer questions; leave --question out")


def pairs_of(folder: Path, texts: list[str], pair: str | None) -> list[tuple[str, str]]:
    """Each text with `pair`, or split at its tab. Raises UserError for a text without one."""
    if pair is not None:
        return [(text, pair) for text in texts]
    for number, text in enumerate(texts, 1):
        if text.count("\t") != 1:
            raise UserError(
                f"{folder} compares two texts: give the second with --pair, or separate text {number} by one tab "
                f"({text[:40]!r})"
            )
    return [(first, second) for first, _, second in (text.partition("\t") for text in texts)]


def with_choices(folder: Path, texts: list[str]) -> Iterator[Example]:
    """Each text with its candidates. Raises UserError for fewer than two."""
    for text in texts:
        first, *choices = text.split("\t")
        if len(choices) < 2:
            raise UserError(
                f"{folder} chooses between candidates: give the text and at least two candidates, separated by tabs "
                f"({text[:40]!r})"
            )
        yield {"text": first, "choices": choices, "label": 0}


def format_predictions(found: Predicted) -> list[dict[str, Any]]:
    """Each prediction with its scores, as JSON values."""
    if isinstance(found.task, SpanTask):
        return format_answers(found)
    if isinstance(found.task, TaggingTask):
        return format_entities(found.task, found)
    rows = zip(found.features.examples, found.predictions, found.logits["logits"], strict=True)
    form = format_choice if isinstance(found.task, Choice) else format_label
    return [form(found.task, example, prediction, logits) for example, prediction, logits in rows]


def format_label(task: Task, example: Example, prediction: Any, logits: np.ndarray) -> dict[str, Any]:
    """The `label` and the `scores` of all, (num_labels,) logits; the `score` of a regression."""
    texts: dict[str, Any] = {name: example[name] for name in ("text", "text_pair") if name in example}
    config = task.config()
    if config.get("problem_type") == "regression":
        return {**texts, "score": round(prediction, 4)}
    labels = list(config["id2label"].values())
    return {**texts, "label": labels[prediction], "scores": dict(zip(labels, probabilities(logits), strict=True))}


def format_choice(task: Task, example: Example, prediction: Any, logits: np.ndarray) -> dict[str, Any]:
    """The candidate that fits best, its `number` from 0, and the probability of each, from (choices,) logits."""
    choice = example["choices"][prediction]
    return {"text": example["text"], "choice": choice, "number": prediction, "scores": probabilities(logits)}


def format_answers(found: Predicted) -> list[dict[str, Any]]:
    """The answers with their characters; `score` is the sum of the best span's two logits, None where there is no
    context. A model of questions that may have no answer gives "" where `null_score`, that of no answer, exceeds
    `score` by more than its threshold."""
    assert isinstance(found.task, SpanTask)
    best = found.task.best_spans(found.logits, found.features)
    nulls = (
        null_scores(found.logits, found.features) if getattr(found.task, "null_threshold", None) is not None else None
    )
    results = []
    for number, (example, answer) in enumerate(zip(found.features.examples, found.predictions, strict=True)):
        start, end = found.spans.get(number, (0, 0))
        score = round(best[number][0], 4) if number in best else None
        row = {"question": example["question"], "answer": answer, "start": start, "end": end, "score": score}
        results.append(row if nulls is None else row | {"null_score": round(nulls[number], 4)})
    return results


def format_entities(task: TaggingTask, found: Predicted) -> list[dict[str, Any]]:
    """Per text its `entities`: `start` and `end` in its characters, `text`, `label`, and `score`, the mean probability
    of their tokens."""
    return [
        {
            "text": (text := example["text"]),
            "entities": [
                {"start": start, "end": end, "text": text[start:end], "label": label, "score": round(score, 4)}
                for start, end, label, score in entities
            ],
        }
        for example, entities in zip(found.features.examples, task.found(found.logits, found.features), strict=True)
    ]


def probabilities(logits: np.ndarray) -> list[float]:
    """The softmax of (n,) logits, to four places."""
    scores = np.exp(logits.astype(np.float64) - logits.max())
    return [round(score, 4) for score in (scores / scores.sum()).tolist()]


def fills_masks(model: Any) -> bool:
    """Whether the model predicts masked tokens. An ELECTRA discriminator does not, although its class is one for
    pretraining."""
    kind = type(model).__name__
    return kind.endswith(("ForPreTraining", "ForMaskedLM")) and kind != "ElectraForPreTraining"


def fill_masks(model: Any, tokenizer: Any, texts: list[str], top_k: int) -> list[dict[str, Any]]:
    """The likeliest tokens for each [MASK] of each text. Raises UserError for a text without one, or with one after its
    last token."""
    for number, text in enumerate(texts, 1):
        if tokenizer.mask_token not in text:
            raise UserError(f"this checkpoint fills {tokenizer.mask_token}, and text {number} has none: {text[:40]!r}")
    model.to(device())
    return [{"text": text, "masks": fill(model, tokenizer, text, top_k)} for text in texts]


def fill(model: Any, tokenizer: Any, text: str, top_k: int) -> list[dict[str, float]]:
    """The likeliest tokens for each [MASK] of `text`, with their probabilities."""
    import torch

    inputs = tokenizer(text, truncation=True, max_length=tokenizer.model_max_length, return_tensors="pt").to(device())
    if int((inputs["input_ids"] == tokenizer.mask_token_id).sum()) < text.count(tokenizer.mask_token):
        raise UserError(
            f"a {tokenizer.mask_token} is beyond the model's {tokenizer.model_max_length} tokens; shorten the text"
        )
    with torch.no_grad():
        outputs = model(**drop_unsupported_inputs(model, inputs))
    found = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    places = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero().flatten()
    logits = found[0, places].float()
    refuse_not_finite(model, {"logits": list(logits.cpu().numpy())})
    top = logits.softmax(-1).topk(min(top_k, found.shape[-1]))
    return [
        {
            tokenizer.convert_ids_to_tokens(int(token)): round(float(value), 4)
            for token, value in zip(tokens, values, strict=True)
        }
        for tokens, values in zip(top.indices, top.values, strict=True)
    ]
