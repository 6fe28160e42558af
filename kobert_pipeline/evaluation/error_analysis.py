"""Why answers to questions are wrong. Each question with an exact match of 0 gets the first category that applies, so
that the shares add up."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kobert_pipeline.features.answer_spans import answer_tokens
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import korquad_exact_match, korquad_f1
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Example
from kobert_pipeline.tokenizer.report import around, same_answer, unseen

CATEGORIES = {
    "no_answer_there": "the question has no answer in the text, and the model gave one",
    "outside_windows": "no window contains the whole answer",
    "too_long": "the answer has more tokens than the longest span that is searched",
    "off_boundaries": "the answer is not on token boundaries, so no model with this tokenizer can be right",
    "unanswered": "the model gave no answer",
    "too_much": "the right place, with a few characters more",
    "too_little": "the right place, with a few characters less",
    "overlapping": "shares characters with the answer, but differs by more",
    "elsewhere": "another place in the text",
}
"""The kinds of errors by name, in the order in which they are checked for. Of the first four, all but `no_answer_there`
are out of reach of a better model with the same options."""
MAX_DIFFERENCE = 5
"""Characters that a span in the right place may differ by, both ends together, without white space and punctuation."""
MOST_COMMON, SAMPLES = 20, 3

_PARTICLES = """
이 가 은 는 을 를 의 에 에서 에게 에게서 께 께서 한테 와 과 랑 이랑 하고 로 으로 로서 으로서 로써 으로써
로부터 으로부터 부터 까지 도 만 마저 조차 뿐 밖에 보다 처럼 같이 마다 이나 나 이라 라 이란 란 이라는 라는 이라고
라고 이며 며 이고 고 이다 다 이었다 였다 인 이자 에는 에서는 에도 에서의 에의 과의 와의 로의 으로의 까지의 부터의
이었으며 였으며 이라며 이었던 였던 이었고 였고 이었는데 였는데 입니다
"""
PARTICLES = frozenset(_PARTICLES.split())
"""Particles, pairs of them, and forms of the copula 이다: what follows a noun without a space."""

Span = tuple[int, int]


class Reach(NamedTuple):
    """What windows and tokenizer allow for the answers of an example."""

    in_window: bool
    """Whether a window contains an answer."""
    on_boundaries: bool
    """Whether an answer starts and ends at token boundaries, as `tokenizer.report.ceiling` counts them."""
    tokens: int
    """The fewest tokens of an answer in a window, 0 if no window contains one."""


def reaches(features: Features) -> Iterator[Reach | None]:
    """The `Reach` of each example; None where it has no answer."""
    windows, offsets = features.arrays["windows"], features.arrays["offsets"]
    windows_of: dict[int, list[np.ndarray]] = {}
    for i, example_index in enumerate(features.arrays["example"].tolist()):
        windows_of.setdefault(example_index, []).append(offsets[windows[i] : windows[i + 1]])
    for index, example in enumerate(features.examples):
        yield reach(windows_of.get(index, []), example) if example["answers"] else None


def reach(windows: list[np.ndarray], example: Example) -> Reach:
    """The `Reach` of an example whose windows have these offsets, (S, 2) each."""
    rows = [window.tolist() for window in windows]
    # special tokens and the question have empty offsets
    starts = {left for row in rows for left, right in row if right > left}
    ends = {right for row in rows for left, right in row if right > left}
    token_spans = [answer_tokens(row, [answer]) for row in rows for answer in example["answers"]]
    lengths = [last - first + 1 for first, last in token_spans if last]  # (0, 0), [CLS]: not in this window
    context = example["context"]
    on_boundaries = any(
        same_answer(context, left, starts) and same_answer(context, right, ends)
        for left, right in answer_spans(example)
    )
    return Reach(bool(lengths), on_boundaries, min(lengths, default=0))


def answer_spans(example: Example) -> list[Span]:
    """The characters of each answer in the context."""
    return [(start, start + len(text)) for text, start in example["answers"]]


def category(
    example: Example, prediction: str, span: Span | None, reach: Reach | None, max_answer_tokens: int
) -> str | None:
    """Why `prediction`, the characters `span` of the context, is wrong: one of `CATEGORIES`; None where it is right."""
    # where the text has no answer, an empty prediction is right
    if any(korquad_exact_match(prediction, text) for text in [text for text, _ in example["answers"]] or [""]):
        return None
    # what no prediction could have changed comes first
    if reach is None:
        return "no_answer_there"
    if not reach.in_window:
        return "outside_windows"
    if reach.tokens > max_answer_tokens:
        return "too_long"
    if not reach.on_boundaries:
        return "off_boundaries"
    if not prediction or span is None:
        return "unanswered"
    return span_error(example["context"], span, nearest(span, answer_spans(example)))


def nearest(span: Span, answers: list[Span]) -> Span:
    """The answer that shares most characters with `span`, the first of equals."""
    # negative where they share none, so that the closest answer is then taken
    return max(answers, key=lambda answer: min(span[1], answer[1]) - max(span[0], answer[0]))


def span_error(context: str, span: Span, answer: Span) -> str:
    """The category of a span that is not the answer's."""
    if span[1] <= answer[0] or answer[1] <= span[0]:
        return "elsewhere"
    before, after = differences(context, span, answer)
    if len(scored(before[1:])) + len(scored(after[1:])) <= MAX_DIFFERENCE:
        signs = {difference[0] for difference in (before, after) if scored(difference[1:])}
        if signs <= {"+"}:
            return "too_much"
        if signs == {"-"}:
            return "too_little"
    return "overlapping"


def differences(context: str, span: Span, answer: Span) -> tuple[str, str]:
    """What a span has too much (+) or too little (-) at the start and at the end, such as ("-", "+의")."""
    # the characters between the two starts, and those between the two ends
    # where two ends are equal there is nothing between them, and the sign alone counts nowhere
    before = ("+" if span[0] < answer[0] else "-") + context[min(span[0], answer[0]) : max(span[0], answer[0])]
    after = ("+" if span[1] > answer[1] else "-") + context[min(span[1], answer[1]) : max(span[1], answer[1])]
    return before, after


def scored(text: str) -> str:
    """The characters of a difference that the metric does not ignore."""
    return "".join(character for character in text if not unseen(character))


def analysis(predicted: Predicted, max_answer_tokens: int) -> dict[str, Any]:
    """Counts of the categories, the ends of answers that are almost right, and samples, as JSON values."""
    rows = zip(predicted.features.examples, predicted.predictions, reaches(predicted.features), strict=True)
    members: dict[str, list[int]] = {name: [] for name in CATEGORIES}  # category -> indices of its examples
    for index, (example, prediction, reach) in enumerate(rows):
        name = category(example, prediction, predicted.spans.get(index), reach, max_answer_tokens)
        if name is not None:
            members[name].append(index)
    wrong, total = sum(map(len, members.values())), len(predicted.predictions)
    return {
        "questions": total,
        "wrong": wrong,
        "categories": [
            {"name": name, "meaning": meaning, **category_row(predicted, members[name], wrong, total)}
            for name, meaning in CATEGORIES.items()
        ],
        "ends": {name: end_differences(predicted, members[name]) for name in ("too_much", "too_little")},
        "samples": {name: [sample(predicted, i) for i in spread(indices)] for name, indices in members.items()},
    }


def category_row(predicted: Predicted, indices: list[int], wrong: int, total: int) -> dict[str, Any]:
    """Count and shares of a category's examples, and their mean F1 in percent."""
    return {
        "count": len(indices),
        "percent_of_errors": round(100 * len(indices) / max(wrong, 1), 2),
        "percent_of_questions": round(100 * len(indices) / max(total, 1), 2),
        "f1": round(100 * sum(best_f1(predicted, index) for index in indices) / max(len(indices), 1), 2),
    }


def best_f1(predicted: Predicted, index: int) -> float:
    """KorQuAD's F1 of a prediction, from 0 to 1."""
    answers = predicted.features.examples[index]["answers"]
    return max((korquad_f1(predicted.predictions[index], text) for text, _ in answers), default=0.0)


def end_differences(predicted: Predicted, indices: list[int]) -> dict[str, Any]:
    """What almost right answers have too much or too little `before` and `after` the answer, by count, and how often
    the only difference is a particle after the answer."""
    sides: dict[str, Counter[str]] = {"before": Counter(), "after": Counter()}
    particles: Counter[str] = Counter()
    for index in indices:
        example, span = predicted.features.examples[index], predicted.spans[index]
        ends = differences(example["context"], span, nearest(span, answer_spans(example)))
        before, after = (scored(end[1:]) for end in ends)
        sides["before"].update([before] if before else [])
        sides["after"].update([after] if after else [])
        particles.update([after] if after in PARTICLES and not before else [])
    return {
        "by_a_particle": particles.total(),
        "particles": dict(particles.most_common(MOST_COMMON)),
        **{side: dict(counts.most_common(MOST_COMMON)) for side, counts in sides.items()},
    }


def spread(indices: list[int]) -> list[int]:
    """At most `SAMPLES` of the indices, evenly spread over the file."""
    return [indices[len(indices) * i // SAMPLES] for i in range(SAMPLES)] if len(indices) > SAMPLES else indices


def sample(predicted: Predicted, index: int) -> dict[str, str]:
    """A wrong answer with its question and surroundings, for the report."""
    example, context = predicted.features.examples[index], predicted.features.examples[index]["context"]
    row = {"id": str(example["id"]), "question": example["question"], "prediction": predicted.predictions[index]}
    if index in predicted.spans and predicted.predictions[index]:
        row["predicted_in"] = " ".join(around(context, *predicted.spans[index]).split())
    if example["answers"]:
        row["answer"] = example["answers"][0][0]
        row["answered_in"] = " ".join(around(context, *answer_spans(example)[0]).split())
    return row
