"""Predict with a checkpoint: labels or scores of texts and pairs of texts, answers to questions, entities, tokens for
[MASK].

Features are made by the code of the stage `features`, and predictions by `finetune.model.predict`, as in the test of a
fine-tuning, so a text has one prediction whoever asks. Longer texts are truncated as in training, or labelled by the
mean of their windows; answers and entities are searched for in the whole text, in windows.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.checkpoint.source import locate
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.features.in_parts import featurize_in_parts
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.features.tasks.choice import Choice
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.features.unanswerable import null_scores
from kobert_pipeline.finetune.model import Predicted
from kobert_pipeline.finetune.model import predict as predict_features
from kobert_pipeline.inference.checkpoint import Checkpoint, load, task_by_head, task_options
from kobert_pipeline.inference.fill_mask import fill_masks, fills_masks
from kobert_pipeline.inference.windows import mean_by_text, splits, windows_of


def predict(
    folder: Path,
    texts: list[str],
    question: str | None = None,
    top_k: int = 5,
    pair: str | None = None,
    tokenizer_folder: Path | None = None,
    long: str = "truncate",
) -> list[dict[str, Any]]:
    """One result per text, with the keys that the checkpoint's task gives.

    Args:
        folder: a checkpoint, also by its name on the Hugging Face Hub, or a model folder of a run with its
            `tokenizer_folder`.
        texts: the texts; with tabs between a text and its pair (unless `pair` is given) or its choices.
        question: the question that is answered from each text.
        top_k: the number of tokens for each [MASK].
        pair: the second text of each pair, where the checkpoint labels pairs.
        long: what is done with texts of more tokens than the model reads, one of `windows.LONG`.

    Raises UserError when the task and the input, or model and tokenizer, do not fit.
    """
    return next(predict_batches(folder, [texts], question, top_k, pair, tokenizer_folder, long))


def predict_batches(
    folder: Path,
    batches: Iterable[list[str]],
    question: str | None = None,
    top_k: int = 5,
    pair: str | None = None,
    tokenizer_folder: Path | None = None,
    long: str = "truncate",
) -> Iterator[list[dict[str, Any]]]:
    """`predict` for each batch of texts, with the checkpoint loaded once; no batch is asked for before the one before
    it is answered."""
    folder, model, tokenizer = located(folder, tokenizer_folder)
    for texts in batches:
        yield predict_loaded(folder, model, tokenizer, texts, question, top_k, pair, long)


def located(folder: Path, tokenizer_folder: Path | None) -> tuple[Path, Any, Any]:
    """The folder of a checkpoint, which may be a name on the Hub, its model and its tokenizer."""
    folder = locate(str(folder))
    return folder, *load(folder, tokenizer_folder)


def predict_loaded(
    folder: Path,
    model: Any,
    tokenizer: Any,
    texts: list[str],
    question: str | None,
    top_k: int,
    pair: str | None,
    long: str,
) -> list[dict[str, Any]]:
    """`predict` with the loaded model and tokenizer of `folder`, which gives the task and the name in messages."""
    checkpoint = with_task(folder, model, tokenizer)
    refuse_windows(folder, checkpoint.task if checkpoint else None, long)
    if checkpoint is None:
        refuse_unused(folder, None, question, pair)
        return fill_masks(model, tokenizer, texts, [top_k] * len(texts))
    return predict_rows(checkpoint, examples_of(folder, checkpoint.task, texts, question, pair), long)


def with_task(folder: Path, model: Any, tokenizer: Any) -> Checkpoint | None:
    """The loaded checkpoint of `folder` with its task, None where it fills masks. Raises UserError where it does
    neither."""
    options = task_options(folder, model.config.to_dict())
    if not options and fills_masks(model):
        return None
    return Checkpoint.of(model, tokenizer, options or task_by_head(folder, model))


def predict_rows(checkpoint: Checkpoint, examples: list[Example], long: str = "truncate") -> list[dict[str, Any]]:
    """The result of each example, as JSON values; pairs and choices are always truncated."""
    if splits(long) and isinstance(checkpoint.task, SequenceTask) and takes_windows(checkpoint.task):
        return label_windows(checkpoint, examples)
    # groups may mix the order of the examples, so results are kept by index
    results: dict[int, dict[str, Any]] = {}
    for group in by_choices(examples):
        predicted = predict_examples(checkpoint, [examples[index] for index in group])
        results |= dict(zip(group, format_predictions(predicted), strict=True))
    return [results[index] for index in range(len(examples))]


def label_ids(checkpoint: Checkpoint, rows: list[list[int]]) -> list[dict[str, Any]]:
    """`predict_rows`, without texts, of single texts that are given as the ids of their tokens, special tokens
    included."""
    features = features_of_ids(rows)
    return format_predictions(predict_features(checkpoint.model, checkpoint.task, features, checkpoint.device))


def label_windows(checkpoint: Checkpoint, examples: list[Example]) -> list[dict[str, Any]]:
    """`predict_rows` with the mean of the logits of all windows of each text, weighted by their tokens."""
    texts = [example["text"] for example in examples]
    ids, text_of = windows_of(checkpoint.tokenizer, texts, checkpoint.max_length)
    of_windows = predict_features(checkpoint.model, checkpoint.task, features_of_ids(ids), checkpoint.device)
    outputs = {"logits": list(mean_by_text(np.stack(of_windows.logits["logits"]), ids, text_of))}
    features = Features({}, examples)
    predictions = checkpoint.task.predict(outputs, features)
    return format_predictions(Predicted(checkpoint.task, features, outputs, predictions))


def takes_windows(task: Task) -> bool:
    """Whether a task reads single texts, whose windows can be read by themselves."""
    return not task.paired and not isinstance(task, Choice)


def by_choices(examples: list[Example]) -> list[list[int]]:
    """The indices of the examples, grouped by their number of choices: a batch is (B, choices, S), without padding of
    choices. Other tasks have one group."""
    groups: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(len(example.get("choices", ())), []).append(index)
    return list(groups.values())


def predict_examples(checkpoint: Checkpoint, examples: list[Example]) -> Predicted:
    """The predictions of a checkpoint for examples of its task."""
    arrays = featurize_in_parts(checkpoint.task, examples, checkpoint.tokenizer, checkpoint.max_length)
    return predict_features(checkpoint.model, checkpoint.task, Features(arrays, examples), checkpoint.device)


def examples_of(folder: Path, task: Task, texts: list[str], question: str | None, pair: str | None) -> list[Example]:
    """The texts as examples of the task, with dummy labels. Raises UserError where the input does not fit the task."""
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
    """Raise UserError for a task without predictions, and for a question or a second text that would be ignored."""
    if isinstance(task, Contrastive):
        raise UserError(f"{folder} gives vectors, not labels; use kobert embed or kobert similar")
    if pair is not None and not (task and task.paired):
        raise UserError(f"{folder} does not compare texts; leave --pair out")
    if question is not None and not isinstance(task, SpanTask):
        raise UserError(f"{folder} does not answer questions; leave --question out")


def refuse_windows(folder: Path, task: Task | None, long: str) -> None:
    """Raise UserError for an unknown `long`, and where windows are asked for that the task does not read."""
    if splits(long) and not (task and takes_windows(task)):
        raise UserError(f"{folder} does not read single texts, which alone are split into windows; leave --long out")


def pairs_of(folder: Path, texts: list[str], pair: str | None) -> list[tuple[str, str]]:
    """Each text with `pair`, or split at its tab. Raises UserError for a text without one."""
    if pair is not None:
        return [(text, pair) for text in texts]
    # not by its number: of a file, these are the texts of one read
    if (unfit := next((text for text in texts if text.count("\t") != 1), None)) is not None:
        raise UserError(
            f"{folder} compares two texts: give the second with --pair, or one tab between the two ({unfit[:40]!r})"
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


def format_predictions(predicted: Predicted) -> list[dict[str, Any]]:
    """Each prediction with its scores, as JSON values."""
    if isinstance(predicted.task, SpanTask):
        return format_answers(predicted)
    if isinstance(predicted.task, TaggingTask):
        return format_entities(predicted.task, predicted)
    rows = zip(predicted.features.examples, predicted.predictions, predicted.logits["logits"], strict=True)
    format_row = format_choice if isinstance(predicted.task, Choice) else format_label
    return [format_row(predicted.task, example, prediction, logits) for example, prediction, logits in rows]


def format_label(task: Task, example: Example, prediction: Any, logits: np.ndarray) -> dict[str, Any]:
    """The `label` and the `scores` of all labels, from (num_labels,) logits; of a regression the `score`."""
    texts: dict[str, Any] = {name: example[name] for name in ("text", "text_pair") if name in example}
    config = task.config()
    if config.get("problem_type") == "regression":
        return {**texts, "score": round(prediction, 4)}
    labels = list(config["id2label"].values())
    return {**texts, "label": labels[prediction], "scores": dict(zip(labels, probabilities(logits), strict=True))}


def format_choice(task: Task, example: Example, prediction: Any, logits: np.ndarray) -> dict[str, Any]:
    """The best candidate, its `number` from 0, and the probability of each candidate, from (choices,) logits."""
    choice = example["choices"][prediction]
    return {"text": example["text"], "choice": choice, "number": prediction, "scores": probabilities(logits)}


def format_answers(predicted: Predicted) -> list[dict[str, Any]]:
    """The answers with their characters in the context. `score` is the sum of the start and end logits of the best
    span, with its bonuses; None for an empty context. With a null threshold (SQuAD 2.0), the
    answer is "" where `null_score` exceeds `score` by more than the threshold."""
    task = predicted.task
    assert isinstance(task, SpanTask)
    best = task.best_spans(predicted.logits, predicted.features)
    has_threshold = getattr(task, "null_threshold", None) is not None
    nulls = null_scores(predicted.logits, predicted.features) if has_threshold else None
    results = []
    for index, (example, answer) in enumerate(zip(predicted.features.examples, predicted.predictions, strict=True)):
        start, end = predicted.spans.get(index, (0, 0))
        score = round(best[index][0], 4) if index in best else None
        row = {"question": example["question"], "answer": answer, "start": start, "end": end, "score": score}
        results.append(row if nulls is None else row | {"null_score": round(nulls[index], 4)})
    return results


def format_entities(task: TaggingTask, predicted: Predicted) -> list[dict[str, Any]]:
    """For each text its `entities`: `start` and `end` in its characters, `text`, `label`, and `score`, the mean
    probability of their tokens."""
    results = []
    entities_of = task.scored_entities(predicted.logits, predicted.features)
    for example, entities in zip(predicted.features.examples, entities_of, strict=True):
        text = example["text"]
        rows = [
            {"start": start, "end": end, "text": text[start:end], "label": label, "score": round(score, 4)}
            for start, end, label, score in entities
        ]
        results.append({"text": text, "entities": rows})
    return results


def probabilities(logits: np.ndarray) -> list[float]:
    """The softmax of (n,) logits, rounded to four decimals."""
    scores = np.exp(logits.astype(np.float64) - logits.max())  # without the maximum, large logits would overflow
    return [round(score, 4) for score in (scores / scores.sum()).tolist()]
