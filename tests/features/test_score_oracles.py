"""Scores of labels, and the correlations of similarity and reports by class against SciPy and scikit-learn on a hundred
cases each, in the slow suite on a thousand."""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from kobert_pipeline.features.metrics import (
    CLASSIFICATION,
    classification_report,
    pearson,
    spearman,
)

every_count = pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.slow)])


def labelled(cases: int) -> Iterator[tuple[list[int], list[int]]]:
    """Random predictions and labels, a tenth of them constant on one side or both."""
    rng = np.random.default_rng(0)
    for case in range(cases):
        size, kinds = int(rng.integers(1, 40)), int(rng.integers(2, 7))
        sides = [rng.integers(0, kinds, size) for _ in range(2)]
        if rng.random() < 0.5:
            sides[0] = np.where(rng.random(size) < 0.8, sides[1], sides[0])
        for side in {0: [0], 1: [1], 2: [0, 1]}.get(case % 30, []):
            sides[side] = np.full(size, rng.integers(0, kinds))
        yield sides[0].tolist(), sides[1].tolist()


@pytest.mark.parametrize(
    ("score", "percent"),
    [("accuracy", 60.0), ("f1", 80.0), ("macro_f1", 100 * (0.8 + 2 / 3) / 3), ("mcc", 700 / 192**0.5)],
)
def test_scores_of_labels_are_in_percent(score: str, percent: float) -> None:
    """Both 1s and the 2 are found, one 0 is taken for 1 and one for 2."""
    assert CLASSIFICATION[score]([1, 1, 2, 2, 1], [1, 0, 2, 0, 1]) == pytest.approx(percent)


@pytest.mark.parametrize("score", ["f1", "macro_f1", "mcc"])
def test_what_is_never_right_scores_nought(score: str) -> None:
    assert CLASSIFICATION[score]([0, 0], [2, 2]) == 0.0


def scored(cases: int) -> Iterator[tuple[list[float], list[float]]]:
    """Predictions and scores, half of the scores in steps, so that there are ties."""
    rng = np.random.default_rng(1)
    for case in range(cases):
        size = int(rng.integers(3, 60))
        right = rng.uniform(0, 5, size)
        right = np.round(right) if case % 2 else right
        given = right * rng.choice([-1, 0.5, 1]) + rng.normal(0, rng.choice([0.1, 1, 5]), size)
        given = np.round(given, 1) if case % 3 == 0 else given
        if np.ptp(right) and np.ptp(given):
            yield given.tolist(), right.tolist()


@every_count
def test_correlations_equal_scipy(cases: int) -> None:
    found = list(scored(cases))
    assert len(found) > 0.98 * cases
    for given, right in found:
        assert pearson(given, right) == pytest.approx(100 * stats.pearsonr(given, right).statistic, abs=1e-9)
        assert spearman(given, right) == pytest.approx(100 * stats.spearmanr(given, right).statistic, abs=1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, 3.3])
def test_constant_predictions_score_nought(constant: float) -> None:
    steps = [0.1 * i for i in range(7)]
    assert pearson([constant] * 7, steps) == spearman(steps, [constant] * 7) == pearson([constant], [2.0]) == 0.0


@pytest.mark.parametrize("score", CLASSIFICATION)
def test_sides_of_different_length_are_refused(score: str) -> None:
    with pytest.raises(ValueError, match=r"shorter|inconsistent"):
        CLASSIFICATION[score]([1, 0], [1])


@every_count
def test_classification_report_equals_scikit_learn(cases: int) -> None:
    """Classes without an example, and classes that are never predicted, among them."""
    for predictions, labels in labelled(cases):
        numbers = list(range(7))
        found = classification_report(predictions, labels, [f"class {number}" for number in numbers])
        given = {"y_true": labels, "y_pred": predictions, "labels": numbers}
        columns = sklearn_metrics.precision_recall_fscore_support(**given, zero_division=0)
        for name, expected in zip(("precision", "recall", "f1"), columns, strict=False):
            assert [row[name] for row in found["classes"]] == pytest.approx(100 * expected, abs=1e-4), name
        assert [row["support"] for row in found["classes"]] == columns[3].tolist()
        assert found["confusion_matrix"] == sklearn_metrics.confusion_matrix(**given).tolist()
