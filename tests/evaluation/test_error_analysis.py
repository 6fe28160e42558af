"""Categories of wrong answers, one case for each, and their counts compared with those of other code."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.evaluation.error_analysis import (
    CATEGORIES,
    PARTICLES,
    Reach,
    analysis,
    category,
    reach,
    reaches,
    sample,
)
from kobert_pipeline.evaluation.report import error_parts, sampling_error, wrong_label_parts
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import korquad_scores
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.tables.squad import paragraphs
from kobert_pipeline.tokenizer.report import ceiling

CONTEXT = "한글은 세종대왕이 1443년에 만들었다. 처음 이름은 훈민정음이었다."
GOOD = Reach(True, True, 2)
LONGEST = 30


def category_of(given: str, answer: str, found: Reach | None = GOOD) -> str | None:
    start = CONTEXT.index(given) if given else -1
    example = {"context": CONTEXT, "answers": [[answer, CONTEXT.index(answer)]] if answer else []}
    return category(example, given, (start, start + len(given)) if given else None, found, LONGEST)


@pytest.mark.parametrize(
    ("given", "answer", "expected"),
    [
        ("세종대왕", "세종대왕", None),
        ("세종대왕이", "세종대왕", "too_much"),
        ("은 세종대왕이", "세종대왕", "too_much"),
        ("대왕", "세종대왕", "too_little"),
        ("1443", "1443년", "too_little"),
        ("1443년에 만들었다.", "1443년", "too_much"),
        ("세종대왕이 1443년에 만들었다", "1443년", "overlapping"),
        ("대왕이 1443", "세종대왕", "overlapping"),
        ("훈민정음", "세종대왕", "elsewhere"),
        ("한글은", "세종대왕", "elsewhere"),
        ("", "세종대왕", "unanswered"),
    ],
)
def test_misplaced_answers(given: Any, answer: Any, expected: Any) -> None:
    assert category_of(given, answer) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Reach(False, False, 0), "outside_windows"),
        (Reach(True, False, 31), "too_long"),
        (Reach(True, False, 30), "off_boundaries"),
        (Reach(True, True, 30), "too_much"),
    ],
)
def test_what_no_model_could_answer_comes_first(found: Any, expected: Any) -> None:
    assert category_of("세종대왕이", "세종대왕", found) == expected
    assert category_of("세종대왕", "세종대왕", found) is None, "a right answer is no error, whatever its reach"


def test_questions_without_an_answer() -> None:
    assert category_of("세종대왕", "", None) == "no_answer_there"
    assert category_of("", "", None) is None
    assert category_of(".", "", None) is None, "mere punctuation is scored as no answer"


def test_reach_by_hand() -> None:
    text = "가나다라 마바"
    window = np.array([(-1, -1), (0, 2), (2, 4), (5, 7), (-1, -1)])
    example = {"context": text, "answers": [["나다", 1]]}
    assert reach([window], example) == Reach(True, False, 2)
    assert reach([window], {"context": text, "answers": [["다라 마바", 2]]}) == Reach(True, True, 2)
    assert reach([window[:2], window[2:]], {"context": text, "answers": [["가나다라", 0]]}) == Reach(False, True, 0)
    assert reach([window], {"context": text, "answers": [["나다", 1], ["가나", 0]]}) == Reach(True, True, 1)
    assert reach([], example) == Reach(False, False, 0)


def predicted(features: Features, predictions: list[str], spans: dict[int, tuple[int, int]]) -> Predicted:
    """These predictions and spans, without a model."""
    found = Predicted(Task.choose("korquad"), features, {}, predictions)
    vars(found)["spans"] = spans
    return found


def featurized(corpora: Path, tiny: Any, max_length: int = 128) -> Features:
    task, tokenizer = Task.choose("korquad"), load_tokenizer(tiny.run_dir / "tokenizer")
    examples = task.read(corpora / "qa_train.json")
    # some answers end inside tokens
    for example in examples[::3]:
        text, start = example["answers"][0]
        example["answers"] = [[text[:-1] or text, start]]
    return Features(task.featurize(examples, tokenizer, max_length), examples)


def test_answers_off_boundaries_are_as_many_as_the_tokenizers_report_counts(corpora: Path, tiny: Any) -> None:
    features = featurized(corpora, tiny)
    rows = [
        {
            "context": one["context"],
            "qas": [{"answers": [{"text": text, "answer_start": start} for text, start in one["answers"]]}],
        }
        for one in features.examples
    ]
    tokenizer = load_tokenizer(tiny.run_dir / "tokenizer")
    expected = ceiling(rows, lambda texts: tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True))
    missed = sum(not found.on_boundaries for found in reaches(features) if found)
    assert missed == expected["missed"] > 0
    assert len(list(paragraphs(corpora / "qa_train.json"))) > 5


@pytest.fixture(scope="module")
def features(corpora: Path, tiny: Any) -> Features:
    return featurized(corpora, tiny)


def test_categories_are_all_the_errors_and_no_more(features: Features) -> None:
    for seed in range(8):
        rng, spans = random.Random(seed), {}
        for number, example in enumerate(features.examples):
            text, start = example["answers"][0]
            left = max(start - rng.choice([-1, 0, 0, 1, 6]), 0)
            spans[number] = (
                left,
                min(max(left, start + len(text) + rng.choice([-1, 0, 0, 1, 9])), len(example["context"])),
            )
        if seed:  # some far away, some none; with seed 0 all are near
            spans |= dict.fromkeys(range(seed, len(spans), 9), (0, 2))
            spans = {number: span for number, span in spans.items() if number % 11 != seed}
        predictions = [example["context"][slice(*spans.get(i, (0, 0)))] for i, example in enumerate(features.examples)]
        found = analysis(predicted(features, predictions, spans), LONGEST)
        scores = korquad_scores(
            predictions, [[text for text, _ in example["answers"]] for example in features.examples]
        )
        assert found["wrong"] == round(len(predictions) * (1 - scores["exact_match"] / 100)) > 0
        counts = {one["name"]: one["count"] for one in found["categories"]}
        assert list(counts) == list(CATEGORIES)
        assert sum(counts.values()) == found["wrong"]
        assert sum(one["percent_of_errors"] for one in found["categories"]) == pytest.approx(100, abs=0.05)
        assert all(counts[name] for name in ("too_much", "too_little", "overlapping"))
        assert counts["elsewhere"] >= bool(seed) and counts["unanswered"] >= bool(seed)


def test_ends_are_counted_with_the_particles_among_them() -> None:
    example = {"id": "q", "group": "", "question": "?", "context": CONTEXT, "answers": [["세종대왕", 4]]}
    # one window per question, whose tokens are [CLS], 세종대왕 and 이
    three = {
        "windows": np.array([0, 3, 6, 9]),
        "offsets": np.tile([(-1, -1), (4, 8), (8, 9)], (3, 1)),
        "example": np.arange(3),
    }
    spans = {0: (4, 9), 1: (2, 9), 2: (4, 15)}
    predictions = [CONTEXT[start:end] for start, end in spans.values()]
    found = analysis(predicted(Features(three, [example] * 3), predictions, spans), LONGEST)
    ends = found["ends"]["too_much"]
    assert "이" in PARTICLES
    assert ends == {"by_a_particle": 1, "particles": {"이": 1}, "before": {"은": 1}, "after": {"이": 2}}
    assert {one["name"]: one["count"] for one in found["categories"] if one["count"]} == {
        "too_much": 2,
        "overlapping": 1,
    }
    page = error_parts(found)
    assert "A few characters too many before the answer: 은 1." in page
    assert "A few characters too many after the answer (by a particle alone: 1): 이 2." in page
    assert any("[세종대왕]" in part for part in page)
    shown = found["samples"]["too_much"][0]
    assert shown["answered_in"] == "한글은 [세종대왕]이 1443년에 만"
    assert shown["predicted_in"] == "한글은 [세종대왕이] 1443년에 만들"


def test_a_wrong_answer_to_a_question_without_one_is_shown_alone() -> None:
    examples = [{"id": 1, "question": "누가?", "context": CONTEXT, "answers": []}]
    predicted = Predicted(Task.choose("span"), Features({}, examples), {}, ["세종대왕"])
    predicted.__dict__["spans"] = {0: (4, 8)}
    row = sample(predicted, 0)
    assert row.keys() == {"id", "question", "prediction", "predicted_in"} and "세종대왕" in row["predicted_in"]


def test_a_page_says_nothing_where_nothing_is_known() -> None:
    assert sampling_error({"scores": {"pearson": 80.0}, "examples": 100}) == ""
    assert sampling_error({"scores": {"accuracy": 80.0}, "examples": 100}).endswith("error of accuracy is 4.00.")
    assert wrong_label_parts([], 100) == [
        "0 of 100 predictions differ from the label of the file. The most confident are first."
    ]
