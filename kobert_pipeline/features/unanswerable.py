"""The shape of span tasks whose contexts need not answer the question (SQuAD 2.0, KLUE-MRC). Such an example's
`answers` are empty.

As in BERT's treatment (Devlin et al. 2019, section 4.3) the span of no answer is [CLS], and none is given where its
score exceeds that of the best span by more than a threshold, which the dev set settles. Scores follow the official
evaluation of SQuAD 2.0 (Rajpurkar, Jia and Liang, *Know What You Don't Know*, ACL 2018), over KorQuAD's normalised
characters.
"""

from typing import Any, ClassVar, Self

import numpy as np

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import korquad_exact_match, korquad_f1, korquad_normalize, korquad_scores
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Example


class UnanswerableTask(SpanTask):
    """Questions with a span of their context, or without one. Where all have one it is the same as a `SpanTask`."""

    inference_options: ClassVar[tuple[str, ...]] = (*SpanTask.inference_options, "null_threshold")

    null_threshold: float | None = None
    """By how much the score of no answer must exceed that of the best span for none to be given; null: found on dev, as
    that with the best `metric` there. Where every dev question has an answer there is none, and every question is
    answered."""

    def calibrate(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        """With the threshold, unless it was given, or every question has an answer."""
        if self.null_threshold is not None or all(example["answers"] for example in features.examples):
            return self
        best, nulls = self.best_spans(logits, features), null_scores(logits, features)
        if not best:
            return self
        margins = np.array([nulls[i] - span[0] for i, span in best.items()])
        asked = [features.examples[i] for i in best]
        answered = [
            self._question_score(example["context"][span[1] : span[2]], example)
            for example, span in zip(asked, best.values(), strict=True)
        ]
        left = [self._question_score("", example) for example in asked]
        return self.model_copy(update={"null_threshold": best_threshold(margins, np.array(answered), np.array(left))})

    def answer_spans(
        self, logits: dict[str, list[np.ndarray]], features: Features
    ) -> dict[int, tuple[float, int, int]]:
        """The best spans, without those that the score of no answer exceeds by more than the threshold: they are
        predicted as ""."""
        best = self.best_spans(logits, features)
        if self.null_threshold is None:
            return best
        nulls = null_scores(logits, features)
        return {i: span for i, span in best.items() if nulls[i] - span[0] <= self.null_threshold}

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Exact match and F1 over all questions, and over those with and those without an answer; where all have one,
        as for KorQuAD."""
        answers = [[text for text, _ in example["answers"]] for example in examples]
        return korquad_scores(predictions, answers) if all(answers) else squad2_scores(predictions, answers)

    def _question_score(self, prediction: str, example: Example) -> float:
        return squad2_values(prediction, [text for text, _ in example["answers"]])[self.metric]


def null_scores(logits: dict[str, list[np.ndarray]], features: Features) -> dict[int, float]:
    """By example, the score of [CLS] as its span: the least over its windows, since one that holds the answer
    suffices."""
    scores: dict[int, float] = {}
    for example, start, end in zip(
        features.arrays["example"].tolist(), logits["start_logits"], logits["end_logits"], strict=True
    ):
        scores[example] = min(scores.get(example, np.inf), float(start[0]) + float(end[0]))
    return scores


def best_threshold(margins: np.ndarray, answered: np.ndarray, unanswered: np.ndarray) -> float:
    """The threshold, each (n,): a question whose margin exceeds it counts its value in `unanswered`, another that in
    `answered`; the sum is the largest there is. It lies midway between two margins (1 beyond the last ones), so that
    rounding changes no prediction; of equally good ones the lowest is taken."""
    order = np.argsort(margins, kind="stable")
    ranked = margins[order]
    sums = np.concatenate([[0.0], np.cumsum((answered - unanswered)[order])])  # (n + 1,): the first k are answered
    sums[1:-1][ranked[1:] == ranked[:-1]] = -np.inf  # equal margins are not parted
    between = np.concatenate([[ranked[0] - 1], (ranked[1:] + ranked[:-1]) / 2, [ranked[-1] + 1]])
    return float(between[sums.argmax()])


def squad2_values(prediction: str, answers: list[str]) -> dict[str, float]:
    """`exact_match` and `f1` of one question, from 0 to 1, each the best over its answers; none at all means that "" is
    right."""
    wanted = [answer for answer in answers if korquad_normalize(answer)] or [""]
    exact = max(korquad_exact_match(prediction, answer) for answer in wanted)
    if not korquad_normalize(prediction) or wanted == [""]:
        return {"exact_match": exact, "f1": exact}  # official: where a side is empty, 1 if both are
    return {"exact_match": exact, "f1": max(korquad_f1(prediction, answer) for answer in wanted)}


def squad2_scores(predictions: list[str], answers: list[list[str]]) -> dict[str, float]:
    """Means over the questions in percent, and those over questions with (HasAns) and without answers (NoAns), as far
    as there are any."""
    values = [squad2_values(given, wanted) for given, wanted in zip(predictions, answers, strict=True)]
    with_answer = [bool(wanted) for wanted in answers]
    scores = {name: 100.0 * sum(value[name] for value in values) / len(values) for name in ("exact_match", "f1")}
    for part, has in {"HasAns": True, "NoAns": False}.items():
        chosen = [value for value, answerable in zip(values, with_answer, strict=True) if answerable is has]
        if chosen:
            scores |= {f"{part}_exact": 100.0 * sum(value["exact_match"] for value in chosen) / len(chosen)}
            scores |= {f"{part}_f1": 100.0 * sum(value["f1"] for value in chosen) / len(chosen)}
    return scores
