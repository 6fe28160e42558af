"""How likely an answer is exactly right, from the scores of all spans among which it was chosen."""

from typing import Self

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options

TEMPERATURES = 2.0 ** np.arange(-4, 10, 0.25)
"""The temperatures that are tried: scores are sums of two logits, with priors of tens added, and some models' reach
hundreds."""
NO_RIVALS = 1e-6
"""The least share of all other spans, relative to the best span's."""


class AnswerCalibration(Options):
    """A softmax over all spans at a temperature (Guo et al., 2017), and then a line on the log-odds of the best one
    (Platt, 1999). Without the line its share is no probability: an answer has near copies among the spans, which take
    a part of it, and a model may be sure of a wrong answer."""

    temperature: float = Field(gt=0)
    """Temperature by which scores are divided before the softmax."""
    slope: float = Field(ge=0)
    """Slope of the line. 0: the scores say nothing of whether an answer is right."""
    intercept: float
    """Intercept of the line."""

    def probability(self, scores: np.ndarray) -> float:
        """The probability that the best span is right, from the `scores` (n,) of all that could be answered."""
        odds = self.slope * float(log_odds(scores, np.array([self.temperature]))[0]) + self.intercept
        return float(1 / (1 + np.exp(-odds)))

    @classmethod
    def fit(cls, odds: np.ndarray, right: np.ndarray) -> Self | None:
        """The likeliest calibration for answers with these `log_odds`, (answers, TEMPERATURES), where `right`,
        (answers,), says which are right; None where all are, or none."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import log_loss

        if right.all() or not right.any():
            return None
        fitted = []
        for temperature, column in zip(TEMPERATURES.tolist(), odds.T, strict=True):
            # infinite C is no penalty: the likeliest line is asked for
            line = LogisticRegression(C=np.inf).fit(column[:, None], right)
            slope, intercept = float(line.coef_[0, 0]), float(line.intercept_[0])
            if slope < 0:  # the surer, the more often wrong: by chance, among few answers
                slope, intercept = 0.0, float(np.log(right.mean() / (1 - right.mean())))
            loss = log_loss(right, 1 / (1 + np.exp(-(slope * column + intercept))))
            fitted.append((loss, temperature, slope, intercept))
        _, *values = min(fitted)
        temperature, slope, intercept = (round(value, 4) for value in values)
        return cls(temperature=temperature, slope=slope, intercept=intercept)


def log_odds(scores: np.ndarray, temperatures: np.ndarray) -> np.ndarray:
    """The log-odds, at each temperature, of the best of `scores` (n,) in a softmax over them."""
    ratios = np.exp((scores - scores.max())[:, None] / temperatures)  # (n, temperatures)
    # the best one's share is p = 1 / sum, so p / (1 - p) = 1 / (sum - 1)
    odds: np.ndarray = -np.log(np.maximum(ratios.sum(0) - 1, NO_RIVALS))
    return odds
