"""Predict with a published checkpoint: labels or scores for texts and pairs of texts, answers to questions, entities, words for [MASK]."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.unanswerable import null_scores
from kobert_pipeline.finetune.model import logits, taken
from kobert_pipeline.training.positions import longest
from kobert_pipeline.use.load import load_model, load_tokenizer, reading_of, task_of
from kobert_pipeline.use.tagging import tag

BATCH = 32


def predict(
    folder: Path,
    texts: list[str],
    question: str | None = None,
    top_k: int = 5,
    pair: str | None = None,
    tokenizer_folder: Path | None = None,
) -> list[dict[str, Any]]:
    """One result per text, of the kind the checkpoint's head gives. `question` is answered from each text. Where the
    checkpoint labels pairs, `pair` is the second text of each; without it each text holds both, with a tab between them. Where it chooses,
    each text is followed by its candidates, with tabs between them. `tokenizer_folder` is a run's tokenizer, for a model of that run that
    is not published.

    Raises UserError when the head and the input, or model and tokenizer, do not fit.
    """
    model = load_model(folder, tokenizer_folder is None)
    tokenizer = of_a_run(model, folder, tokenizer_folder) if tokenizer_folder else load_tokenizer(folder)
    kind = type(model).__name__
    if pair is not None and not takes_pairs(model):
        raise UserError(f"{folder} ({kind}) does not compare texts; leave --pair out")
    if kind.endswith("ForQuestionAnswering"):
        if question is None:
            raise UserError(f"{folder} answers questions; give one with --question")
        return [answer(model, tokenizer, question, text) for text in texts]
    if question is not None:
        raise UserError(f"{folder} ({kind}) does not answer questions; leave --question out")
    if kind.endswith("ForMultipleChoice"):
        return [choose(model, tokenizer, *candidates_of(folder, text)) for text in texts]
    if kind.endswith("ForSequenceClassification"):
        return classify(model, tokenizer, texts, pairs_of(folder, texts, pair) if takes_pairs(model) else None)
    if kind.endswith(("ForTokenClassification", "Tagger")):
        return tag(model, tokenizer, texts, windows_of(model, tokenizer))
    if not kind.endswith(("ForPreTraining", "ForMaskedLM")) or kind.startswith("Electra"):
        raise UserError(
            f"{folder} ({kind}) neither labels texts nor answers questions nor tags nor fills masks; use it through transformers"
        )
    return filled(model, tokenizer, texts, top_k)


def of_a_run(model: Any, folder: Path, tokenizer_folder: Path) -> Any:
    """The tokenizer of a run, cutting where the model in `folder` needs it. Raises UserError where it has other pieces than the model."""
    tokenizer, pieces = load_tokenizer(tokenizer_folder), model.config.vocab_size
    if len(tokenizer) != pieces:
        raise UserError(f"{tokenizer_folder} has {len(tokenizer)} pieces and the model in {folder} {pieces}; name the tokenizer of its run")
    tokenizer.model_max_length = windows_of(model, tokenizer)
    return tokenizer


def takes_pairs(model: Any) -> bool:
    """Whether the checkpoint labels pairs of texts."""
    return bool(task_of(model).get("paired", False))


def pairs_of(folder: Path, texts: list[str], pair: str | None) -> list[tuple[str, str]]:
    """Each text with `pair`, or parted at its tab. Raises UserError for a text without one."""
    if pair is not None:
        return [(text, pair) for text in texts]
    for number, text in enumerate(texts, 1):
        if text.count("\t") != 1:
            raise UserError(f"{folder} compares two texts: give the second with --pair, or part text {number} by one tab ({text[:40]!r})")
    return [(first, second) for first, _, second in (text.partition("\t") for text in texts)]


def classify(model: Any, tokenizer: Any, texts: list[str], pairs: list[tuple[str, str]] | None = None) -> list[dict[str, Any]]:
    """The likeliest label and the probability of each, or the score of a regression; of `pairs` where they are given."""
    import torch

    results: list[dict[str, Any]] = []
    columns = [list(column) for column in zip(*pairs, strict=True)] if pairs else [texts]
    for i in range(0, len(columns[0]), BATCH):
        batch = [column[i : i + BATCH] for column in columns]
        inputs = tokenizer(*batch, padding=True, truncation=True, max_length=tokenizer.model_max_length, return_tensors="pt")
        with torch.no_grad():
            scores = model(**taken(model, inputs)).logits
        for row, given in zip(scores, zip(*batch, strict=True), strict=True):
            results.append(dict(zip(("text", "text_pair"), given, strict=False)) | judged(model, row))
    return results


def candidates_of(folder: Path, text: str) -> tuple[str, list[str]]:
    """The text and its candidates. Raises UserError for fewer than two."""
    first, *candidates = text.split("\t")
    if len(candidates) < 2:
        raise UserError(f"{folder} chooses between candidates: give the text and two candidates at least, parted by tabs ({text[:40]!r})")
    return first, candidates


def choose(model: Any, tokenizer: Any, text: str, candidates: list[str]) -> dict[str, Any]:
    """The candidate that fits `text` best, its number from 0, and the probability of each."""
    import torch

    texts = [text] * len(candidates)
    inputs = tokenizer(texts, candidates, padding=True, truncation=True, max_length=windows_of(model, tokenizer), return_tensors="pt")
    with torch.no_grad():
        found = model(**taken(model, {name: tensor[None] for name, tensor in inputs.items()})).logits[0]  # (n, L) -> (1, n, L) -> (n,)
    number = int(found.argmax())
    scores = [round(score, 4) for score in found.softmax(-1).tolist()]
    return {"text": text, "choice": candidates[number], "number": number, "scores": scores}


def judged(model: Any, logits: Any) -> dict[str, Any]:
    """What the logits of one text, (num_labels,), say: `score` of a regression, else `label` and the `scores` of all."""
    if model.config.problem_type == "regression":
        return {"score": round(float(logits[0]), 4)}
    scores = {model.config.id2label[j]: round(value, 4) for j, value in enumerate(logits.softmax(-1).tolist())}
    return {"label": max(scores, key=lambda label: scores[label]), "scores": scores}


def windows_of(model: Any, tokenizer: Any) -> int:
    """Pieces of a window: as many as in fine-tuning, where the checkpoint says so; never more than the model has positions."""
    return min(longest(model.config.to_dict()), int(task_of(model).get("max_length", min(384, tokenizer.model_max_length))))


def answer(model: Any, tokenizer: Any, question: str, context: str) -> dict[str, Any]:
    """The best span of `context` over all its windows, with its characters; `score` is the sum of its two logits, None for no span. A model
    of questions that may have no answer gives "" where `null_score`, that of no answer, exceeds `score` by more than its threshold."""
    task = Task.choose({"name": "korquad"} | reading_of(model, SpanTask.reading))
    assert isinstance(task, SpanTask)
    example = {"id": "", "group": context, "question": question, "context": context, "answers": []}
    features = Features(task.featurize([example], tokenizer, windows_of(model, tokenizer)), [example])
    found = logits(model, features, BATCH, "cpu")
    threshold, null = task_of(model).get("null_threshold"), null_scores(found, features)[0]
    best = task.best_spans(found, features).get(0)  # no window of an empty context has an answer
    score, start, end = best or (None, 0, 0)
    if threshold is not None and score is not None and null - score > threshold:
        start, end = 0, 0
    told = {"question": question, "answer": context[start:end], "start": start, "end": end, "score": score and round(score, 4)}
    return told if threshold is None else told | {"null_score": round(null, 4)}


def filled(model: Any, tokenizer: Any, texts: list[str], top_k: int) -> list[dict[str, Any]]:
    """`fill` for each text. Raises UserError for one without a [MASK]."""
    for number, text in enumerate(texts, 1):
        if tokenizer.mask_token not in text:
            raise UserError(f"this checkpoint fills {tokenizer.mask_token}, and text {number} has none: {text[:40]!r}")
    return [fill(model, tokenizer, text, top_k) for text in texts]


def fill(model: Any, tokenizer: Any, text: str, top_k: int) -> dict[str, Any]:
    """The likeliest pieces for each [MASK] of `text`."""
    import torch

    inputs = tokenizer(text, truncation=True, max_length=tokenizer.model_max_length, return_tensors="pt")
    if int((inputs["input_ids"] == tokenizer.mask_token_id).sum()) < text.count(tokenizer.mask_token):
        raise UserError(f"a {tokenizer.mask_token} lies beyond the model's {tokenizer.model_max_length} pieces; shorten the text")
    with torch.no_grad():
        outputs = model(**taken(model, inputs))
    found = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    places = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero().flatten()
    top = found[0, places].softmax(-1).topk(min(top_k, found.shape[-1]))
    words = [
        {tokenizer.convert_ids_to_tokens(int(piece)): round(float(value), 4) for piece, value in zip(pieces, values, strict=True)}
        for pieces, values in zip(top.indices, top.values, strict=True)
    ]
    return {"text": text, "masks": words}
