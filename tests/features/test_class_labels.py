"""Numbers with names in files of `datasets` (ClassLabel): the names decide, in whatever order a file has them."""

from pathlib import Path
from typing import Any

import datasets
import pytest

from kobert_pipeline.features.task import Task

TEXTS = {"sentence1": ["남자가 기타를 친다", "비가 온다"], "sentence2": ["악기를 연주한다", "하늘이 맑다"]}


def parquet(path: Path, columns: dict[str, list[Any]], **kinds: Any) -> Path:
    """A file as `datasets` writes it, with the kinds of some columns."""
    texts = {name: datasets.Value("string") for name in columns.keys() - kinds.keys()}
    datasets.Dataset.from_dict(columns, datasets.Features(texts | kinds)).to_parquet(path)
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
    kind = datasets.ClassLabel(names=["duplicate", "not_duplicate"])
    path = parquet(tmp_path / "a.parquet", TEXTS | {"label": [1, 0]}, label=kind)
    task = Task.choose("pair")
    assert [example["label"] for example in task.read(path)] == [1, 0]
    note = "the file calls its labels duplicate, not_duplicate; their numbers are read as different, same"
    assert task.notes == [note]


@pytest.mark.parametrize("kind", [datasets.List, datasets.LargeList])
def test_lists_of_labels_have_the_names(kind: Any, tmp_path: Path) -> None:
    columns = {"text": ["글", "말", "시"], "labels": [[0, 2], [2], []]}
    names = datasets.ClassLabel(names=["기쁨", "슬픔", "놀람"])
    path = parquet(tmp_path / "a.parquet", columns, labels=kind(names))
    task = Task.choose("multilabel").fit_labels([path])
    assert (task.labels, [example["label"] for example in task.read(path)]) == (["기쁨", "놀람"], [[0, 1], [1], []])


def test_tags_have_the_names(tmp_path: Path) -> None:
    columns = {"tokens": [["민수가", "부산에", "갔다"]], "ner_tags": [[2, 1, 0]]}
    kinds = {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-LC", "B-PS"])),
    }
    [example] = Task.choose("ner").read(parquet(tmp_path / "a.parquet", columns, **kinds))
    assert [tuple(entity) for entity in example["entities"]] == [(0, 3, "PS"), (4, 7, "LC")]
