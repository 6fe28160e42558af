"""Why answers are wrong: each question whose exact match is 0 is put into one category, the first that holds, so that
shares add up."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import korquad_exact_match, korquad_f1
from kobert_pipeline.features.span import answer_tokens
from kobert_pipeline.features.task import Example
from kobert_pipeline.finetune.model import Predicted
from kobert_pipeline.tokenizer.report import around, same_answer, unseen

CATEGORIES = {
    "no_answer_there": "the question has no answer in the text, and one was given",
    "outside_windows": "no window holds the whole answer",
    "too_long": "the answer has more tokens than are searched for",
    "off_borders": "the answer does not end on token borders, so no model over these tokens can be right",
    "unanswered": "nothing was given",
    "too_much": "the right place, and a few characters more",
    "too_little": "the right place, and a few characters less",
    "overlapping": "shares characters with the answer, and differs by more",
    "elsewhere": "another place altogether",
}
"""In the order in which they are asked for. The first four cannot be helped by a better model of the same settings."""
SHORT = 5
"""Characters, white space and punctuation aside, that a span of the right place is off at most, both ends together."""
COMMONEST, SAMPLES = 20, 3

_PARTICLES = """
이 가 은 는 을 를 의 에 에서 에게 에게서 께 께서 한테 와 과 랑 이랑 하고 로 으로 로서 으로서 로써 으로써 로부터 으로부터
부터 까지 도 만 마저 조차 뿐 밖에 보다 처럼 같이 마다 이나 나 이라 라 이란 란 이라는 라는 이라고 라고 이며 며 이고 고 이다
다 이었다 였다 인 이자 에는 에서는 에도 에서의 에의 과의 와의 로의 으로의 까지의 부터의 이었으며 였으며 이라며 이었던 였던 이었고
였고 이었는데 였는데 입니다
"""
PARTICLES = frozenset(_PARTICLES.split())
"""Particles, pairs of them, and forms of the copula 이다: what is written behind a noun without a space."""

Place = tuple[int, int]


class Reach(NamedTuple):
    """What windows and tokens allow for an example: whether some answer lies in a window, whether one begins and ends
    with tokens (as `tokenizer.report.ceiling` counts it), and the fewest tokens that hold one in a window, 0 where none
    does."""

    in_window: bool
    on_borders: bool
    tokens: int


def reaches(features: Features) -> Iterator[Reach | None]:
    """One per example; None where it has no answer."""
    windows, offsets = features.arrays["windows"], features.arrays["offsets"]
    of_example: dict[int, list[np.ndarray]] = {}
    for i, number in enumerate(features.arrays["example"].tolist()):
        of_example.setdefault(number, []).append(offsets[windows[i] : windows[i + 1]])
    for number, example in enumerate(features.examples):
        yield reach(of_example.get(number, []), example) if example["answers"] else None


def reach(windows: list[np.ndarray], example: Example) -> Reach:
    """What is in reach of an example whose windows have these offsets, (L, 2) each."""
    rows = [window.tolist() for window in windows]
    begins = {left for row in rows for left, right in row if right > left}
    ends = {right for row in rows for left, right in row if right > left}
    found = [answer_tokens(row, [answer]) for row in rows for answer in example["answers"]]
    lengths = [last - first + 1 for first, last in found if last]
    context = example["context"]
    on_borders = any(
        same_answer(context, left, begins) and same_answer(context, right, ends) for left, right in places(example)
    )
    return Reach(bool(lengths), on_borders, min(lengths, default=0))


def places(example: Example) -> list[Place]:
    """Where the answers stand."""
    return [(start, start + len(text)) for text, start in example["answers"]]


def category(example: Example, prediction: str, span: Place | None, reach: Reach | None, longest: int) -> str | None:
    """Why `prediction` is wrong, one of `CATEGORIES`; None where it is right. `span` is where it stands, `longest` what
    is searched for."""
    if any(korquad_exact_match(prediction, text) for text in [text for text, _ in example["answers"]] or [""]):
        return None
    if reach is None:
        return "no_answer_there"
    if not reach.in_window:
        return "outside_windows"
    if reach.tokens > longest:
        return "too_long"
    if not reach.on_borders:
        return "off_borders"
    if not prediction or span is None:
        return "unanswered"
    return misplaced(example["context"], span, nearest(span, places(example)))


def nearest(span: Place, answers: list[Place]) -> Place:
    """The answer that shares most characters with `span`, the first of equals."""
    return max(answers, key=lambda answer: min(span[1], answer[1]) - max(span[0], answer[0]))


def misplaced(context: str, span: Place, answer: Place) -> str:
    """How a span misses the answer."""
    if span[1] <= answer[0] or answer[1] <= span[0]:
        return "elsewhere"
    before, after = differences(context, span, answer)
    if len(seen(before[1:])) + len(seen(after[1:])) <= SHORT:
        signs = {difference[0] for difference in (before, after) if seen(difference[1:])}
        if signs <= {"+"}:
            return "too_much"
        if signs == {"-"}:
            return "too_little"
    return "overlapping"


def differences(context: str, span: Place, answer: Place) -> tuple[str, str]:
    """What a span has too much (+) or too little (-) before and behind the answer, such as ("-", "+의")."""
    before = ("+" if span[0] < answer[0] else "-") + context[min(span[0], answer[0]) : max(span[0], answer[0])]
    after = ("+" if span[1] > answer[1] else "-") + context[min(span[1], answer[1]) : max(span[1], answer[1])]
    return before, after


def seen(text: str) -> str:
    """What the metric sees of a difference."""
    return "".join(character for character in text if not unseen(character))


def analysis(got: Predicted, longest: int) -> dict[str, Any]:
    """Counts of the categories, what stands at the ends of answers that are off by little, and examples."""
    rows = zip(got.features.examples, got.predictions, reaches(got.features), strict=True)
    found: dict[str, list[int]] = {name: [] for name in CATEGORIES}
    for number, (example, prediction, reach) in enumerate(rows):
        name = category(example, prediction, got.spans.get(number), reach, longest)
        if name is not None:
            found[name].append(number)
    wrong, total = sum(map(len, found.values())), len(got.predictions)
    return {
        "questions": total,
        "wrong": wrong,
        "categories": [
            {
                "name": name,
                "meaning": meaning,
                "count": len(found[name]),
                "percent_of_errors": round(100 * len(found[name]) / max(wrong, 1), 2),
                "percent_of_questions": round(100 * len(found[name]) / max(total, 1), 2),
                "f1": round(100 * sum(best_f1(got, number) for number in found[name]) / max(len(found[name]), 1), 2),
            }
            for name, meaning in CATEGORIES.items()
        ],
        "ends": {name: at_the_ends(got, found[name]) for name in ("too_much", "too_little")},
        "samples": {name: [shown(got, number) for number in spread(numbers)] for name, numbers in found.items()},
    }


def best_f1(got: Predicted, number: int) -> float:
    """KorQuAD's F1 of a prediction, from 0 to 1."""
    return max(
        (korquad_f1(got.predictions[number], text) for text, _ in got.features.examples[number]["answers"]), default=0.0
    )


def at_the_ends(got: Predicted, numbers: list[int]) -> dict[str, Any]:
    """What answers that are off by little have too much or too little, by count, and how many by a particle behind them
    alone."""
    sides: dict[str, Counter[str]] = {"before": Counter(), "behind": Counter()}
    particles: Counter[str] = Counter()
    for number in numbers:
        example, span = got.features.examples[number], got.spans[number]
        before, after = (seen(one[1:]) for one in differences(example["context"], span, nearest(span, places(example))))
        sides["before"].update([before] if before else [])
        sides["behind"].update([after] if after else [])
        particles.update([after] if after in PARTICLES and not before else [])
    return {
        "by_a_particle": particles.total(),
        "particles": dict(particles.most_common(COMMONEST)),
        **{side: dict(counts.most_common(COMMONEST)) for side, counts in sides.items()},
    }


def spread(numbers: list[int]) -> list[int]:
    """A few of them, from the whole length of the file."""
    return [numbers[len(numbers) * i // SAMPLES] for i in range(SAMPLES)] if len(numbers) > SAMPLES else numbers


def shown(got: Predicted, number: int) -> dict[str, str]:
    """One wrong answer for people to read."""
    example, context = got.features.examples[number], got.features.examples[number]["context"]
    given = {"id": str(example["id"]), "question": example["question"], "prediction": got.predictions[number]}
    if number in got.spans and got.predictions[number]:
        given["predicted_in"] = " ".join(around(context, *got.spans[number]).split())
    if example["answers"]:
        given |= {
            "answer": example["answers"][0][0],
            "answered_in": " ".join(around(context, *places(example)[0]).split()),
        }
    return given
