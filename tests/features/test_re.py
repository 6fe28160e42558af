"""Relations: entities in the forms that files have, markers as tokens around the very tokens of the entities, and the
scores of KLUE."""

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, f1_score, precision_recall_curve
from table_files import write_table as table

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import auprc, relation_f1
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import prepare
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.re import MARKER, Span, mark
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.tables.unreadable import Location, Row
from kobert_pipeline.tokenizer.loading import add_tokens

TEXT = "민수는 1998년 부산에서 태어났다."
SUBJECT = {"word": "민수", "start_idx": 0, "end_idx": 1, "type": "PER"}
OBJECT = {"word": "부산", "start_idx": 10, "end_idx": 11, "type": "LOC"}
KLUE = {
    "guid": "re-1", "sentence": TEXT, "subject_entity": SUBJECT, "object_entity": OBJECT, "label": "per:place_of_birth",
    "source": "own",
}  # fmt: skip
OTHER = KLUE | {"guid": "re-2", "object_entity": SUBJECT, "subject_entity": OBJECT, "label": "no_relation"}
MARKED = "[SUBJ:PER]민수[/SUBJ:PER]는 1998년 [OBJ:LOC]부산[/OBJ:LOC]에서 태어났다."
AS_TEXT = {"subject_entity": str(SUBJECT), "object_entity": json.dumps(OBJECT, ensure_ascii=False)}
FLAT = {f"{role}.{key}": value for role in ("subject_entity", "object_entity") for key, value in KLUE[role].items()}


@pytest.mark.parametrize(
    ("name", "change", "marked"),
    [
        ("klue.json", {}, MARKED),
        ("klue.parquet", {}, MARKED),
        ("datasets.jsonl", AS_TEXT, MARKED),
        ("datasets.tsv", AS_TEXT, MARKED),
        ("exclusive.jsonl", {"object_entity": OBJECT | {"end_idx": 12}}, MARKED),
        ("floats.jsonl", {"object_entity": OBJECT | {"start_idx": 10.0, "end_idx": "11.0"}}, MARKED),
        ("no-places.jsonl", {"object_entity": {"word": "부산", "type": "LOC"}}, MARKED),
        (
            "words.tsv",
            {"subject_entity": "민수", "object_entity": "부산"},
            MARKED.replace(":PER", "").replace(":LOC", ""),
        ),
        ("marked.tsv", {"sentence": MARKED, "subject_entity": None}, MARKED),
    ],
)
def test_entities_are_marked_in_every_form(name: str, change: dict[str, Any], marked: str, tmp_path: Path) -> None:
    record = KLUE | change
    if change.get("subject_entity", "") is None:
        record = {key: record[key] for key in ("guid", "sentence", "label")}
    path = table(tmp_path / name, record, record | {"guid": "re-2", "label": "no_relation"})
    task = Task.choose("re").fit_labels([path])
    example, other = task.read(path)
    assert example == {"id": "re-1", "group": "민수는1998년부산에서태어났다.", "text": marked, "label": 1}
    assert (task.labels, other["label"]) == (["no_relation", "per:place_of_birth"], 0)
    assert set(task.types) == {kind for *_, kind in MARKER.findall(marked)} - {""}
    assert task.content(example) == TEXT


def test_columns_of_flattened_objects_are_read(tmp_path: Path) -> None:
    record = {"sentence": TEXT, **FLAT, "label": "가"}
    path = table(tmp_path / "flat.tsv", record, record | {"label": "나"})
    assert Task.choose("re").read(path)[0]["text"] == MARKED


def test_own_columns_types_and_numbers_of_labels(tmp_path: Path) -> None:
    record = {"text": TEXT, "who": SUBJECT, "where": OBJECT, "relation": 1}
    task = Task.choose({"name": "re", "subject": "who", "object": "where", "labels": ["없음", "출생지"], "types": []})
    [example] = task.read(table(tmp_path / "own.jsonl", record))
    assert example["text"] == MARKED.replace(":PER", "").replace(":LOC", "") and example["label"] == 1
    assert task.added_tokens == ("[SUBJ]", "[/SUBJ]", "[OBJ]", "[/OBJ]")
    typed = Task.choose({"name": "re", "types": ["PER", "LOC"]})
    assert typed.added_tokens[:4] == ("[SUBJ:PER]", "[/SUBJ:PER]", "[SUBJ:LOC]", "[/SUBJ:LOC]")
    assert Task.choose("re").with_inference_state(task.inference_state()).types == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"object_entity": OBJECT | {"start_idx": 9}},
            "line 2: 'object_entity' is '부산' from 9 to 11, but the text has",
        ),
        ({"object_entity": OBJECT | {"end_idx": 14}}, "line 2: 'object_entity' is '부산' from 10 to 14"),
        ({"object_entity": OBJECT | {"start_idx": "nan"}}, "line 2: 'object_entity' is '부산' from 'nan'"),
        ({"object_entity": OBJECT | {"start_idx": -1}}, "line 2: 'object_entity' is '부산' from -1"),
        ({"object_entity": {"word": "서울"}}, "line 2: the text has '서울' of 'object_entity' 0 times; give start_idx"),
        ({"object_entity": {"word": "9"}}, "line 2: the text has '9' of 'object_entity' 2 times; give start_idx"),
        ({"object_entity": None}, "line 2: 'object_entity' is None; an entity with a word was expected"),
        (
            {"object_entity": OBJECT | {"type": "ORG"}},
            "line 2: the type in 'object_entity' is 'ORG'; allowed are LOC, PER",
        ),
        ({"sentence": MARKED}, r"line 2: the text has the marker \[SUBJ:PER\], although the entities are in columns"),
    ],
)
def test_an_entity_that_is_not_where_the_row_says_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    task = Task.choose({"name": "re", "labels": ["no_relation", "per:place_of_birth"], "types": ["LOC", "PER"]})
    with pytest.raises(UserError, match=message):
        task.read(table(tmp_path / "a.jsonl", KLUE, KLUE | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT, r"does not mark one subject and one object; write \[SUBJ:LOC\]...\[/SUBJ:LOC\] and \[OBJ:LOC\]"),
        ("[SUBJ:PER]민수[/SUBJ:PER]는 부산에", "does not mark one subject"),
        ("[/SUBJ:PER]민수[SUBJ:PER]는 [OBJ:LOC]부산[/OBJ:LOC]에", "does not mark one subject"),
        ("[SUBJ:PER]민수[/SUBJ:LOC]는 [OBJ:LOC]부산[/OBJ:LOC]에", "does not mark one subject"),
        ("[SUBJ]민수[/SUBJ]는 [OBJ]부산[/OBJ]에", r"the marker is \[SUBJ\]; allowed are \[SUBJ:LOC\], \[SUBJ:PER\]"),
    ],
)
def test_a_text_without_the_markers_of_the_model_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Task.choose({"name": "re", "types": ["LOC", "PER"]}).unlabelled([text])
    with pytest.raises(Exception, match="is empty or has brackets"):
        Task.choose({"name": "re", "types": ["a]"]})


def test_an_entity_inside_the_other_is_marked_inside_it() -> None:
    outer, inner = Span(0, 6, ""), Span(0, 2, "")
    assert mark("부산은행장이다", outer, inner) == "[SUBJ][OBJ]부산[/OBJ]은행장이[/SUBJ]다"
    assert mark("부산은행장이다", Span(2, 4, ""), Span(4, 5, "")) == "부산[SUBJ]은행[/SUBJ][OBJ]장[/OBJ]이다"


def test_markers_are_one_token_each_around_the_tokens_that_the_entities_have_without_them(
    morpheme_tokenizer_folder: Path, tmp_path: Path
) -> None:
    plain = MorphemeTokenizer.from_pretrained(morpheme_tokenizer_folder)
    path = table(tmp_path / "klue.json", KLUE, OTHER)
    task = Task.choose("re").fit_labels([path])
    tokenizer = add_tokens(MorphemeTokenizer.from_pretrained(morpheme_tokenizer_folder), task.added_tokens)
    assert len(tokenizer) == len(plain) + 8
    arrays = task.featurize(task.read(path), tokenizer, 64)
    first = arrays["input_ids"][: arrays["windows"][1]].tolist()
    names = tokenizer.convert_ids_to_tokens(first)
    assert [name for name in names if not MARKER.fullmatch(name)] == plain.convert_ids_to_tokens(
        plain(TEXT)["input_ids"]
    )
    encoded = tokenizer(MARKED, return_offsets_mapping=True)
    for word, role in (("민수", "SUBJ:PER"), ("부산", "OBJ:LOC")):
        start, end = names.index(f"[{role}]"), names.index(f"[/{role}]")
        spans = encoded["offset_mapping"][start + 1 : end]
        assert MARKED[spans[0][0] : spans[-1][1]] == word
        assert [MARKED[slice(*encoded["offset_mapping"][place])] for place in (start, end)] == [
            f"[{role}]",
            f"[/{role}]",
        ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=20), st.integers(0, 10**6))
def test_scores_are_klues(pairs: list[tuple[int, int]], seed: int) -> None:
    right = [label for label, _ in pairs]
    logits = np.random.default_rng(seed).normal(size=(len(pairs), 4))
    task = Task.choose({"name": "re", "labels": ["no_relation", "가", "나", "다"]})
    predictions = task.predict({"logits": list(logits)}, Features({}, [{}] * len(pairs)))
    scores = task.score(predictions, [{"label": label} for label in right])
    expected = f1_score(right, logits.argmax(1), labels=[1, 2, 3], average="micro", zero_division=0)
    assert scores["micro_f1"] == pytest.approx(100 * expected)
    # klue_re_auprc of the KLUE baseline, over the labels that occur
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.eye(4)[right]
    areas = []
    for column in sorted(set(right)):
        precision, recall, _ = precision_recall_curve(labels[:, column], probabilities[:, column])
        areas.append(auc(recall, precision))
    assert scores["auprc"] == pytest.approx(100 * np.average(areas))
    assert relation_f1(right, right, [0, 1, 2, 3]) == auprc(np.eye(4)[right], right) == 100


def test_predictions_are_indices_in_json() -> None:
    predictions = Task.choose("re").predict({"logits": [np.array([0.0, 2.0])]}, Features({}, [{}]))
    assert json.dumps(predictions) == "[1]" and predictions == [1] and ast.literal_eval(str(predictions[0])) == 1


def test_the_row_of_a_table_gives_the_marked_text() -> None:
    row = Row(KLUE, Location(Path("a.json"), "entry", 1), 1)
    assert Task.choose("re").text_parser(row)(TEXT, row) == MARKED


def test_an_entity_without_a_column_is_named_with_its_option(tmp_path: Path) -> None:
    record = {"sentence": TEXT, "subject_entity": SUBJECT, "label": "가"}
    path = table(tmp_path / "a.jsonl", record, record | {"label": "나"})
    with pytest.raises(UserError, match="there is no column of the object; name it by the option object of the task"):
        Task.choose({"name": "re", "types": ["LOC", "PER"]}).fit_labels([path])


def test_a_file_without_the_label_of_no_relation_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [KLUE | {"label": label} for label in ("0", "1")]
    path = table(tmp_path / "a.jsonl", *rows)
    [note] = Task.choose("re").fit_labels([path]).notes
    assert "no label is 'no_relation', so the micro F1 counts all of them" in note
    assert not Task.choose({"name": "re", "no_relation": "0"}).fit_labels([path]).notes
    table(tmp_path / "b.jsonl", KLUE | {"sentence": f"{TEXT}!", "label": "0"})
    prepare(FeaturesOptions(task={"name": "re"}, train="a.jsonl", dev="b.jsonl"), tmp_path)
    assert note in capsys.readouterr().err
