"""Scores of entities and the macro F1 of characters, against seqeval and scikit-learn on a hundred cases, in the slow
suite on a thousand; spans of tags against seqeval's."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from seqeval import metrics as seqeval_metrics
from seqeval.metrics.sequence_labeling import get_entities
from sklearn.metrics import f1_score

from kobert_pipeline.features.bio import parse_tag, spans
from kobert_pipeline.features.metrics import character_scores, character_tags, entity_report, entity_scores

every_count = pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.slow)])
TAGS = ["O", "B-PS", "I-PS", "B-LC", "I-LC", "B-DT", "I-DT"]


def tagged(cases: int) -> Iterator[tuple[list[list[str]], list[list[str]]]]:
    """Some texts' tags, predicted and right, sequences that no one would write among them; now and then a side without
    entities."""
    rng = np.random.default_rng(0)
    for case in range(cases):
        sizes = rng.integers(1, 25, rng.integers(1, 6))
        outside = rng.choice([0.1, 0.5, 0.9])
        sides: list[list[list[str]]] = []
        for side in range(2):
            share = 1.0 if case % 50 == side else outside
            weights = [share] + [(1 - share) / (len(TAGS) - 1)] * (len(TAGS) - 1)
            sides.append([rng.choice(TAGS, size, p=weights).tolist() for size in sizes])
        if case % 2:
            sides[0] = [
                [a if rng.random() < 0.3 else b for a, b in zip(*rows, strict=True)]
                for rows in zip(*sides, strict=True)
            ]
        yield sides[0], sides[1]


def of_tags(tags: list[str]) -> list[list]:
    """Entities over characters, where each tag is a character's."""
    return [list(span) for span in spans(parse_tag(tag) for tag in tags)]


@every_count
def test_spans_are_those_of_seqeval(cases: int) -> None:
    for given, right in tagged(cases):
        for tags in (*given, *right):
            assert [(first, end - 1, kind) for first, end, kind in spans(map(parse_tag, tags))] == [
                (b, e, k) for k, b, e in get_entities(tags)
            ]


@every_count
def test_entity_scores_equal_seqeval(cases: int) -> None:
    names = {
        "entity_f1": ("f1_score", "micro"), "entity_precision": ("precision_score", "micro"),
        "entity_recall": ("recall_score", "micro"), "entity_macro_f1": ("f1_score", "macro"),
    }  # fmt: skip
    for given, right in tagged(cases):
        found = entity_scores([of_tags(tags) for tags in given], [of_tags(tags) for tags in right])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seqeval's about sides without entities
            for name, (theirs, average) in names.items():
                score = getattr(seqeval_metrics, theirs)
                # its mean of no types is not a number
                expected = 100 * np.nan_to_num(score(right, given, average=average, zero_division=0))
                assert found[name] == pytest.approx(expected), name


@every_count
def test_scores_by_entity_type_equal_seqeval(cases: int) -> None:
    for given, right in tagged(cases):
        found = entity_report([of_tags(tags) for tags in given], [of_tags(tags) for tags in right], ["PS", "LC", "DT"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = seqeval_metrics.classification_report(right, given, output_dict=True, zero_division=0)
        for row in found["classes"]:
            # seqeval lists only the types that occur
            expected = theirs.get(row["label"], {"precision": 0, "recall": 0, "f1-score": 0, "support": 0})
            assert row["support"] == expected["support"]
            for name, their_name in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
                assert row[name] == pytest.approx(100 * expected[their_name], abs=1e-4), name


@every_count
def test_character_macro_f1_equals_scikit_learn(cases: int) -> None:
    """Over the tags of all characters that are no white space, without and with O among the labels."""
    rng = np.random.default_rng(1)
    for given, right in tagged(cases):
        texts = ["".join(rng.choice(["가", "나", " "], len(tags), p=[0.5, 0.3, 0.2])) for tags in right]
        sides = [[of_tags(tags) for tags in side] for side in (given, right)]
        rows = [
            [
                character_tags(text, entities).get(place, "O")
                for text, entities in zip(texts, side, strict=True)
                for place in range(len(text))
            ]
            for side in sides
        ]
        letters = [place for place, character in enumerate("".join(texts)) if character != " "]
        predicted, wanted = ([row[place] for place in letters] for row in rows)
        every = {*predicted, *wanted}
        for name, labels in {"character_macro_f1": every - {"O"}, "character_macro_f1_with_o": every}.items():
            of_labels = {"labels": sorted(labels), "average": "macro", "zero_division": 0}
            expected = 100 * f1_score(wanted, predicted, **of_labels) if labels else 0.0
            assert character_scores(*sides, texts)[name] == pytest.approx(expected), name


ENTITIES = [[[0, 3, "PS"], [5, 7, "LC"]], [[0, 2, "PS"]]]


@pytest.mark.parametrize(("wrong", "macro"), [([0, 2, "PS"], 50), ([1, 3, "PS"], 50), ([0, 3, "LC"], 100 / 3)])
def test_an_entity_must_be_right_in_ends_and_type(wrong: Any, macro: float) -> None:
    expected = {"entity_f1": 40, "entity_precision": 50, "entity_recall": 100 / 3, "entity_macro_f1": macro}
    assert entity_scores([[wrong, [5, 7, "LC"]], []], ENTITIES) == pytest.approx(expected)


def test_an_entity_of_another_text_is_another_one() -> None:
    assert set(entity_scores(ENTITIES, ENTITIES).values()) == {100.0}
    assert set(entity_scores(ENTITIES[::-1], ENTITIES).values()) == {0.0}
    assert set(entity_scores([[], []], ENTITIES).values()) == set(entity_scores([[]], [[]]).values()) == {0.0}


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("O", (False, None)),
        ("-", (False, None)),
        ("B-PS", (True, "PS")),
        ("I-PS", (False, "PS")),
        ("S-PS", (True, "PS")),
        ("E-PS", (False, "PS")),
        ("PER_B", (True, "PER")),
        ("CVL_I", (False, "CVL")),
        ("PER", (False, "PER")),
        ("B-A-B", (True, "A-B")),
        ("PER-B", (True, "PER")),
        ("PER-I", (False, "PER")),
        ("B_PS", (True, "PS")),
        ("I", (False, "")),
    ],
)
def test_a_tag_says_type_and_beginning_in_every_spelling(tag: Any, expected: Any) -> None:
    assert parse_tag(tag) == expected
