"""Scores. KorQuAD's exact match and F1 follow its official definition (evaluate-v1.0: F1 over characters, not words)."""

import string
from collections import Counter

KORQUAD_SYMBOLS = "'\"《》<>〈〉()‘’"
"""Replaced by a space before punctuation is removed."""
_TO_SPACE = str.maketrans(dict.fromkeys(KORQUAD_SYMBOLS, " "))
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(predictions: list[int], labels: list[int]) -> float:
    """Share of equal entries, in percent."""
    return 100.0 * sum(a == b for a, b in zip(predictions, labels, strict=True)) / len(labels)


def korquad_normalize(answer: str) -> str:
    """KorQuAD's `normalize_answer`: symbols to spaces, lower case, ASCII punctuation removed, white space folded."""
    return " ".join(answer.translate(_TO_SPACE).lower().translate(_PUNCTUATION).split())


def korquad_exact_match(prediction: str, answer: str) -> float:
    """1.0 when both normalise to the same."""
    return float(korquad_normalize(prediction) == korquad_normalize(answer))


def korquad_f1(prediction: str, answer: str) -> float:
    """Harmonic mean of precision and recall over characters as a multiset; 0.0 when nothing is shared."""
    given = Counter(korquad_normalize(prediction).replace(" ", ""))
    wanted = Counter(korquad_normalize(answer).replace(" ", ""))
    shared = (given & wanted).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / given.total(), shared / wanted.total()
    return 2 * precision * recall / (precision + recall)


def korquad_scores(predictions: list[str], answers: list[list[str]]) -> dict[str, float]:
    """Mean over the questions of the best value over each one's answers, in percent."""
    pairs = list(zip(predictions, answers, strict=True))
    return {
        "exact_match": 100.0 * sum(max(korquad_exact_match(given, one) for one in wanted) for given, wanted in pairs) / len(pairs),
        "f1": 100.0 * sum(max(korquad_f1(given, one) for one in wanted) for given, wanted in pairs) / len(pairs),
    }
