"""Questions without an answer: scores and threshold against plain second implementations, predictions by hand, and as
KorQuAD where every question has an answer."""

import random
import string
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import korquad_scores
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.unanswerable import best_threshold, null_scores, squad2_scores
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

# the official evaluation of SQuAD 2.0 again, question by question, with KorQuAD's characters for its words

SYMBOLS = "'\"《》<>〈〉()‘’"


def words(text: str) -> list[str]:
    spaced = "".join(" " if character in SYMBOLS else character for character in text).lower()
    return "".join(character for character in spaced if character not in string.punctuation).split()


def official_f1(gold: str, given: str) -> float:
    gold_characters, characters = list("".join(words(gold))), list("".join(words(given)))
    same = sum((Counter(gold_characters) & Counter(characters)).values())
    if len(gold_characters) == 0 or len(characters) == 0:
        return float(gold_characters == characters)
    if same == 0:
        return 0.0
    precision, recall = same / len(characters), same / len(gold_characters)
    return 2 * precision * recall / (precision + recall)


def official(questions: dict[str, list[str]], given: dict[str, str]) -> dict[str, float]:
    exact, f1 = {}, {}
    for key, golds in questions.items():
        golds = [gold for gold in golds if words(gold)]
        if not golds:
            golds = [""]
        exact[key] = max(int(words(gold) == words(given[key])) for gold in golds)
        f1[key] = max(official_f1(gold, given[key]) for gold in golds)

    def mean(scores: dict[str, float], keys: list[str]) -> float:
        return 100.0 * sum(scores[key] for key in keys) / len(keys)

    found = {"exact_match": mean(exact, list(questions)), "f1": mean(f1, list(questions))}
    for part, keys in {
        "HasAns": [k for k in questions if questions[k]],
        "NoAns": [k for k in questions if not questions[k]],
    }.items():
        if keys:
            found |= {f"{part}_exact": mean(exact, keys), f"{part}_f1": mean(f1, keys)}
    return found


def test_scores_equal_the_official_evaluation_on_a_thousand_random_cases() -> None:
    rng = random.Random(0)

    def text() -> str:
        return "".join(rng.choice("가나다라a B.,'《》() 1") for _ in range(rng.randrange(6)))

    kinds: Counter[frozenset[str]] = Counter()
    for _ in range(1000):
        size = rng.randrange(1, 9)
        questions = {str(i): [text() or "가" for _ in range(rng.randrange(3))] for i in range(size)}
        predictions = {key: rng.choice([*golds, text(), ""]) for key, golds in questions.items()}
        expected = official(questions, predictions)
        found = squad2_scores(list(predictions.values()), list(questions.values()))
        assert found == pytest.approx(expected)
        kinds[frozenset(found)] += 1
    assert len(kinds) == 3 and min(kinds.values()) > 20, "only with, only without, and both"


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [
        ("", [], 100, 100),
        ("부산", [], 0, 0),
        ("...", [], 100, 100),  # nothing is left of it
        ("", ["부산"], 0, 0),
        ("부산시", ["부산", "부산시"], 100, 100),
        ("...", ["부산"], 0, 0),
        ("", ["..."], 100, 100),
    ],
)
def test_known_answers(prediction: Any, answers: Any, exact: Any, f1: Any) -> None:
    found = squad2_scores([prediction], [answers])
    assert (found["exact_match"], found["f1"]) == (exact, f1)


def klue_value(prediction: str, answer: str) -> tuple[float, float]:
    """KLUE's exact match and ROUGE-W of normalized texts, by trying every run of characters."""
    if not answer:
        return float(not prediction), float(not prediction)
    runs = {prediction[i:j] for i in range(len(prediction)) for j in range(i + 1, len(prediction) + 1)}
    longest = max((len(run) for run in runs if run in answer), default=0)
    if not longest:
        return 0.0, 0.0
    precision, recall = longest / len(prediction), longest / len(answer)
    return float(prediction == answer), 2 * precision * recall / (precision + recall)


answers = st.text("가나다 aB《》.,'(", max_size=6)


@given(st.lists(st.tuples(answers, st.lists(answers, max_size=3)), min_size=1, max_size=8))
def test_scores_of_klue_equal_its_definition_by_brute_force(questions: list[tuple[str, list[str]]]) -> None:
    def normalized(text: str) -> str:
        return " ".join("".join(c for c in text.lower() if c not in string.punctuation).split())

    values = []
    for prediction, right in questions:
        pairs = [klue_value(normalized(prediction), normalized(answer)) for answer in right or [""]]
        values.append([max(column) for column in zip(*pairs, strict=True)])
    exact, rouge = (100 * sum(column) / len(values) for column in zip(*values, strict=True))
    examples = [{"answers": [[answer, 0] for answer in right]} for _, right in questions]
    found = Task.choose("mrc").score([prediction for prediction, _ in questions], examples)
    assert (found["klue_exact_match"], found["rouge_w"]) == pytest.approx((exact, rouge))


values = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(st.lists(st.tuples(st.integers(-4, 4), values, values), min_size=1, max_size=12))
def test_the_threshold_is_the_best_of_all_by_brute_force(questions: list[tuple[int, float, float]]) -> None:
    margins, answered, left = (np.array(side, float) for side in zip(*questions, strict=True))

    def total(threshold: float) -> float:
        return sum(none if margin > threshold else value for margin, value, none in questions)

    found = best_threshold(margins, answered, left)
    tried = [total(threshold) for threshold in np.arange(-6, 6, 0.25)]
    assert total(found) == pytest.approx(max(tried))
    assert found not in margins, "rounding of a margin decides nothing"
    lower = [threshold for threshold in np.arange(-6, 6, 0.25) if total(threshold) == pytest.approx(max(tried))]
    ranked = np.unique(margins)
    assert np.searchsorted(ranked, found) == np.searchsorted(ranked, lower[0], "right"), (
        "of equally good ones the lowest"
    )


def windows(*rows: tuple[int, float, float]) -> tuple[dict[str, list[np.ndarray]], np.ndarray, np.ndarray]:
    """Logits, offsets and examples of windows ([CLS], one token of context at character 0 to 2): (example, [CLS]'s
    score, the token's)."""
    logits = {
        name: [np.array([null, span, 99.0]) / 2 for _, null, span in rows]  # the last is padding
        for name in ("start_logits", "end_logits")
    }
    return logits, np.array([(-1, -1), (0, 2)] * len(rows)), np.array([example for example, _, _ in rows])


def features_of(examples: list[dict[str, Any]], offsets: np.ndarray, example_of: np.ndarray) -> Features:
    return Features({"windows": np.arange(0, len(offsets) + 1, 2), "offsets": offsets, "example": example_of}, examples)


ASKED = [
    {"context": "부산에서", "answers": [["부산", 0]]},
    {"context": "서울에서", "answers": []},
    {"context": "대구에서", "answers": [["대구", 0]]},
    {"context": "광주에서", "answers": []},
]
ROWS = [(0, 5, 2), (0, -1, 4), (1, 3, 4), (1, 6, 0), (2, 4, 2), (2, 4, 1), (3, 9, 3)]  # margins: -5, -1, 2, 6


def test_the_null_score_is_the_least_over_the_windows() -> None:
    logits, offsets, example_of = windows(*ROWS)
    assert null_scores(logits, features_of(ASKED, offsets, example_of)) == {0: -1, 1: 3, 2: 4, 3: 9}


@pytest.mark.parametrize("name", ["mrc", "span"])
def test_dev_settles_the_threshold_and_other_sets_are_predicted_by_it(name: Any) -> None:
    logits, offsets, example_of = windows(*ROWS)
    features = features_of(ASKED, offsets, example_of)
    task = Task.choose(name)
    assert task.predict(logits, features) == ["부산", "서울", "대구", "광주"], "nothing is settled yet"
    settled = task.calibrate(logits, features)
    assert settled.null_threshold == -3.0, "three right with it, as with 4.0; the lowest is taken"
    assert settled.predict(logits, features) == ["부산", "", "", ""], name
    of_klue = {"klue_exact_match": 75, "rouge_w": 75} if name == "mrc" else {}
    assert settled.score(settled.predict(logits, features), ASKED) == of_klue | {
        "exact_match": 75, "f1": 75, "HasAns_exact": 50, "HasAns_f1": 50, "NoAns_exact": 100, "NoAns_f1": 100,
    }, name  # fmt: skip
    assert settled.inference_state() == {"null_threshold": -3.0} and task.inference_state() == {}, name
    assert (
        task.with_inference_state(settled.inference_state()) == settled
        and task.with_inference_state({"max_length": 9}) == task
    ), name


def test_a_threshold_that_was_given_stays_and_one_is_not_sought_where_every_question_has_an_answer() -> None:
    logits, offsets, example_of = windows(*ROWS)
    features = features_of(ASKED, offsets, example_of)
    given = Task.choose({"name": "mrc", "null_threshold": 4.0})
    assert given.calibrate(logits, features) is given and given.inference_state() == {"null_threshold": 4.0}
    assert given.predict(logits, features) == ["부산", "서울", "대구", ""]
    answerable = features_of(
        [{**example, "answers": [[example["context"][:2], 0]]} for example in ASKED], offsets, example_of
    )
    task = Task.choose("mrc")
    assert task.calibrate(logits, answerable) is task
    assert task.score(task.predict(logits, answerable), answerable.examples) == {
        "exact_match": 100, "f1": 100, "klue_exact_match": 100, "rouge_w": 100,
    }  # fmt: skip


def test_a_context_without_a_token_has_no_answer_and_settles_nothing() -> None:
    logits, _, example_of = windows((0, 1, 2))
    empty = features_of([{"context": "", "answers": []}], np.array([(-1, -1), (-1, -1)]), example_of)
    task = Task.choose("mrc")
    assert task.calibrate(logits, empty) is task
    assert task.predict(logits, empty) == [""]


def test_everything_is_as_for_korquad_where_every_question_has_an_answer(
    corpora: Path, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    rng = np.random.default_rng(0)
    korquad = Task.choose("korquad")
    examples = korquad.read(corpora / "qa_dev.json")
    expected = korquad.featurize(examples, morpheme_tokenizer, 64)
    logits = {
        name: [rng.normal(size=length) for length in np.diff(expected["windows"])]
        for name in ("start_logits", "end_logits")
    }
    predictions = korquad.predict(logits, Features(expected, examples))
    for name in ("mrc", "span"):
        task = Task.choose(name)
        assert task.read(corpora / "qa_dev.json") == examples
        arrays = task.featurize(examples, morpheme_tokenizer, 64)
        assert arrays.keys() == expected.keys() and all((arrays[key] == expected[key]).all() for key in arrays)
        features = Features(arrays, examples)
        calibrated = task.calibrate(logits, features)
        assert calibrated.predict(logits, features) == predictions
        answers = [[answer for answer, _ in example["answers"]] for example in examples]
        assert korquad.score(predictions, examples) == korquad_scores(predictions, answers)
        assert korquad_scores(predictions, answers).items() <= calibrated.score(predictions, examples).items()


def test_a_question_without_an_answer_is_learned_as_the_first_token_of_each_window(
    morpheme_tokenizer: MorphemeTokenizer,
) -> None:
    example = {"id": "1", "question": "언제 지었는가?", "context": "첨성대는 경주시에 있다. " * 30, "answers": []}
    arrays = Task.choose("mrc").featurize([example], morpheme_tokenizer, 64)
    assert len(arrays["start_positions"]) > 2
    assert not arrays["start_positions"].any() and not arrays["end_positions"].any()
