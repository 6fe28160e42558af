"""Scores, in percent. KorQuAD's exact match and F1 follow its official script (evaluate-v1.0: F1 over characters, not
words). A score that is undefined (no positives, constant predictions) is 0.0."""

import math
import statistics
import string
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

import numpy as np

KORQUAD_SYMBOLS = "'\"《》<>〈〉()‘’"
"""Symbols that become a space before punctuation is removed."""
_TO_SPACE = str.maketrans(dict.fromkeys(KORQUAD_SYMBOLS, " "))
_PUNCTUATION = str.maketrans("", "", string.punctuation)
SHARES = ("accuracy", "exact_match", "subset_accuracy")
"""Scores that are shares of right examples."""


def accuracy(predictions: list[int], labels: list[int]) -> float:
    """Share of equal entries, in percent."""
    return 100.0 * sum(a == b for a, b in zip(predictions, labels, strict=True)) / len(labels)


# scikit-learn takes a second to import, and most commands score nothing


def f1(predictions: list[int], labels: list[int]) -> float:
    """F1 of the label 1, in percent; 0.0 where it does not occur."""
    from sklearn.metrics import f1_score

    # not average="binary", which raises an error for labels other than 0 and 1
    return 100.0 * float(f1_score(labels, predictions, labels=[1], average="macro", zero_division=0))


def macro_f1(predictions: list[int], labels: list[int]) -> float:
    """Mean F1 over all labels that occur in predictions or labels, in percent."""
    from sklearn.metrics import f1_score

    return 100.0 * float(f1_score(labels, predictions, average="macro", zero_division=0))


def matthews_corrcoef(predictions: list[int], labels: list[int]) -> float:
    """Matthews correlation coefficient for two or more classes (Gorodkin 2004), in percent; 0.0 where either side is
    constant."""
    from sklearn.metrics import matthews_corrcoef

    if len({*predictions, *labels}) == 1:  # scikit-learn warns of it
        return 0.0
    return 100.0 * float(matthews_corrcoef(labels, predictions))


def relation_f1(predictions: list[int], labels: list[int], scored: list[int]) -> float:
    """Micro F1 of the labels `scored`, in percent: a relation that is predicted where there is none counts as wrong, as
    does one that is missed."""
    from sklearn.metrics import f1_score

    return 100.0 * float(f1_score(labels, predictions, labels=scored, average="micro", zero_division=0))


def auprc(probabilities: np.ndarray, labels: list[int]) -> float:
    """KLUE's area under the precision-recall curve of each label by its probabilities (n, labels), the mean over the
    labels that occur, in percent."""
    from sklearn.metrics import auc, precision_recall_curve

    areas = []
    for label in sorted(set(labels)):
        precision, recall, _ = precision_recall_curve(np.array(labels) == label, probabilities[:, label])
        # by trapezoids, as in KLUE's program; scikit-learn's average precision is another number
        areas.append(auc(recall, precision))
    return 100.0 * float(np.mean(areas))


CLASSIFICATION: dict[str, Callable[[list[int], list[int]], float]] = {
    "accuracy": accuracy, "f1": f1, "macro_f1": macro_f1, "mcc": matthews_corrcoef,
}  # fmt: skip
"""Scores of label indices, by name."""


def classification_report(predictions: list[int], labels: list[int], names: list[str]) -> dict[str, Any]:
    """`classes`: precision, recall and F1 in percent and the support (number of examples) of each of the n classes;
    `confusion_matrix` (n, n): how many examples of each class (row) were predicted as each class (column)."""
    matrix = np.zeros((len(names), len(names)), int)
    # `matrix[labels, predictions] += 1` would count equal pairs once
    np.add.at(matrix, (labels, predictions), 1)
    counts = zip(names, matrix.diagonal().tolist(), matrix.sum(0).tolist(), matrix.sum(1).tolist(), strict=True)
    return {"classes": [_class_row(*row) for row in counts], "confusion_matrix": matrix.tolist()}


def _class_row(name: str, both: int, predicted: int, right: int) -> dict[str, Any]:
    """A class that was predicted `predicted` times, is right `right` times, and is both `both` times."""
    return {
        "label": name,
        "precision": round(100.0 * both / predicted, 4) if predicted else 0.0,
        "recall": round(100.0 * both / right, 4) if right else 0.0,
        "f1": round(_f1(predicted, right, both), 4),
        "support": right,
    }


def multilabel_scores(predictions: list[list[int]], labels: list[list[int]], classes: int) -> dict[str, float]:
    """F1 over all decisions (micro), the mean F1 of the `classes` labels (macro, 0 for one that neither side has), and
    the share of examples with exactly the right labels, in percent. Both sides are lists of label indices."""
    from sklearn.metrics import accuracy_score, f1_score

    predicted, right = (indicators(side, classes) for side in (predictions, labels))
    return {
        "micro_f1": 100.0 * float(f1_score(right, predicted, average="micro", zero_division=0)),
        "macro_f1": 100.0 * float(f1_score(right, predicted, average="macro", zero_division=0)),
        "subset_accuracy": 100.0 * float(accuracy_score(right, predicted)),
    }


def multilabel_report(predictions: list[list[int]], labels: list[list[int]], names: list[str]) -> dict[str, Any]:
    """`classes` as in `classification_report`; several labels for an example have no confusion matrix."""
    predicted, right = (indicators(side, len(names)) for side in (predictions, labels))
    counts = zip(names, *((side.sum(0).tolist()) for side in (predicted * right, predicted, right)), strict=True)
    return {"classes": [_class_row(*row) for row in counts]}


def indicators(rows: list[list[int]], classes: int) -> np.ndarray:
    """Lists of label indices as 0 and 1, (n, classes) int64."""
    array = np.zeros((len(rows), classes), np.int64)
    for row, indices in zip(array, rows, strict=True):
        row[indices] = 1
    return array


def f1_threshold(probabilities: np.ndarray, is_right: np.ndarray) -> float:
    """The threshold with the best F1 for a label that has `probabilities` (n,) and is right where `is_right` (n,); 0.5
    wherever no other is better."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, count = probabilities[order], np.arange(1, len(order) + 1)
    # (n,): F1 = 2 TP / (predicted + right), where the 1 to n most probable are predicted
    f1_of_first = 2 * np.cumsum(is_right[order]) / (count + is_right.sum())
    below = np.append(ranked[1:], 0.0)
    # a threshold cannot separate equal probabilities
    ends = np.flatnonzero(ranked > below)
    if not f1_of_first[ends].any():  # also where no text, or none of a probability above 0, is right
        return 0.5
    best = ends[f1_of_first[ends] == f1_of_first[ends].max()]
    if np.any((below[best] < 0.5) & (ranked[best] >= 0.5)):
        return 0.5
    # halfway, so that rounding on another machine changes no decision
    middles = (ranked[best] + below[best]) / 2
    return float(middles[np.abs(middles - 0.5).argmin()])


def pearson(predictions: list[float], values: list[float]) -> float:
    """Pearson correlation, in percent; 0.0 where either side is constant."""
    if np.ptp(predictions) == 0 or np.ptp(values) == 0:  # NumPy divides by 0
        return 0.0
    return 100.0 * float(np.corrcoef(predictions, values)[0, 1])


def spearman(predictions: list[float], values: list[float]) -> float:
    """Spearman rank correlation, in percent; ties get their mean rank; 0.0 where either side is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(predictions), rankdata(values))


def ranking_scores(ranks: np.ndarray, cutoff: int = 10) -> dict[str, float]:
    """Scores in percent of queries that have one right text each, from its ranks (Q,). With a single right text nDCG is
    1 / log2(rank + 1)."""
    within = ranks <= cutoff
    return {
        f"mrr@{cutoff}": 100 * float(np.where(within, 1 / ranks, 0).mean()),
        f"ndcg@{cutoff}": 100 * float(np.where(within, 1 / np.log2(ranks + 1), 0).mean()),
        "recall@1": 100 * float((ranks == 1).mean()),
        f"recall@{cutoff}": 100 * float(within.mean()),
    }


def korquad_normalize(answer: str) -> str:
    """KorQuAD's `normalize_answer`: symbols to spaces, lower case, no ASCII punctuation, single spaces."""
    # in the order of the official script: symbols become spaces, punctuation vanishes without one
    return " ".join(answer.translate(_TO_SPACE).lower().translate(_PUNCTUATION).split())


def korquad_exact_match(prediction: str, answer: str) -> float:
    """1.0 if both are equal after normalization, else 0.0."""
    return float(korquad_normalize(prediction) == korquad_normalize(answer))


def korquad_f1(prediction: str, answer: str) -> float:
    """F1 over the multisets of characters, from 0 to 1; 0.0 where they share none."""
    # without spaces, since the official script counts the characters of each word
    predicted = Counter(korquad_normalize(prediction).replace(" ", ""))
    expected = Counter(korquad_normalize(answer).replace(" ", ""))
    shared = (predicted & expected).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / predicted.total(), shared / expected.total()
    return 2 * precision * recall / (precision + recall)


def korquad_scores(predictions: list[str], answers: list[list[str]]) -> dict[str, float]:
    """Means over the questions of the best value over each question's answers, in percent."""
    pairs = list(zip(predictions, answers, strict=True))
    exact = sum(max(korquad_exact_match(prediction, answer) for answer in right) for prediction, right in pairs)
    f1_sum = sum(max(korquad_f1(prediction, answer) for answer in right) for prediction, right in pairs)
    return {"exact_match": 100.0 * exact / len(pairs), "f1": 100.0 * f1_sum / len(pairs)}


def klue_scores(predictions: list[str], answers: list[list[str]]) -> dict[str, float]:
    """KLUE-MRC's exact match and ROUGE-W: means over the questions of the best value over each question's answers, in
    percent; without answers "" is right. Texts are normalized as in KLUE's program, which keeps 《》 and the like."""
    pairs = [
        (klue_normalize(prediction), [klue_normalize(answer) for answer in right] or [""])
        for prediction, right in zip(predictions, answers, strict=True)
    ]
    return {
        "klue_exact_match": 100.0 * mean([float(prediction in right) for prediction, right in pairs]),
        "rouge_w": 100.0 * mean([max(rouge_w(prediction, answer) for answer in right) for prediction, right in pairs]),
    }


def klue_normalize(answer: str) -> str:
    """KLUE's `normalize_answer_for_klue_mrc`: lower case, no ASCII punctuation, single spaces. Its pattern of other
    symbols matches none of them alone, so they stay."""
    return " ".join(answer.lower().translate(_PUNCTUATION).split())


def rouge_w(prediction: str, answer: str) -> float:
    """KLUE's ROUGE-W, from 0 to 1: the F1 of the longest run of characters in both, as KLUE's program finds it."""
    if not answer:
        return float(not prediction)
    # in this order and with `autojunk`, as in KLUE's program: in an answer of 200 characters or more, a run of frequent
    # ones alone is not found
    longest = SequenceMatcher(None, prediction, answer).find_longest_match()
    return 2 * longest.size / (len(prediction) + len(answer))


def entity_scores(predictions: list[list[Any]], entities: list[list[Any]]) -> dict[str, float]:
    """Micro-averaged F1, precision and recall of entities [start, end, type], and the mean F1 over all types that occur
    (KLUE's entity F1), in percent. As in `conlleval` an entity is right if start, end and type are; 0.0 where none
    is."""
    counts = entity_counts(predictions, entities)
    predicted, right, both = (of_type.total() for of_type in counts)
    f1_by_type = [_f1(*(of_type[kind] for of_type in counts)) for kind in counts[0] | counts[1]]
    return {
        "entity_f1": _f1(predicted, right, both),
        "entity_precision": 100.0 * both / predicted if predicted else 0.0,
        "entity_recall": 100.0 * both / right if right else 0.0,
        "entity_macro_f1": mean(f1_by_type) if f1_by_type else 0.0,
    }


def entity_counts(predictions: list[list[Any]], entities: list[list[Any]]) -> list[Counter[str]]:
    """The numbers of entities by type: of predicted ones, of right ones, and of entities that are both."""
    predicted, right = (
        {(text, *entity) for text, listed in enumerate(side) for entity in listed} for side in (predictions, entities)
    )
    return [Counter(kind for *_, kind in side) for side in (predicted, right, predicted & right)]


def _f1(predicted: int, right: int, both: int) -> float:
    """F1 in percent of a class that was predicted `predicted` times, is right `right` times, and is both `both` times;
    0.0 where it does not occur."""
    # 2 P R / (P + R) with P = both / predicted and R = both / right, defined also where one of them is not
    return 100.0 * 2 * both / (predicted + right) if predicted + right else 0.0


def entity_report(predictions: list[list[Any]], entities: list[list[Any]], kinds: list[str]) -> dict[str, Any]:
    """`classes`: precision, recall and F1 in percent and the support (number of entities) of each type. An entity is
    right as in `entity_scores`. There is no confusion matrix: a wrong entity need not overlap with a right one."""
    predicted, right, both = entity_counts(predictions, entities)
    return {"classes": [_class_row(kind, both[kind], predicted[kind], right[kind]) for kind in kinds]}


def character_scores(predictions: list[list[Any]], entities: list[list[Any]], texts: list[str]) -> dict[str, float]:
    """KLUE's character-level macro F1 of named entities: the mean F1 of all tags that occur, over the characters of all
    texts without white space, in percent. Of the B and I tags, as the paper describes it (Park et al. 2021; 0.0 where
    none occurs), and with O among the tags, as KLUE's program computes it and its table has it."""
    predicted_counts, right, both = Counter[str](), Counter[str](), Counter[str]()
    for text, *sides in zip(texts, predictions, entities, strict=True):
        predicted, expected = (character_tags(text, side) for side in sides)
        predicted_counts.update(predicted.values())
        right.update(expected.values())
        both.update(tag for index, tag in predicted.items() if expected.get(index) == tag)
        letters = {index for index, character in enumerate(text) if not character.isspace()}
        for counts, tagged in ((predicted_counts, {*predicted}), (right, {*expected}), (both, {*predicted, *expected})):
            counts["O"] += len(letters - tagged)
    f1_by_tag = {tag: _f1(predicted_counts[tag], right[tag], both[tag]) for tag in predicted_counts | right}
    inside = [score for tag, score in f1_by_tag.items() if tag != "O"]
    return {
        "character_macro_f1": mean(inside) if inside else 0.0,
        "character_macro_f1_with_o": mean([*f1_by_tag.values()]) if f1_by_tag else 0.0,
    }


def character_tags(text: str, entities: list[Any]) -> dict[int, str]:
    """The BIO tag of each character inside entities [start, end, type], by its index, without white space."""
    return {
        index: f"{'B' if index == start else 'I'}-{kind}"
        for start, end, kind in entities
        for index in range(start, end)
        if not text[index].isspace()
    }


def mean(values: list[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


def spread(values: list[float]) -> dict[str, float]:
    """Minimum, maximum, and with several values their sample standard deviation, rounded to two decimals."""
    numbers = {"min": min(values), "max": max(values)}
    if len(values) > 1:
        numbers["standard_deviation"] = statistics.stdev(values)
    return {name: round(value, 2) for name, value in numbers.items()}


def standard_error(scores: dict[str, float], examples: int) -> tuple[str, float] | None:
    """(name, standard error in percent) of the first score in percent that is a share of right examples, so that its
    error follows from their number; None if there is none."""
    name = next((name for name in SHARES if name in scores), None)
    if name is None:
        return None
    return name, share_error(scores[name] / 100, examples)


def share_error(share: float, examples: int) -> float:
    """The standard error in percent of a share of examples."""
    return 100 * math.sqrt(share * (1 - share) / examples)
