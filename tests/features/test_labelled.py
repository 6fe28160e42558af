"""Tasks on labelled texts and pairs: the layouts of known sets, columns by option, labels, groups, and wrong inputs by
file and line."""

import json
import unicodedata
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import write_table as table

from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import prepare, split
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

ONE, TWO = "부산에서 배를 타면 섬에 갈 수 있나요?", "섬에 가는 배는 부산에서 떠나나요?"


@pytest.mark.parametrize(
    ("labels", "of_model", "index"), [(["1", "0"], ["0", "1"], [1, 0]), (["5", "4", "3"], ["3", "4", "5"], [2, 1, 0])]
)
def test_labels_that_are_numbers_are_found_by_their_names(
    labels: list[str], of_model: list[str], index: list[int]
) -> None:
    task = Task.choose({"name": "classification", "labels": labels}).with_model_labels(of_model)
    logits = {"logits": [np.eye(len(labels), dtype=np.float32)[output] for output in range(len(labels))]}
    assert task.predict(task.by_label(logits), Features({}, [])) == index
    assert not task.notes


KORNLI = {"sentence1": ONE, "sentence2": TWO, "gold_label": "neutral"}
KLUE_NLI = {
    "guid": "nli-7",
    "source": "own",
    "premise": ONE,
    "hypothesis": TWO,
    "gold_label": "contradiction",
    "author": "contradiction",
}
KORSTS = {
    "genre": "own",
    "filename": "a",
    "year": 2026,
    "id": "0001",
    "score": "3.800",
    "sentence1": ONE,
    "sentence2": TWO,
}
KLUE_STS = {
    "guid": "sts-1",
    "sentence1": ONE,
    "sentence2": TWO,
    "labels": {"label": 3.7, "real-label": 3.714, "binary-label": 1},
}
LAYOUTS = [
    ("pair", "q.tsv", {"question1": ONE, "question2": TWO, "is_duplicate": 1}, "1", 1),
    ("pair", "p.csv", {"id": 9, "sentence1": ONE, "sentence2": TWO, "label": 0}, "9", 0),
    ("pair", "s.json", KLUE_STS, "sts-1", 1),
    ("pair", "s.parquet", KLUE_STS, "sts-1", 1),
    ("nli", "k.tsv", KORNLI, "1", 1),
    ("nli", "k.json", KLUE_NLI, "nli-7", 2),
    ("nli", "k.jsonl", KLUE_NLI, "nli-7", 2),
    ("nli", "h.parquet", {"premise": ONE, "hypothesis": TWO, "label": 2}, "1", 2),
    ("sts", "s.tsv", KORSTS, "0001", 3.8),
    ("sts", "s.json", KLUE_STS, "sts-1", 3.7),
    (
        "acceptability",
        "a.tsv",
        {"source": "T1", "acceptability_label": 1, "source_annotation": "", "sentence": ONE},
        "1",
        1,
    ),
    ("acceptability", "a.csv", {"sentence": ONE, "label": 0}, "1", 0),
    ({"name": "classification", "labels": ["물음", "대답"]}, "c.csv", {"text": ONE, "label": "물음"}, "1", 0),
    ({"name": "classification", "labels": [10, 9]}, "c.jsonl", {"document": ONE, "label": 9}, "1", 1),
]


def test_known_layouts_are_read_without_options(tmp_path: Path) -> None:
    for task, name, record, identity, label in LAYOUTS:
        chosen = Task.choose(task)
        [example] = chosen.read(table(tmp_path / name, record))
        assert (example["id"], example["text"], example["label"]) == (identity, ONE, label), (task, name)
        assert example.get("text_pair") == (TWO if chosen.paired else None), (task, name)
        assert chosen.content(example) == (f"{ONE}\n{TWO}" if chosen.paired else ONE), (task, name)


@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.json", "own.jsonl", "own.parquet"])
def test_options_name_the_columns(name: Any, tmp_path: Path) -> None:
    record = {"sentence1": "다른 글", "label": "0", "left": ONE, "right": TWO, "equal": "1", "number": "n3"}
    task = Task.choose({"name": "pair", "text": "left", "text_pair": "right", "label": "equal", "id": "number"})
    [example] = task.read(table(tmp_path / name, record))
    assert (example["id"], example["text"], example["text_pair"], example["label"]) == ("n3", ONE, TWO, 1), name


def test_a_dotted_option_leads_into_objects(tmp_path: Path) -> None:
    task = Task.choose({"name": "classification", "text": "inner.words", "label": "inner.kind.name"})
    records = [{"inner": {"words": word, "kind": {"name": word[0]}}} for word in ("가방", "나비")]
    assert [example["label"] for example in task.read(table(tmp_path / "a.json", *records))] == [0, 1]


def test_labels_are_read_by_number_and_by_name(tmp_path: Path) -> None:
    records = [KORNLI | {"gold_label": label} for label in ("entailment", "neutral", "contradiction", "0", "1", "2")]
    assert [example["label"] for example in Task.choose("nli").read(table(tmp_path / "a.tsv", *records))] == [
        0,
        1,
        2,
        0,
        1,
        2,
    ]
    assert Task.choose("nli").config()["id2label"] == {0: "entailment", 1: "neutral", 2: "contradiction"}


def test_equal_pairs_are_one_group_in_either_order_where_order_means_nothing(tmp_path: Path) -> None:
    pairs = [(ONE, TWO), (TWO, ONE), (ONE.replace(" ", "  "), TWO), (ONE, ONE)]
    for task, symmetric in (("pair", True), ("sts", True), ("nli", False)):
        label = {"pair": "label", "sts": "score", "nli": "gold_label"}[task]
        path = table(tmp_path / f"{task}.tsv", *({"sentence1": a, "sentence2": b, label: 1} for a, b in pairs))
        straight, turned, spaced, other = (example["group"] for example in Task.choose(task).read(path))
        assert straight == spaced != other
        assert (straight == turned) is symmetric


@pytest.mark.parametrize("task", ["pair", "sts"])
def test_a_pair_and_its_mirror_lie_on_one_side_of_the_dev_split(task: Any, tmp_path: Path) -> None:
    pairs = [(f"왼쪽 글 {i}번", f"오른쪽 글 {i}번") for i in range(300)]
    label = {"pair": "label", "sts": "score"}[task]
    records = [{"sentence1": a, "sentence2": b, label: 1} for a, b in [*pairs, *((b, a) for a, b in pairs)]]
    table(tmp_path / "train.tsv", *records)
    splits, _ = split(FeaturesOptions(task=task, train="train.tsv", dev_share=0.3), tmp_path)
    sides = {name: {frozenset((e["text"], e["text_pair"])) for e in examples} for name, examples in splits.items()}
    assert not sides["train"] & sides["dev"], task
    assert len(splits["dev"]) == 2 * len(sides["dev"]) > 100, task


def test_rows_of_pairs_without_text_are_not_trained_on_but_counted(tmp_path: Path) -> None:
    rows = [{"sentence1": f"왼쪽 글 {i}번", "sentence2": f"오른쪽 글 {i}번", "label": i % 2} for i in range(40)]
    blank = {"sentence1": "", "sentence2": " ", "label": 0}
    table(tmp_path / "train.tsv", *rows, blank, blank)
    table(tmp_path / "dev.tsv", {"sentence1": "글", "sentence2": "다른 글", "label": 1}, blank)
    options = FeaturesOptions(task="pair", train="train.tsv", dev="dev.tsv")
    splits, counts = split(options, tmp_path)
    assert counts == {"train_examples_read": 42, "train_examples_in_dev": 0, "train_examples_without_text": 2}
    assert [len(splits[name]) for name in ("train", "dev")] == [40, 2]


@pytest.mark.parametrize(
    ("task", "name", "change", "said"),
    [
        (
            "pair",
            "a.tsv",
            {"label": "2"},
            r"a\.tsv, line 3: the label is '2'; allowed are 0 \(different\), 1 \(same\), different, same",
        ),
        ("nli", "a.json", {"label": True}, r"a\.json, entry 2: the label is True; allowed"),
        ("pair", "a.json", {"label": [0, 1]}, r"a\.json, entry 2: the label is \[0, 1\]; allowed"),
        ("pair", "a.jsonl", {"label": None}, r"a\.jsonl, line 2: the label is None; allowed"),
        ("pair", "a.jsonl", {"label": 1.5}, "line 2: the label is 1.5; allowed"),
        ("pair", "a.jsonl", {"sentence2": None}, "line 2: the column 'sentence2' holds NoneType, text was expected"),
        ("pair", "a.jsonl", {"sentence1": True}, "line 2: the column 'sentence1' holds bool"),
        ("nli", "a.tsv", {"sentence1": ""}, r"a\.tsv, line 3: the column 'sentence1' is empty, text was expected"),
        ("sts", "a.csv", {"sentence2": " "}, "line 3: the column 'sentence2' is empty"),
        ("acceptability", "a.jsonl", {"sentence": "\n\u3000"}, "line 2: the column 'sentence' is empty"),
        ("classification", "a.csv", {"sentence": "", "label": ""}, "line 3: the column 'sentence' is empty"),
        ("nli", "a.tsv", {"label": "-"}, "line 3: the label is '-'; allowed are .*entailment"),
        ("acceptability", "a.csv", {"label": ""}, r"a\.csv, line 3: the label is ''; allowed are 0 \(unacceptable\)"),
        ("sts", "a.tsv", {"label": "5.1"}, "line 3: the score is '5.1'; allowed are numbers from 0 to 5"),
        ("sts", "a.tsv", {"label": "nan"}, "line 3: the score is 'nan'"),
        ("sts", "a.tsv", {"label": "-0.5"}, "line 3: the score is '-0.5'"),
        ("sts", "a.jsonl", {"label": False}, "line 2: the score is False"),
        ("sts", "a.jsonl", {"label": [1, 2]}, r"line 2: the score is \[1, 2\]"),
        (
            {"name": "classification", "labels": ["1", "3"]},
            "a.tsv",
            {"label": "2"},
            "line 3: the label is '2'; allowed are 1, 3",
        ),
        (
            "classification",
            "a.jsonl",
            {"label": 0.5},
            "line 2: the label is 0.5; a text or a whole number was expected",
        ),
        ("classification", "a.tsv", {"label": " "}, "line 3: the label is ' '"),
    ],
)
def test_a_wrong_row_is_refused_by_file_and_line(task: Any, name: Any, change: Any, said: Any, tmp_path: Path) -> None:
    right = {"sentence1": ONE, "sentence2": TWO, "sentence": ONE, "label": 1}
    with pytest.raises(UserError, match=said):
        Task.choose(task).read(table(tmp_path / name, right, right | change))


def test_a_row_that_lacks_what_the_first_has_is_refused_with_a_guess(tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", {"sentence": ONE, "label": 1}, {"sentense": ONE, "label": 1})
    with pytest.raises(UserError, match="line 2: there is no 'sentence' - did you mean 'sentense'"):
        Task.choose("acceptability").read(path)


def test_a_file_without_a_known_column_is_refused_with_the_known_and_the_found_names(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", {"a": ONE, "b": TWO, "label": 1})
    said = (
        r"a\.csv: no column is the text_pair of the task pair "
        r"\(known are question2.*found were sentence1, b, label\).*option text_pair"
    )
    with pytest.raises(UserError, match=said):
        Task.choose("pair").read(table(path, {"sentence1": ONE, "b": TWO, "label": 1}))
    with pytest.raises(
        UserError, match=r"there is no column 'lable' - did you mean 'label'.*by the option label of the task"
    ):
        Task.choose({"name": "acceptability", "text": "a", "label": "lable"}).read(table(path, {"a": ONE, "label": 1}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "nil"}, "did you mean 'nli'"),
        ({"name": "pair", "text_par": "b"}, "unknown key 'text_par' - did you mean 'text_pair'"),
        ({"name": "acceptability", "text_pair": "b"}, "unknown key 'text_pair'"),
        ({"name": "classification", "labels": ["하나"]}, "labels: needs|at least 2"),
        ({"name": "classification", "labels": ["하나", "하나"]}, "the label '하나' is listed twice"),
        ({"name": "classification", "metric": "f2"}, "metric: .*'accuracy', 'macro_f1' or 'mcc'"),
    ],
)
def test_a_wrong_option_is_refused(given: Any, said: Any) -> None:
    with pytest.raises(Exception, match=said):
        Task.choose(given)


# own labels


def test_labels_that_are_not_said_are_those_of_the_training_files_sorted(tmp_path: Path) -> None:
    one = table(tmp_path / "one.tsv", *({"text": f"글 {kind}", "label": kind} for kind in ("산", "강", "산")))
    two = table(tmp_path / "two.csv", {"text": "글", "label": "들"})
    task = Task.choose("classification").fit_labels([one, two])
    assert task.dump()["labels"] == ["강", "들", "산"]
    assert [example["label"] for example in task.read(one)] == [2, 0, 2]
    assert Task.choose(task.dump()).dump() == task.dump(), "it comes back from task.json"
    with pytest.raises(UserError, match="at least two labels, found was only '들'"):
        Task.choose("classification").fit_labels([two])


def test_a_file_with_nothing_below_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"train split is empty: .*a\.csv holds no examples \(no question, or no row below"
    ):
        Task.choose("classification").fit_labels([path])


def test_own_labels_of_pairs_need_no_more_than_the_second_column(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", *({"text": ONE, "answer": TWO, "label": label} for label in (3, 10)))
    task = Task.choose({"name": "classification", "text_pair": "answer", "labels": [3, 10]})
    assert task.paired and not Task.choose("classification").paired
    assert [(example["text_pair"], example["label"]) for example in task.read(path)] == [(TWO, 0), (TWO, 1)]
    with pytest.raises(UserError, match="there is no column 'anser' - did you mean 'answer'"):
        Task.choose({"name": "classification", "text_pair": "anser"}).read(path)


def decomposed(text: str) -> str:
    """As a Mac spells it."""
    return unicodedata.normalize("NFD", text)


def test_a_decomposed_label_is_the_same_label(tmp_path: Path) -> None:
    records = [{"text": "글", "label": label} for label in ("환불", "배송", decomposed("환불"), decomposed("배송"))]
    for name in ["a.csv", "a.jsonl"]:
        path = table(tmp_path / name, *records)
        found = Task.choose("classification").fit_labels([path])
        given = Task.choose({"name": "classification", "labels": [decomposed("환불"), "배송"]})
        assert (found.labels, given.labels) == (["배송", "환불"], ["환불", "배송"]), name
        assert [example["label"] for example in found.read(path)] == [1, 0, 1, 0], name
        assert [example["label"] for example in given.read(path)] == [0, 1, 0, 1], name
    with pytest.raises(Exception, match="the label '환불' is listed twice"):
        Task.choose({"name": "classification", "labels": ["환불", decomposed("환불")]})


def test_the_error_about_a_label_says_where_the_allowed_ones_come_from(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", *({"text": "글", "label": label} for label in ("산", "강")))
    wrong = table(tmp_path / "b.csv", {"text": "글", "label": "들"})
    found = Task.choose("classification").fit_labels([path])
    with pytest.raises(UserError, match=r"allowed are 강, 산, those of the training files unless the option labels"):
        found.read(wrong)
    for given in (Task.choose({"name": "classification", "labels": ["산", "강"]}), Task.choose(found.dump())):
        with pytest.raises(UserError, match=r"line 2: the label is '들'; allowed are [산강], [산강]$"):
            given.read(wrong)


def test_labels_that_differ_by_case_alone_are_noted(tmp_path: Path) -> None:
    rows = [{"text": f"글 {label}", "label": label} for label in ("Good", "good", "bad")]
    task = Task.choose("classification").fit_labels([table(tmp_path / "a.jsonl", *rows)])
    assert task.labels == ["Good", "bad", "good"]
    assert task.notes == ["labels that differ by case alone are read as different ones: Good, good"]


def test_labels_that_are_said_stay_in_their_order(tmp_path: Path) -> None:
    given = Task.choose({"name": "classification", "labels": ["산", "강"]})
    assert given.fit_labels([tmp_path / "not read.tsv"]) is given
    assert given.config()["label2id"] == {"산": 0, "강": 1}


@pytest.mark.parametrize("name", ["dev", "test"])
def test_a_label_that_training_does_not_have_is_refused_by_file_and_line(
    name: Any, tmp_path: Path, morpheme_tokenizer_folder: Path
) -> None:
    table(tmp_path / "train.tsv", *({"text": f"글 {i}", "label": "산강"[i % 2]} for i in range(40)))
    table(tmp_path / "other.tsv", {"text": "글", "label": "산"}, {"text": "글", "label": "바다"})
    options = FeaturesOptions(task="classification", train="train.tsv", **{name: "other.tsv"})
    with pytest.raises(
        UserError,
        match=r"other\.tsv, line 3: the label is '바다'; allowed are 강, 산, "
        r"those of the training files .*option labels",
    ):
        stage.run(options, morpheme_tokenizer_folder, tmp_path, tmp_path / "out")


def test_the_labels_found_are_saved_with_the_features(tmp_path: Path, morpheme_tokenizer_folder: Path) -> None:
    records = [{"text": f"{i}번째 글", "label": "산강들"[i % 3]} for i in range(40)]
    table(tmp_path / "train.tsv", *records)
    options = FeaturesOptions(task={"name": "classification", "metric": "macro_f1"}, train="train.tsv", dev_share=0.3)
    stage.run(options, morpheme_tokenizer_folder, tmp_path, tmp_path / "out")
    task = Task.choose(read_json(tmp_path / "out" / "task.json")["task"])
    assert (task.labels, task.metric) == (["강", "들", "산"], "macro_f1")
    assert list(task.score([0, 1], [{"label": 0}, {"label": 2}])) == ["macro_f1", "accuracy", "mcc"]
    train = Features.load(tmp_path / "out" / "train")
    wanted = {record["text"]: record["label"] for record in records}
    assert [task.labels[label] for label in train.arrays["labels"]] == [
        wanted[example["text"]] for example in train.examples
    ]


def test_labels_are_counted_and_rare_ones_are_noted_with_their_number(
    tmp_path: Path, morpheme_tokenizer_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frequent = [{"text": f"{i}번째 글", "label": "환불배송"[i % 2 * 2 :][:2]} for i in range(40)]
    table(tmp_path / "train.csv", *frequent, {"text": "글", "label": "환뷸"})
    table(tmp_path / "dev.csv", {"text": "다른 글", "label": "환불"})
    options = FeaturesOptions(task="classification", train="train.csv", dev="dev.csv")
    counts = stage.run(options, morpheme_tokenizer_folder, tmp_path, tmp_path / "out")
    assert counts["train_labels"] == {"배송": 20, "환불": 20, "환뷸": 1}
    assert counts["dev_labels"] == {"배송": 0, "환불": 1, "환뷸": 0}
    [note] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note")]
    assert note.endswith("typing errors: 환뷸 (1)")
    # labels that are given are no typing errors
    given = FeaturesOptions(
        task={"name": "classification", "labels": ["환불", "배송", "환뷸"]}, train="train.csv", dev="dev.csv"
    )
    prepare(given, tmp_path)
    assert not capsys.readouterr().err


def test_what_is_no_class_is_not_counted(tmp_path: Path) -> None:
    rows = [{"sentence1": ONE, "sentence2": TWO, "score": 3.8}]
    assert Task.choose("sts").label_counts(Task.choose("sts").read(table(tmp_path / "a.tsv", *rows))) == {}
    assert Task.choose("choice").label_counts([{"label": 1}]) == {}


# arrays and scores


def test_a_pair_is_two_segments_and_both_are_cut_to_fit(morpheme_tokenizer: MorphemeTokenizer) -> None:
    long = "아주 긴 이야기가 이어진다 " * 20
    examples = [{"text": ONE, "text_pair": TWO, "label": 1}, {"text": long, "text_pair": long, "label": 0}]
    arrays = Task.choose("pair").featurize(examples, morpheme_tokenizer, 40)
    first = slice(0, arrays["windows"][1])
    expected = morpheme_tokenizer(ONE, TWO)
    assert arrays["input_ids"][first].tolist() == expected["input_ids"]
    assert arrays["token_type_ids"][first].tolist() == expected["token_type_ids"]
    second = arrays["token_type_ids"][arrays["windows"][1] :]
    assert len(second) == 40 and 15 < second.sum() < 25


def test_scores_of_similarity_are_learned_as_float32(morpheme_tokenizer: MorphemeTokenizer, tmp_path: Path) -> None:
    task = Task.choose("sts")
    arrays = task.featurize([{"text": ONE, "text_pair": TWO, "label": 3.8}], morpheme_tokenizer, 64)
    Features(arrays, []).save(tmp_path / "f")
    labels = task.targets(Features.load(tmp_path / "f"))["labels"]
    assert labels.dtype == np.float32 and labels.tolist() == [pytest.approx(3.8)]
    assert task.config() == {
        "num_labels": 1,
        "id2label": {0: "score"},
        "label2id": {"score": 0},
        "problem_type": "regression",
    }


def test_predictions_are_scored_by_the_scores_of_each_task() -> None:
    examples = [{"label": label} for label in (0, 1, 1, 0)]
    logits = {"logits": [np.array(row) for row in ([2.0, 1], [0, 1], [1, 0], [1, 0])]}
    features = Features({"windows": np.arange(5)}, examples)
    for name, expected in {
        "pair": {"accuracy": 75.0, "f1": 100 * 2 / 3},
        "acceptability": {"mcc": 100 / 3**0.5, "accuracy": 75.0},
        "nli": {"accuracy": 75.0},
    }.items():
        task = Task.choose(name)
        assert task.score(task.predict(logits, features), examples) == pytest.approx(expected)
        assert task.metric in expected
    task = Task.choose("sts")
    predictions = task.predict({"logits": [np.array([value]) for value in (0.5, 3.0, 4.5, 1.0)]}, features)
    assert predictions == [0.5, 3.0, 4.5, 1.0]
    scores = task.score(predictions, [{"label": label} for label in (0.0, 2.0, 5.0, 1.5)])
    assert list(scores) == ["pearson", "spearman", "f1"] and scores["spearman"] == pytest.approx(100)
    # 3.0 and 4.5 mean the same, and of the right scores 5.0
    assert scores["f1"] == pytest.approx(100 * 2 / 3)


def test_all_rows_that_are_refused_are_named_at_once(tmp_path: Path, kobert: Callable[..., Any]) -> None:
    records = [{"text": ONE, "label": "좋다"}, {"text": "", "label": "좋다"}, *({"text": TWO, "label": "?"},) * 30]
    task = {"name": "classification", "labels": ["좋다", "싫다"]}
    path = table(tmp_path / "a.csv", *records)
    with pytest.raises(
        UserError, match=r"line 3: the column 'text' is empty.* \(also refused: line 4, .* and 10 more\)$"
    ):
        Task.choose(task).read(path)
    recipe = tmp_path / "r.yaml"
    features = {"a": {"task": task, "train": ["a.csv"], "license": "CC0-1.0"}}
    recipe.write_text(
        json.dumps(
            {"data_dir": str(tmp_path), "checkpoint": "klue/bert-base", "features": features, "finetune": {"a": {}}}
        )
    )
    said = kobert("check", recipe).out
    assert "line 3: the column" in said and said.count("the label is '?'; allowed are 좋다, 싫다") == 19
    assert "a.csv: 11 more rows are refused, the next at line 23" in said


SPELLED: dict[str, tuple[str, list[Any]]] = {
    "numbers": ("a.jsonl", [4, 1]),
    "floats": ("a.parquet", [4.0, 1.0]),
    "floats as text": ("a.csv", ["4.0", "1.0"]),
    "texts": ("a.tsv", ["4", "1"]),
    "lists of one": ("a.json", [[4], ["1"]]),
    "lists of one in Parquet": ("a.parquet", [[4.0], [1.0]]),
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
@pytest.mark.parametrize("given", [None, ["1", "4"], ["1.0", "4.0"], [1, 4]])
def test_a_number_is_a_label_by_its_value(tmp_path: Path, spelled: tuple[str, list[Any]], given: Any) -> None:
    path = table(tmp_path / spelled[0], *({"text": f"글 {n}", "label": label} for n, label in enumerate(spelled[1])))
    first = table(tmp_path / "first.csv", {"text": "글", "label": 1}, {"text": "글", "label": 4})
    task = Task.choose({"name": "classification", "labels": given}).fit_labels([first, path])
    assert [float(label) for label in task.dump()["labels"]] == [1, 4]
    assert [example["label"] for example in task.read(path)] == [1, 0]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.csv"])
def test_true_and_false_are_labels_and_1_and_0_by_value(tmp_path: Path, name: str) -> None:
    path = table(tmp_path / name, {"text": "가", "label": True}, {"text": "나", "label": False})
    numbers = table(tmp_path / "n.tsv", {"text": "다", "label": 1}, {"text": "라", "label": 0})
    alone, together = (Task.choose("classification").fit_labels(paths) for paths in ([path], [path, numbers]))
    assert (alone.dump()["labels"], together.dump()["labels"]) == (["False", "True"], ["0", "1"])
    for task in (alone, together, Task.choose({"name": "acceptability", "text": "text"})):
        assert [example["label"] for example in task.read(path)] == [1, 0]
        assert [example["label"] for example in task.read(numbers)] == [1, 0]


@pytest.mark.parametrize("names", [("Text", "Label"), ("TEXT", "LABEL"), ("Sentence", "label")])
def test_known_columns_are_read_in_any_case(tmp_path: Path, names: tuple[str, str]) -> None:
    path = table(tmp_path / "a.csv", *(dict(zip(names, cells, strict=True)) for cells in (("글", "가"), ("말", "나"))))
    examples = Task.choose("classification").fit_labels([path]).read(path)
    assert [(example["text"], example["label"]) for example in examples] == [("글", 0), ("말", 1)]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
@pytest.mark.parametrize("kind", [date, datetime, Decimal])
def test_types_of_tables_are_labels_as_text_has_them(tmp_path: Path, name: str, kind: Any) -> None:
    values = [Decimal(1), Decimal(2)] if kind is Decimal else [kind(2024, 5, 1), kind(2024, 5, 2)]
    path = table(tmp_path / name, *({"text": f"글 {value}", "label": value} for value in values))
    first = "2024-05-01 00:00:00" if (kind, name) == (datetime, "a.csv") else str(values[0])[:10]
    assert Task.choose("classification").fit_labels([path]).dump()["labels"][0] == first


def test_labels_without_what_nobody_sees_and_around_one(tmp_path: Path) -> None:
    labels = ["긍정\u200b", "\ufeff긍정", "['긍정']", '["긍정"]', "부정"]
    path = table(tmp_path / "a.jsonl", *({"text": f"글 {n}", "label": label} for n, label in enumerate(labels)))
    task = Task.choose("classification").fit_labels([path])
    assert task.dump()["labels"] == ["긍정", "부정"]
    assert [example["label"] for example in task.read(path)] == [0, 0, 0, 0, 1]


def test_a_list_of_labels_as_text_is_no_label(tmp_path: Path) -> None:
    rows = [{"text": "글", "label": "['가', '나']"}, {"text": "말", "label": "['가']"}]
    with pytest.raises(UserError, match=r"line 1: the label is .*read by the task multilabel"):
        Task.choose("classification").fit_labels([table(tmp_path / "a.jsonl", *rows)])


def test_what_a_prodigy_user_rejected_is_no_label(tmp_path: Path) -> None:
    rows = [{"text": "글", "label": "가", "answer": "accept"}, {"text": "말", "label": "나", "answer": "reject"}]
    with pytest.raises(UserError, match="line 2: its answer is 'reject', so what Prodigy suggested for it is wrong"):
        Task.choose("classification").fit_labels([table(tmp_path / "a.jsonl", *rows)])


def test_versions_stay_labels_as_they_are_written(tmp_path: Path) -> None:
    """3.1 and 3.10 are no whole numbers."""
    path = table(tmp_path / "a.csv", *({"text": "글", "label": label} for label in ("3.1", "3.10", "v2.0")))
    assert Task.choose("classification").fit_labels([path]).dump()["labels"] == ["3.1", "3.10", "v2.0"]


@pytest.mark.parametrize("value", [1004, 1004.0, "1004"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_a_number_is_a_text_where_a_text_is_read(tmp_path: Path, name: str, value: Any) -> None:
    path = table(tmp_path / name, {"sentence1": value, "sentence2": value, "label": 1})
    [example] = Task.choose("pair").read(path)
    assert (example["text"], example["text_pair"]) == ("1004", "1004")
