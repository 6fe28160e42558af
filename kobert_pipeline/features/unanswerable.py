"""The base of span tasks with unanswerable questions (SQuAD 2.0, KLUE-MRC), whose examples have empty `answers`.

As in BERT (Devlin et al. 2019, section 4.3) the span of no answer is [CLS], and no answer is predicted where its score
exceeds the best span's score by more than a threshold, which is tuned on dev. Scores follow the official evaluation of
SQuAD 2.0 (Rajpurkar, Jia and Liang, *Know What You Don't Know*, ACL 2018), over KorQuAD's normalized characters.
"""

from typing import Any, ClassVar, Self

import numpy as np

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import korquad_exact_match, korquad_f1, korquad_normalize, korquad_scores
from kobert_pipeline.features.span import Spans, SpanTask
from kobert_pipeline.features.task import Example


class UnanswerableTask(SpanTask):
    """Questions with or without an answer. Where all have one, the task equals a `SpanTask`."""

    inference_options: ClassVar[tuple[str, ...]] = (*SpanTask.inference_options, "null_threshold")

    null_threshold: float | None = None
    """No answer is predicted where the score of [CLS] exceeds the best span's, priors included, by more than this;
    null: the value with the best `metric` on dev. Where every dev question has an answer, every question gets one."""

    def calibrate(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        """The task with the threshold tuned on dev, unless it was given or every dev question has an answer, and then
        the calibration of answers."""
        # not `super()`, which is bound to `self`, without the threshold
        return super(UnanswerableTask, self._with_threshold(logits, features)).calibrate(logits, features)

    def _with_threshold(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        if self.null_threshold is not None or all(example["answers"] for example in features.examples):
            return self
        best, nulls = self.best_spans(logits, features), null_scores(logits, features)
        if not best:
            return self
        # arrays (n,) over the questions that have a best span: by how much [CLS] exceeds it, and the score of either
        # answer
        margins = np.array([nulls[i] - span[0] for i, span in best.items()])
        asked = [features.examples[i] for i in best]
        answered = [
            self._question_score(example["context"][span[1] : span[2]], example)
            for example, span in zip(asked, best.values(), strict=True)
        ]
        unanswered = [self._question_score("", example) for example in asked]
        threshold = best_threshold(margins, np.array(answered), np.array(unanswered))
        return self.model_copy(update={"null_threshold": threshold})

    def ablate_priors(self) -> tuple[Self, Self] | None:
        """The tasks of `SpanTask.ablate_priors`, which answer every question: the threshold was tuned on sums of logits
        and priors."""
        if (ablated := super().ablate_priors()) is None:
            return None
        network, priors = (task.model_copy(update={"null_threshold": None}) for task in ablated)
        return network, priors

    def answered(self, best: Spans, logits: dict[str, list[np.ndarray]], features: Features) -> Spans:
        """The best spans, except where the score of [CLS] exceeds a span's by more than the threshold."""
        if self.null_threshold is None:
            return best
        nulls = null_scores(logits, features)
        return {i: span for i, span in best.items() if nulls[i] - span[0] <= self.null_threshold}

    def null_candidates(self, logits: dict[str, list[np.ndarray]], features: Features) -> dict[int, float]:
        """The scores of [CLS] less the threshold, which exceed the best span's where no answer is predicted."""
        if self.null_threshold is None:
            return {}
        return {index: score - self.null_threshold for index, score in null_scores(logits, features).items()}

    def results(
        self, predictions: list[Any], logits: dict[str, list[np.ndarray]], features: Features
    ) -> list[dict[str, Any]]:
        """The answers as for every question; with a threshold also `null_score`, the score of no answer, which is
        predicted where it exceeds `score` by more than the threshold."""
        rows = super().results(predictions, logits, features)
        if self.null_threshold is None:
            return rows
        nulls = null_scores(logits, features)
        return [row | {"null_score": round(nulls[index], 4)} for index, row in enumerate(rows)]

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Exact match and F1 over all questions, and separately over those with and without an answer; where all have
        one, the scores of KorQuAD."""
        answers = [[text for text, _ in example["answers"]] for example in examples]
        return korquad_scores(predictions, answers) if all(answers) else squad2_scores(predictions, answers)

    def _question_score(self, prediction: str, example: Example) -> float:
        return squad2_values(prediction, [text for text, _ in example["answers"]])[self.metric]


def null_scores(logits: dict[str, list[np.ndarray]], features: Features) -> dict[int, float]:
    """The score of no answer by example number: the lowest score of [CLS] over the windows of an example."""
    # lowest, because one window that contains the answer is enough for an answer
    scores: dict[int, float] = {}
    for example, start, end in zip(
        features.arrays["example"].tolist(), logits["start_logits"], logits["end_logits"], strict=True
    ):
        scores[example] = min(scores.get(example, np.inf), float(start[0]) + float(end[0]))
    return scores


def best_threshold(margins: np.ndarray, answered: np.ndarray, unanswered: np.ndarray) -> float:
    """The threshold on `margins` (n,) with the largest sum of scores (n,), where questions above it count as
    `unanswered` and the others as `answered`; the lowest of equally good ones."""
    order = np.argsort(margins, kind="stable")
    ranked = margins[order]
    sums = np.concatenate([[0.0], np.cumsum((answered - unanswered)[order])])  # (n + 1,): the first k are answered
    sums[1:-1][ranked[1:] == ranked[:-1]] = -np.inf  # no threshold separates equal margins
    # midway between two margins, or 1 beyond the outermost, so that rounding does not change predictions
    between = np.concatenate([[ranked[0] - 1], (ranked[1:] + ranked[:-1]) / 2, [ranked[-1] + 1]])
    return float(between[sums.argmax()])


def squad2_values(prediction: str, answers: list[str]) -> dict[str, float]:
    """`exact_match` and `f1` of one question, from 0 to 1, each the best over its answers; without answers "" is
    right."""
    # as in the official script: an answer that normalizes to nothing is none
    expected = [answer for answer in answers if korquad_normalize(answer)] or [""]
    exact = max(korquad_exact_match(prediction, answer) for answer in expected)
    if not korquad_normalize(prediction) or expected == [""]:
        return {"exact_match": exact, "f1": exact}  # as in the official script: 1 if both sides are empty, else 0
    return {"exact_match": exact, "f1": max(korquad_f1(prediction, answer) for answer in expected)}


def squad2_scores(predictions: list[str], answers: list[list[str]]) -> dict[str, float]:
    """Means in percent over all questions, and over those with (HasAns) and without answers (NoAns) where there are
    any."""
    values = [squad2_values(prediction, expected) for prediction, expected in zip(predictions, answers, strict=True)]
    with_answer = [bool(expected) for expected in answers]
    scores = {name: 100.0 * sum(value[name] for value in values) / len(values) for name in ("exact_match", "f1")}
    for part, has in {"HasAns": True, "NoAns": False}.items():
        chosen = [value for value, answerable in zip(values, with_answer, strict=True) if answerable is has]
        if chosen:
            scores |= {f"{part}_exact": 100.0 * sum(value["exact_match"] for value in chosen) / len(chosen)}
            scores |= {f"{part}_f1": 100.0 * sum(value["f1"] for value in chosen) / len(chosen)}
    return scores
