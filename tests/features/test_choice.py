"""Choices: the layouts of SWAG and KoBEST, columns by option, wrong rows by file and line, and arrays that keep
candidates together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import write_table

from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.task import Task
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

TEXT = "비가 오기 시작했다"
ENDINGS = ["우산을 폈다", "썰매를 탔다", "문을 닫고 오래 잤다", "노래했다"]


def numbered(name: str, texts: list[str], first: int = 0) -> dict[str, str]:
    return {f"{name}{i}": text for i, text in enumerate(texts, first)}


SWAG = {"video-id": "v", "sent1": TEXT, "sent2": "그는", **numbered("ending", ENDINGS), "label": 0}
COPA = {"premise": TEXT, "question": "결과", **numbered("alternative_", ENDINGS[:2], 1), "label": 1}
HELLASWAG = {"context": TEXT, **numbered("ending_", ENDINGS, 1), "label": 3}
LISTED = {"id": "x", "text": TEXT, "choices": ENDINGS[:3], "label": 2}


@pytest.mark.parametrize(
    ("name", "record", "lead", "count"),
    [
        ("s.csv", SWAG, "그는 ", 4),
        ("s.jsonl", SWAG, "그는 ", 4),
        ("c.csv", COPA, "결과 ", 2),
        ("h.jsonl", HELLASWAG, "", 4),
        ("l.jsonl", LISTED, "", 3),
        ("c4.csv", {"premise": TEXT, **numbered("choice", ENDINGS, 1), "label": 3}, "", 4),
        ("q.jsonl", {"question": TEXT, "choices": ENDINGS[:3], "label": 0}, "", 3),
        ("e3.csv", HELLASWAG | {"ending_5": ENDINGS[0], "ending_7": ENDINGS[1]}, "", 5),
    ],
)
def test_known_layouts_are_read_without_options(name: Any, record: Any, lead: Any, count: Any, tmp_path: Path) -> None:
    task = Task.choose("choice")
    [example] = task.read(write_table(tmp_path / name, record))
    assert (example["text"], example["label"]) == (TEXT, record["label"]), (name, record)
    assert example["choices"] == [lead + ending for ending in (ENDINGS * 2)[:count]], (name, record)
    assert example["id"] == record.get("id", "1"), (name, record)
    assert example["group"] == TEXT.replace(" ", ""), (name, record)
    assert task.content(example).splitlines() == [TEXT, *example["choices"]], (name, record)


def test_options_name_the_columns(tmp_path: Path) -> None:
    record = {
        "sent1": "다른 글",
        "body": TEXT,
        "a": ENDINGS[0],
        "b": ENDINGS[1],
        "right": 1,
        "ask": "왜?",
        "all": ENDINGS,
    }
    path = write_table(tmp_path / "own.jsonl", record)
    task = Task.choose({"name": "choice", "text": "body", "choices": ["b", "a"], "label": "right", "lead": "ask"})
    assert task.read(path)[0]["choices"] == [f"왜? {ENDINGS[1]}", f"왜? {ENDINGS[0]}"]
    assert (
        Task.choose({"name": "choice", "text": "body", "choices": "all", "label": "right"}).read(path)[0]["choices"]
        == ENDINGS
    )


@pytest.mark.parametrize(
    ("options", "change", "said"),
    [
        ({}, {"label": 3}, r"own\.jsonl, line 2: the label is 3; allowed are 0 to 2"),
        ({}, {"label": -1}, "line 2: the label is -1; allowed"),
        ({}, {"label": True}, "line 2: the label is True; allowed"),
        ({}, {"label": None}, "line 2: the label is None; allowed"),
        ({}, {"choices": ENDINGS}, "line 2: 4 candidates, 3 were expected, as in the first row"),
        ({}, {"choices": ENDINGS[:1], "label": 0}, "line 2: a choice requires at least two candidates, here is 1"),
        ({}, {"choices": [TEXT, True, TEXT]}, "line 2: '2. candidate' holds bool, text was expected"),
        ({}, {"text": None}, "line 2: 'text' holds NoneType, text was expected"),
        ({}, {"text": " "}, r"own\.jsonl, line 2: 'text' is empty, text was expected"),
        ({}, {"choices": [TEXT, "", TEXT]}, "line 2: '2. candidate' is empty"),
        ({"choices": ["choices", "text"]}, {}, "line 1: '1. candidate' holds list, text was expected"),
        ({"choices": ["one"]}, {}, r"own\.jsonl: there is no column 'one' .*found: .*choices"),
        ({"lead": "txt"}, {}, "there is no column 'txt' - did you mean 'text'"),
        ({"text": "sent1"}, {}, "there is no column 'sent1'"),
    ],
)
def test_a_wrong_row_or_option_is_refused_in_a_sentence(options: Any, change: Any, said: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        Task.choose({"name": "choice"} | options).read(write_table(tmp_path / "own.jsonl", LISTED, LISTED | change))


def test_a_file_without_candidates_is_refused_with_the_known_names(tmp_path: Path) -> None:
    path = write_table(tmp_path / "own.csv", {"text": TEXT, "one": "가", "label": 0})
    with pytest.raises(
        UserError,
        match=r"no columns are the choices of the task choice \(known are ending0, ending1.*"
        r"found were text, one.*option choices",
    ):
        Task.choose("choice").read(path)


def test_files_of_other_numbers_of_candidates_are_not_learned_from_together(
    tmp_path: Path, morpheme_tokenizer_folder: Path
) -> None:
    for name, count in {"a": 2, "b": 3}.items():
        records = [
            LISTED | {"id": i, "text": f"{name} {i}번", "choices": ENDINGS[:count], "label": 0} for i in range(30)
        ]
        write_table(tmp_path / f"{name}.jsonl", *records)
    options = FeaturesOptions(task="choice", train=["a.jsonl", "b.jsonl"], dev_share=0.3)
    with pytest.raises(UserError, match="examples have 2 and 3 texts"):
        stage.run(options, morpheme_tokenizer_folder, tmp_path, tmp_path / "out")


def test_windows_are_text_and_candidate_in_the_order_of_the_candidates(
    tmp_path: Path, morpheme_tokenizer: MorphemeTokenizer
) -> None:
    task = Task.choose("choice")
    long = HELLASWAG | {"context": "아주 긴 이야기가 이어진다 " * 20, "label": 1}
    examples = task.read(write_table(tmp_path / "own.jsonl", HELLASWAG, long))
    Features(task.featurize(examples, morpheme_tokenizer, 32), examples).save(tmp_path / "f")
    features = Features.load(tmp_path / "f")
    assert (len(features), features.choices, len(features.arrays["windows"])) == (2, 4, 9)
    assert task.targets(features)["labels"].tolist() == [3, 1]
    texts = [(example["text"], choice) for example in examples for choice in example["choices"]]
    for i, (text, choice) in enumerate(texts):
        part = slice(*features.arrays["windows"][i : i + 2])
        expected = morpheme_tokenizer(text, choice, truncation=True, max_length=32)
        assert features.arrays["input_ids"][part].tolist() == expected["input_ids"]
        assert features.arrays["token_type_ids"][part].tolist() == expected["token_type_ids"]
    lengths = np.diff(features.arrays["windows"])
    assert features.lengths.tolist() == [lengths[:4].max(), 32]


def test_the_largest_score_of_an_example_is_its_prediction() -> None:
    task = Task.choose("choice")
    examples = [{"label": 2}, {"label": 0}]
    features = Features({"windows": np.arange(7), "choices": np.array(3)}, examples)
    predictions = task.predict({"logits": [np.array([0.0, 1, 2]), np.array([1.0, 3, 2])]}, features)
    assert predictions == [2, 1]
    assert task.score(predictions, examples) == pytest.approx({"accuracy": 50.0, "macro_f1": 100 / 3})


def test_a_file_without_rows_has_no_examples(tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("text,label\n")
    for name in ("choice", "tagging"):
        assert Task.choose(name).read(tmp_path / "none.csv") == [], name


def test_a_column_is_the_text_or_what_candidates_begin_with(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.jsonl", {"premise": "다른 글", "question": TEXT, "choices": ENDINGS, "label": 0})
    [example] = Task.choose({"name": "choice", "text": "question"}).read(path)
    assert (example["text"], example["choices"]) == (TEXT, ENDINGS)


@pytest.mark.parametrize("name", ["choice3", "Choice3"])
def test_a_candidate_that_only_a_later_row_has_is_not_left_out(name: str, tmp_path: Path) -> None:
    first = {"premise": TEXT, **numbered("choice", ENDINGS[:2], 1), "label": 0}
    path = write_table(tmp_path / "a.jsonl", first, first | {name: ENDINGS[2], "label": 1})
    with pytest.raises(UserError, match=f"line 2: the column '{name}' is in this row but not in the first"):
        Task.choose("choice").read(path)
