"""Several labels for a text: the forms of files, scores as scikit-learn has them, thresholds, and files of lists that
`classification` refuses."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_fscore_support
from table_files import write_table as table

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import f1_threshold, indicators, multilabel_report, multilabel_scores
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.multilabel import sigmoid
from kobert_pipeline.tables.columns import parse_container

KOTE = [("글 하나", [2, 13]), ("글 둘", [13]), ("글 셋", [])]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_lists_of_numbers_are_read_in_the_order_of_their_values(name: str, tmp_path: Path) -> None:
    records = [{"ID": f"x{i}", "text": text, "labels": labels} for i, (text, labels) in enumerate(KOTE)]
    task = Task.choose("multilabel").fit_labels([table(tmp_path / name, *records)])
    assert task.labels == ["2", "13"]
    assert [example["label"] for example in task.read(tmp_path / name)] == [[0, 1], [1], []]


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["2,4", "4", "2, 4"], ","),
        (["2|4", "4", "4|2"], "|"),
        (["2.0,4.0", "4", "2,4.0"], ","),
        (["[2, 4]", "[4]", "[ 2  4]"], ","),  # Python's and NumPy's lists in a table
        (["['2', '4']", '["4"]', "['2' '4']"], ","),
    ],
)
def test_lists_as_text_are_read(cells: list[str], separator: str, tmp_path: Path) -> None:
    rows = "".join(f"글 {i}\t{cell}\n" for i, cell in enumerate(cells))
    (tmp_path / "a.tsv").write_text(f"document\tlabel\n{rows}", encoding="utf-8")
    task = Task.choose({"name": "multilabel", "separator": separator}).fit_labels([tmp_path / "a.tsv"])
    assert task.labels == ["2", "4"]
    assert [example["label"] for example in task.read(tmp_path / "a.tsv")] == [[0, 1], [1], [0, 1]]


@pytest.mark.parametrize(
    "cells",
    [
        ["{'가', '나 다'}", "{'가'}"],
        ["('가', '나 다')", "('가',)"],
        ['["가", "나 다"]', '["가"]'],
        ['{가,"나 다"}', "{가}"],  # PostgreSQL's arrays
        ["(np.str_('가'), np.str_('나 다'))", "[np.str_('가')]"],
    ],
)
def test_lists_as_programs_print_them_are_read(cells: list[str], tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", *({"text": f"글 {cell}", "labels": cell} for cell in cells))
    task = Task.choose("multilabel").fit_labels([path])
    assert (task.labels, [example["label"] for example in task.read(path)]) == (["가", "나 다"], [[0, 1], [0]])


def test_numbers_as_numpy_prints_them_and_an_empty_array_of_postgresql_are_read(tmp_path: Path) -> None:
    cells = ["(np.int64(1), np.int64(3))", "(np.int64(3),)", "{}"]
    path = table(tmp_path / "a.jsonl", *({"text": f"글 {cell}", "labels": cell} for cell in cells))
    task = Task.choose("multilabel").fit_labels([path])
    assert (task.labels, [example["label"] for example in task.read(path)]) == (["1", "3"], [[0, 1], [1], []])
    assert parse_container("[np.True_, np.False_, np.float64(1e-05)]") == [True, False, 1e-05]


def test_columns_come_before_a_list_of_0_and_1_for_each(tmp_path: Path) -> None:
    """UnSmile by `datasets` has both."""
    rows = [{"문장": "글", "여성": 1, "남성": 0, "clean": 0, "labels": [1, 0, 0]}]
    rows += [{"문장": "말", "여성": 0, "남성": 1, "clean": 1, "labels": [0, 1, 1]}]
    path = table(tmp_path / "a.jsonl", *rows)
    task = Task.choose("multilabel").fit_labels([path])
    assert task.labels == ["여성", "남성", "clean"]
    assert [example["label"] for example in task.read(path)] == [[0], [1, 2]]


@pytest.mark.parametrize("zeros_and_ones", [[[1, 0, 0], [0, 1, 1]], ["[1 0 0]", "[0. 1. 1.]"], ["1,0,0", "0,1,1"]])
def test_lists_of_0_and_1_for_each_label_need_their_names(zeros_and_ones: list[Any], tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", *({"text": "글", "labels": cell} for cell in zeros_and_ones))
    with pytest.raises(UserError, match="0 or 1 for each of 3 labels; name these in the option labels"):
        Task.choose("multilabel").fit_labels([path])
    task = Task.choose({"name": "multilabel", "labels": ["가", "나", "다"]})
    assert [example["label"] for example in task.read(path)] == [[0], [1, 2]]


@pytest.mark.parametrize(
    ("mark", "others"),
    [*((mark, ["나"]) for mark in ";|\n，、"), *((mark, ["가", "나"]) for mark in ";#/+& \n")],
)
def test_another_separator_than_the_option_s_is_named(mark: str, others: list[str], tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", *({"text": "글", "labels": cell} for cell in (f"가{mark}나", *others)))
    with pytest.raises(UserError, match=re.escape(f"is a list of others; set the option separator to {mark!r}")):
        Task.choose("multilabel").fit_labels([path])


def label_studio(text: str, *choices: str) -> dict[str, Any]:
    results = [{"from_name": "topic", "type": "choices", "value": {"choices": list(choices)}}]
    return {"id": 7, "data": {"text": text}, "annotations": [{"result": results}], "predictions": []}


def test_choices_of_label_studio_are_labels(tmp_path: Path) -> None:
    path = table(tmp_path / "a.json", label_studio("글", "가", "나"), label_studio("말", "나"))
    rows = [{"text": "글", "topic": {"choices": ["가", "나"]}, "annotation_id": 1, "annotator": 1}]
    rows += [{"text": "말", "topic": "나", "annotation_id": 2, "annotator": 1}]
    minimal = table(tmp_path / "min.json", *rows)
    for task, file in (("multilabel", path), ({"name": "multilabel", "label": "topic"}, minimal)):
        fitted = Task.choose(task).fit_labels([file])
        assert (fitted.labels, [example["label"] for example in fitted.read(file)]) == (["가", "나"], [[0, 1], [1]])
    single = table(tmp_path / "b.json", label_studio("글", "가"), label_studio("말", "나"))
    examples = Task.choose("classification").fit_labels([single]).read(single)
    assert [(example["id"], example["text"], example["label"]) for example in examples] == [
        ("7", "글", 0),
        ("7", "말", 1),
    ]
    with pytest.raises(UserError, match="entry 1: it has no annotations, so nobody has labelled it"):
        Task.choose("multilabel").read(table(tmp_path / "c.json", label_studio("글") | {"annotations": []}))


def test_what_was_chosen_in_label_studio_comes_before_a_label_in_the_data(tmp_path: Path) -> None:
    rows = [label_studio(text, choice) for text, choice in (("글", "좋음"), ("말", "나쁨"))]
    for row in rows:
        row["data"] |= {"label": "기계", "labels": ["기계"]}  # imported labels of a model
    for name in ("classification", "multilabel"):
        task = Task.choose(name).fit_labels([table(tmp_path / "a.json", *rows)])
        assert task.classes() == ["나쁨", "좋음"]


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_a_label_in_the_data_is_none_of_a_text_for_which_nobody_chose_one(task: str, tmp_path: Path) -> None:
    rows = [label_studio("비", "좋음"), label_studio("글", "좋음"), label_studio("말", "나쁨")]
    rows[0]["data"] |= {"label": "기계", "labels": ["기계"]}
    rows[0]["annotations"] = [{"result": []}]
    with pytest.raises(UserError, match="no column is the label"):
        Task.choose(task).fit_labels([table(tmp_path / "a.json", *rows)])


def test_a_label_in_the_data_of_label_studio_stays_where_none_was_chosen(tmp_path: Path) -> None:
    marked = {"from_name": "ner", "type": "labels", "value": {"start": 0, "end": 1, "labels": ["PS"]}}
    rows = [{"data": {"text": text, "label": text}, "annotations": [{"result": [marked]}]} for text in ("글", "말")]
    task = Task.choose("classification").fit_labels([table(tmp_path / "a.json", *rows)])
    assert task.classes() == ["글", "말"]


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ([["topic"], ["topic", "sure"]], "entry 2: there is no 'label'"),
        ([["topic", "sure"], ["topic"]], "no column is the label of the task classification.*topic"),
        ([["topic"], []], "entry 2: there is no 'label'"),
        ([["topic"], ["sure"]], "entry 2: there is no 'label'"),
    ],
)
def test_of_several_controls_of_label_studio_none_is_the_label(
    controls: list[list[str]], message: str, tmp_path: Path
) -> None:
    rows = [label_studio("글", "가"), label_studio("말", "나")]
    for row, names in zip(rows, controls, strict=True):
        [annotation] = row["annotations"]
        annotation["result"] = [annotation["result"][0] | {"from_name": name} for name in names]
        row["data"]["label"] = "기계"
    path = table(tmp_path / "a.json", *rows)
    with pytest.raises(UserError, match=message):
        Task.choose("classification").fit_labels([path])
    if ["topic"] in controls and ["topic", "sure"] in controls:
        task = Task.choose({"name": "classification", "label": "topic"}).fit_labels([path])
        assert task.labels == ["가", "나"]


@pytest.mark.parametrize("spell", [list, str])
def test_0_and_1_for_each_of_two_labels_are_no_numbers_of_both(spell: Any, tmp_path: Path) -> None:
    task = Task.choose({"name": "multilabel", "labels": ["욕설", "혐오"]})
    lists = ([1, 0], [0, 1], [0, 0], [1, 1])
    rows = [{"text": f"글 {n}", "labels": spell(row)} for n, row in enumerate(lists)]
    read = [example["label"] for example in task.read(table(tmp_path / "a.jsonl", *rows))]
    assert read == [[0], [1], [], [0, 1]]
    # numbers of labels, as the other rows say
    numbers = task.read(table(tmp_path / "b.jsonl", *rows[:2], {"text": "끝", "labels": [1]}))
    assert [example["label"] for example in numbers] == [[0, 1], [0, 1], [1]]


def test_lists_of_0_and_1_are_found_inside_an_object(tmp_path: Path) -> None:
    task = Task.choose({"name": "multilabel", "label": "ann.labels", "labels": ["욕설", "혐오"]})
    rows = [{"text": f"글 {n}", "ann": {"labels": row}} for n, row in enumerate(([1, 0], [0, 1]))]
    assert [example["label"] for example in task.read(table(tmp_path / "a.jsonl", *rows))] == [[0], [1]]


def test_a_column_of_1_and_blanks_is_not_left_out(tmp_path: Path) -> None:
    rows = [{"text": f"글 {i}", "교통": i % 2, "요금": (i + 1) % 2, "추천": "" if i else 1} for i in range(9)]
    with pytest.raises(UserError, match="line 2: the column '추천' holds '', elsewhere 0 or 1; correct it"):
        Task.choose("multilabel").fit_labels([table(tmp_path / "a.jsonl", *rows)])


@pytest.mark.parametrize("value", ["", "2", None])
@pytest.mark.parametrize("place", [0, 50])
def test_a_cell_that_is_not_0_or_1_loses_no_label(value: Any, place: int, tmp_path: Path) -> None:
    rows = [{"text": f"글 {i}", "교통": i % 2, "요금": (i + 1) % 2, "점수": i} for i in range(51)]
    rows[place]["요금"] = value
    with pytest.raises(UserError, match=f"line {place + 1}: the column '요금' holds .*, elsewhere 0 or 1; correct it"):
        Task.choose("multilabel").fit_labels([table(tmp_path / "a.jsonl", *rows)])
    rows[place]["요금"] = 1
    fitted = Task.choose("multilabel").fit_labels([table(tmp_path / "b.jsonl", *rows)])
    assert fitted.labels == ["교통", "요금"], "a score is no label"


@pytest.mark.parametrize("control", ["rating", "number"])
def test_a_number_about_a_text_of_label_studio_is_its_score(control: str, tmp_path: Path) -> None:
    rows = [label_studio("글"), label_studio("말")]
    for score, row in enumerate(rows, 4):
        row["annotations"][0]["result"] = [{"from_name": "stars", "type": control, "value": {control: score}}]
    examples = Task.choose("regression").read(table(tmp_path / "a.json", *rows))
    assert [(example["text"], example["label"]) for example in examples] == [("글", 4), ("말", 5)]


def test_numbers_mean_the_named_labels_in_their_order(tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", {"text": "글", "labels": [1, "기쁨"]}, {"text": "말", "labels": [0]})
    task = Task.choose({"name": "multilabel", "labels": ["기쁨", "슬픔"]})
    assert [example["label"] for example in task.read(path)] == [[0, 1], [0]]
    for labels in (["1", "7"], None):  # a name that is a number, and labels whose order the file decides
        with pytest.raises(UserError, match=r"line 2: the label is '0'|line 1: the label is '기쁨'"):
            Task.choose({"name": "multilabel", "labels": labels}).with_model_labels(labels or ["1", "기쁨"]).read(path)


@pytest.mark.parametrize(("one", "none"), [("1", "0"), ("1.0", "0.0"), (1, 0), (True, False), ("TRUE", "FALSE")])
def test_columns_of_0_and_1_are_labels_however_they_are_written(one: Any, none: Any, tmp_path: Path) -> None:
    record = {"id": 1, "문장": "글", "여성": none, "기타 혐오": one, "score": 0.3, "clean": none}
    path = table(tmp_path / "a.jsonl", record, record | {"여성": one}, record | {"기타 혐오": none})
    task = Task.choose("multilabel").fit_labels([path])
    assert task.labels == ["여성", "기타 혐오", "clean"], "neither the id nor a column with other numbers"
    assert [example["label"] for example in task.read(path)] == [[1], [0, 1], []]
    chosen = Task.choose({"name": "multilabel", "labels": ["clean", "여성"]})
    assert [example["label"] for example in chosen.read(path)] == [[], [1], []]


def test_a_label_may_be_called_none(tmp_path: Path) -> None:
    rows = [{"text": f"글 {i}", "모욕": i % 2, "None": (i + 1) % 2} for i in range(4)]
    assert Task.choose("multilabel").fit_labels([table(tmp_path / "a.jsonl", *rows)]).classes() == ["모욕", "None"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [{"text": "글", "labels": ["가", "나"]}, {"text": "글", "labels": None}],
            "line 2: the labels are None; a list",
        ),
        (
            [{"text": "글", "labels": "가,나"}, {"text": "글", "labels": ""}],
            r"line 2: the labels are ''; .*\[\] for none",
        ),
        ([{"text": "글", "labels": "가,나"}, {"text": "글", "labels": "가,,나"}], "line 2: the labels are '가,,나'"),
        ([{"text": "글", "labels": ["가", {}]}], "line 1: the labels are"),
        ([{"text": "글", "labels": ["가"]}], "at least two labels, found was only '가'"),
        ([{"text": "글", "kind": "가"}], "no column is the label of the task multilabel"),
    ],
)
def test_what_is_no_list_of_labels_is_refused_by_its_line(
    records: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    path = table(tmp_path / "a.jsonl", *records)
    with pytest.raises(UserError, match=message):
        Task.choose("multilabel").fit_labels([path])


def test_a_label_that_training_does_not_have_and_a_cell_that_is_not_0_or_1_are_refused(tmp_path: Path) -> None:
    task = Task.choose({"name": "multilabel", "labels": ["가", "나"]})
    with pytest.raises(UserError, match=r"line 1: the label is '다'; allowed are .*가, 나"):
        task.read(table(tmp_path / "a.jsonl", {"text": "글", "labels": ["가", "다"]}))
    with pytest.raises(UserError, match="line 2: the column '나' holds '2', 0 or 1 was expected"):
        task.read(table(tmp_path / "b.csv", {"text": "글", "가": 1, "나": 2}))
    for thresholds in (0, 1.5, {"가": -0.1}):
        with pytest.raises(Exception, match="a threshold is a probability between 0 and 1"):
            Task.choose({"name": "multilabel", "thresholds": thresholds})


@pytest.mark.parametrize(
    ("labels", "listed"),
    [
        (["2", "4", "2,4"], "2,4"),
        (["가;나", "나;가", "다"], "가;나"),
        (["a|b", "b", "a"], r"a\|b"),
        (["배송", "만족", "배송#만족"], "배송#만족"),
    ],
)
def test_classification_names_labels_that_are_lists_of_others(labels: list[str], listed: str, tmp_path: Path) -> None:
    rows = [{"text": f"글 {i}", "label": label} for i, label in enumerate(labels)]
    path = table(tmp_path / "a.jsonl", *rows)
    with pytest.raises(UserError, match=f"the label '{listed}' is a list of labels.*the task multilabel"):
        Task.choose("classification").fit_labels([path])
    assert len(Task.choose({"name": "classification", "labels": labels}).read(path)) == 3, (
        "the option says they are one"
    )


@pytest.mark.parametrize(
    "labels",
    [["서울; 중구", "부산"], ["가|", "나"], ["여성/가족", "성소수자"], ["제품#가격", "제품#일반", "본품#가격"]],
)
def test_a_label_with_another_mark_alone_is_no_list_of_multilabel(labels: list[str], tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", *({"text": "글", "labels": [label]} for label in labels))
    assert Task.choose("multilabel").fit_labels([path]).dump()["labels"] == sorted(labels)


@pytest.mark.parametrize(
    "labels",
    [
        ["서울, 중구", "부산", "대구"],
        ["가,", "나"],
        ["예", "아니요"],
        ["긍정/강", "긍정/약", "부정/강"],
        ["제품#가격", "제품#일반", "본품#가격", "본품#일반"],
    ],
)
def test_a_label_with_a_comma_alone_is_no_list(labels: list[str], tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", *({"text": "글", "label": label} for label in labels))
    assert Task.choose("classification").fit_labels([path]).labels == sorted(labels)


def test_classification_points_at_the_task_for_lists(tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", {"text": "글", "label": ["가"]}, {"text": "말", "label": ["가", "나"]})
    with pytest.raises(UserError, match=r"line 2: the label is \['가', '나'\]; .* read by the task multilabel"):
        Task.choose("classification").fit_labels([path])


# scores


rows_of_labels = st.lists(st.lists(st.integers(0, 3), unique=True), min_size=1, max_size=12)


@given(st.data())
def test_scores_are_those_of_scikit_learn(data: Any) -> None:
    right = data.draw(rows_of_labels)
    predicted = [data.draw(st.lists(st.integers(0, 3), unique=True)) for _ in right]
    scores = multilabel_scores(predicted, right, 4)
    pairs = [(indicators(right, 4), indicators(predicted, 4))]
    for expected, given_rows in pairs:
        for average in ("micro", "macro"):
            f1 = f1_score(expected, given_rows, average=average, zero_division=0)
            assert scores[f"{average}_f1"] == pytest.approx(100 * f1)
        assert scores["subset_accuracy"] == pytest.approx(100 * (expected == given_rows).all(1).mean())
        table_of = precision_recall_fscore_support(expected, given_rows, zero_division=0)
    classes = multilabel_report(predicted, right, list("가나다라"))["classes"]
    found = [[row[name] for row in classes] for name in ("precision", "recall", "f1", "support")]
    np.testing.assert_allclose(found[:3], 100 * np.array(table_of[:3]), atol=1e-3)
    assert found[3] == list(table_of[3])


PROBABILITIES = [0.0, 0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0]
probabilities = st.lists(st.sampled_from(PROBABILITIES), min_size=1, max_size=10)


@given(st.data())
def test_the_threshold_has_the_best_f1_of_all_there_are(data: Any) -> None:
    scores = np.array(data.draw(probabilities))
    right = np.array([data.draw(st.booleans()) for _ in scores])

    def f1(threshold: float) -> float:
        return float(f1_score(right, scores >= threshold, zero_division=0))

    threshold = f1_threshold(scores, right)
    # all thresholds between the same two probabilities predict the same
    best = max(f1((below + above) / 2) for below, above in pairwise(PROBABILITIES))
    assert f1(threshold) == pytest.approx(best)
    assert 0 < threshold < 1
    if f1(0.5) == pytest.approx(best):
        assert threshold == 0.5


def test_thresholds_are_chosen_on_dev_kept_as_state_and_decide_the_labels() -> None:
    task = Task.choose({"name": "multilabel", "labels": ["가", "나"]})
    logits = {"logits": [np.array(row, np.float32) for row in ([-1.0, 2.0], [-2.0, 1.0], [-4.0, -0.5], [-3.0, -3.0])]}
    examples = [{"text": "글", "label": label} for label in ([0, 1], [0], [], [])]
    features = Features({}, examples)
    calibrated = task.calibrate(logits, features)
    state = calibrated.inference_state()
    assert state["thresholds"]["가"] == pytest.approx((sigmoid(np.float32(-2.0)) + sigmoid(np.float32(-3.0))) / 2)
    assert sigmoid(np.float32(1.0)) < state["thresholds"]["나"] < sigmoid(np.float32(2.0))
    assert calibrated.predict(logits, features) == [[0, 1], [0], [], []]
    assert task.predict(logits, features) == [[1], [1], [], []], "without thresholds one half decides"
    assert Task.choose("multilabel").with_inference_state(state).thresholds == state["thresholds"]
    fixed = Task.choose({"name": "multilabel", "labels": ["가", "나"], "thresholds": 0.3})
    assert fixed.calibrate(logits, features) is fixed
    [row] = calibrated.results([[0, 1]], {"logits": logits["logits"][:1]}, Features({}, examples[:1]))
    assert row == {"text": "글", "labels": ["가", "나"], "scores": {"가": 0.2689, "나": 0.8808}}


def test_thresholds_go_with_the_labels_that_are_named_anew_and_name_no_other(tmp_path: Path) -> None:
    task = Task.choose({"name": "multilabel", "thresholds": {"LABEL_0": 0.2, "LABEL_1": 0.7}})
    named = task.with_names({"LABEL_0": "슬픔", "LABEL_1": "기쁨"})
    assert named.dump()["thresholds"] == {"슬픔": 0.2, "기쁨": 0.7}
    path = table(tmp_path / "a.jsonl", {"text": "글", "labels": ["기쁨", "슬픔"]})
    mistyped = Task.choose({"name": "multilabel", "thresholds": {"기븜": 0.3}})
    with pytest.raises(UserError, match="thresholds names 기븜, but the labels are 기쁨, 슬픔"):
        mistyped.fit_labels([path])


def test_a_mistake_is_as_sure_as_its_surest_wrong_decision() -> None:
    task = Task.choose({"name": "multilabel", "labels": ["가", "나", "다"]})
    result = {"labels": ["가", "나"], "scores": {"가": 0.9, "나": 0.6, "다": 0.2}}
    mistake = task.mistake([0, 1], {"label": [0, 2]}, result)  # type: ignore[attr-defined]
    assert mistake == {"label": "가, 다", "predicted": "가, 나", "probability": 0.8}


def test_labels_that_are_given_are_not_looked_for() -> None:
    task = Task.choose({"name": "multilabel", "labels": ["욕설", "비하"]})
    assert task.fit_labels([Path("no-such-file.tsv")]) == task
