"""Numbers with names in files of `datasets` (ClassLabel): the names decide, in whatever order a file has them."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.tables.rows import class_names

TEXTS = {"sentence1": ["남자가 기타를 친다", "비가 온다"], "sentence2": ["악기를 연주한다", "하늘이 맑다"]}


def parquet(path: Path, columns: dict[str, list[Any]], **features: Any) -> Path:
    """A file as `datasets` writes it, with the features of some columns."""
    texts = {name: datasets.Value("string") for name in columns.keys() - features.keys()}
    datasets.Dataset.from_dict(columns, datasets.Features(texts | features)).to_parquet(path)
    return path


def test_a_label_is_what_the_file_calls_its_number(tmp_path: Path) -> None:
    names = ["contradiction", "entailment", "neutral"]  # sorted, as class_encode_column leaves them
    path = parquet(tmp_path / "a.parquet", TEXTS | {"label": [1, 0]}, label=datasets.ClassLabel(names=names))
    task = Task.choose("nli")
    assert [task.classes()[example["label"]] for example in task.read(path)] == ["entailment", "contradiction"]
    assert task.notes == []


def test_found_labels_have_the_names(tmp_path: Path) -> None:
    columns = {"text": ["글", "말", "시"], "label": [1, 0, 1]}
    path = parquet(tmp_path / "a.parquet", columns, label=datasets.ClassLabel(names=["좋음", "나쁨"]))
    task = Task.choose("classification").fit_labels([path])
    assert task.classes() == ["나쁨", "좋음"]
    assert [example["label"] for example in task.read(path)] == [0, 1, 0]
    # labels of one's own in place of the names
    numbered = Task.choose({"name": "classification", "labels": [0, 1]})
    assert [example["label"] for example in numbered.read(path)] == [1, 0, 1]


def test_names_that_are_no_labels_of_the_task_are_noted_and_numbers_stay(tmp_path: Path) -> None:
    names = datasets.ClassLabel(names=["duplicate", "not_duplicate"])
    path = parquet(tmp_path / "a.parquet", TEXTS | {"label": [1, 0]}, label=names)
    task = Task.choose("pair")
    assert [example["label"] for example in task.read(path)] == [1, 0]
    note = "the file calls its labels duplicate, not_duplicate; their numbers are read as different, same"
    assert task.notes == [note]


def test_names_in_one_file_and_numbers_in_another_are_refused(tmp_path: Path) -> None:
    names = datasets.ClassLabel(names=["좋음", "나쁨"])
    named = parquet(tmp_path / "a.parquet", {"text": ["글", "말"], "label": [1, 0]}, label=names)
    (tmp_path / "b.csv").write_text("text,label\n시,0\n글,1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"b.csv has the labels 0, 1, and .*a.parquet has 나쁨, 좋음; write the labels"):
        Task.choose("classification").fit_labels([named, tmp_path / "b.csv"])


@pytest.mark.parametrize("labels", [("true", "false"), ("-1", "-2"), ("기타", "기타")])
def test_numbers_beside_what_is_no_other_name_for_them_are_read(labels: tuple[str, str], tmp_path: Path) -> None:
    rows = zip("글말시비", ["0", "1", *labels], strict=True)
    lines = [f"{text},{label}\n" for text, label in rows]
    for name, content in (("a.csv", lines[:2]), ("b.csv", lines[2:])):
        (tmp_path / name).write_text("text,label\n" + "".join(content), encoding="utf-8")
    task = Task.choose("classification").fit_labels([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert {"0", "1"} <= {*task.classes()}


@pytest.mark.parametrize(
    "other",
    [{"list": [{"_type": "Value"}]}, {"list": "?"}, {"label": [{"_type": "ClassLabel", "names": ["가", "나"]}]}],
)
def test_names_are_found_beside_features_of_other_versions(other: dict[str, Any]) -> None:
    features = {"label": {"_type": "ClassLabel", "names": ["가", "나"]}} | other
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    assert class_names(metadata) == {"label": ["가", "나"]}


@pytest.mark.parametrize("task", ["regression", "sts"])
def test_scores_have_the_names(task: str, tmp_path: Path) -> None:
    columns = TEXTS | {"text": ["글", "말"], "label": [1, 2]}
    path = parquet(tmp_path / "a.parquet", columns, label=datasets.ClassLabel(names=["1", "5", "2"]))
    chosen = Task.choose(task)
    assert ([example["label"] for example in chosen.read(path)], chosen.notes) == ([5, 2], [])


@pytest.mark.parametrize(
    ("names", "rows", "labels"),
    [
        (["기쁨", "슬픔"], [[0, 1], [1, 0]], [[0, 1], [0, 1]]),  # numbers of labels
        (["no", "yes"], [[0, 1], [1, 0]], [[1], [0]]),
        (["no", "yes"], [[1, 1], [0, 0]], [[0, 1], []]),
        (["기쁨", "슬픔"], [[1, 1], [0]], [[1], [0]]),  # of two annotators
    ],
)
def test_lists_of_0_and_1_with_names(
    names: list[str], rows: list[list[int]], labels: list[list[int]], tmp_path: Path
) -> None:
    list_type = datasets.List(datasets.ClassLabel(names=names))
    path = parquet(tmp_path / "a.parquet", {"text": ["글", "말"], "labels": rows}, labels=list_type)
    task = Task.choose({"name": "multilabel", "labels": ["기쁨", "슬픔"]})
    assert [example["label"] for example in task.read(path)] == labels


@pytest.mark.parametrize("list_type", [datasets.List, datasets.LargeList])
def test_lists_of_labels_have_the_names(list_type: Any, tmp_path: Path) -> None:
    columns = {"text": ["글", "말", "시"], "labels": [[0, 2], [2], []]}
    names = datasets.ClassLabel(names=["기쁨", "슬픔", "놀람"])
    path = parquet(tmp_path / "a.parquet", columns, labels=list_type(names))
    task = Task.choose("multilabel").fit_labels([path])
    assert (task.labels, [example["label"] for example in task.read(path)]) == (["기쁨", "놀람"], [[0, 1], [1], []])


def test_tags_have_the_names(tmp_path: Path) -> None:
    columns = {"tokens": [["민수가", "부산에", "갔다"]], "ner_tags": [[2, 1, 0]]}
    features = {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-LC", "B-PS"])),
    }
    [example] = Task.choose("ner").read(parquet(tmp_path / "a.parquet", columns, **features))
    assert [tuple(entity) for entity in example["entities"]] == [(0, 3, "PS"), (4, 7, "LC")]
