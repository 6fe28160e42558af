"""Train, dev and test have no examples in common."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

from kobert_pipeline.cli.run_results import result_of
from kobert_pipeline.corpus.readers.nsmc import Nsmc
from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage
from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import describe, prepare, raw_files, split
from kobert_pipeline.files import read_json


def write_reviews(path: Path, texts: list[str]) -> None:
    lines = [f"{i}\t{text}\t{i % 2}\n" for i, text in enumerate(texts)]
    path.write_text("id\tdocument\tlabel\n" + "".join(lines), encoding="utf-8")


def write_contexts(path: Path, contexts: list[str]) -> None:
    """Two questions on each context."""
    answer = [{"text": text[:2], "answer_start": 0} for text in contexts]
    questions = [
        [{"id": f"{path.stem}-{i}-{k}", "question": "?", "answers": [one]} for k in range(2)]
        for i, one in enumerate(answer)
    ]
    paragraphs = [{"context": text, "qas": asked} for text, asked in zip(contexts, questions, strict=True)]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")


def options(task: str = "nsmc", **changes: Any) -> FeaturesOptions:
    return FeaturesOptions(task=task, **{"train": "train.txt", **changes})


def ids(examples: list[dict[str, Any]]) -> list[str]:
    return [example["id"] for example in examples]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """4,000 reviews of 2,000 texts; the second of each pair differs in white space only."""
    write_reviews(tmp_path / "train.txt", [f"영화 {i // 2}번" if i % 2 else f"영화{i // 2}번" for i in range(4000)])
    return tmp_path


def test_groups_are_never_on_two_sides_and_nothing_is_lost(many: Path) -> None:
    splits, counts = split(options(), many)
    groups = {name: {example["group"] for example in examples} for name, examples in splits.items()}
    assert not groups["train"] & groups["dev"]
    assert sorted(ids(splits["train"]) + ids(splits["dev"]), key=int) == [str(i) for i in range(4000)]
    assert counts["train_examples_read"] == 4000


def test_a_draw_of_training_examples_is_part_of_a_larger_one_and_leaves_dev_alone(many: Path) -> None:
    splits = {count: split(options(max_train_examples=count), many)[0] for count in (10, 200, 10**6)}
    small, large, all_of_them = ({*ids(each["train"])} for each in splits.values())
    assert (len(small), len(large)) == (10, 200) and small < large < all_of_them
    assert all(ids(each["dev"]) == ids(splits[10]["dev"]) for each in splits.values())
    assert ids(splits[10**6]["train"]) == ids(split(options(), many)[0]["train"])
    assert ids(splits[200]["train"]) == sorted(ids(splits[200]["train"]), key=int)


LABELLED = {
    "classification": [("글 하나", "가"), ("글 하나", "나"), ("글 둘", "가"), ("글 둘", "가"), ("글 셋", "나")],
    "pair": [("글\t말", 0), ("글\t말", 1), ("글\t글", 1), ("말\t글", 1)],
    "multilabel": [("글", "가,나"), ("글", "나,가"), ("말", "가"), ("말", "가,나"), ("말", "나")],
}


@pytest.mark.parametrize(
    ("task", "note"),
    [
        ("classification", "texts of train with more than one label: 1; .*: 글 하나 \\(가, 나\\)"),
        ("pair", "texts of train .*: 1; .*: 글\t말 \\(different, same\\)"),
        ("multilabel", "texts of train .*: 1; .*: 말 \\(가, 가, 나, 나\\)"),
    ],
)
def test_equal_texts_with_other_labels_are_counted_and_named(
    task: str, note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = "sentence1\tsentence2\tlabel\n" if task == "pair" else "text\tlabel\n"
    for name in ("train", "dev"):
        rows = LABELLED[task] if name == "train" else [(f"다른 {text}", label) for text, label in LABELLED[task][:1]]
        content = header + "".join(f"{text}\t{label}\n" for text, label in rows)
        (tmp_path / f"{name}.tsv").write_text(content, encoding="utf-8")
    _, _, counts = prepare(options(task, train="train.tsv", dev="dev.tsv"), tmp_path)
    assert counts["train_texts_contradicting"] == 1 and "dev_texts_contradicting" not in counts
    assert re.search(note, capsys.readouterr().err)
    assert result_of(counts) == "texts with more than one label: 1"


DESCRIBED = {
    "classification": (
        "text\tlabel\n", "글 {}\t{}\n", "classification (labels: 0, 1): 40 in train, 40 in dev", "글 0 -> 0",
    ),
    "regression": ("text\tscore\n", "글 {}\t4.{}\n", "regression: 40 in train, 40 in dev", "글 0 -> 4.0"),
    "multilabel": (
        "text\t가\t나\n", "글 {}\t1\t{}\n", "multilabel (labels: 가, 나): 40 in train, 40 in dev", "글 0 -> 가",
    ),
    "pair": (
        "sentence1\tsentence2\tlabel\n", "글 {}\t말\t{}\n",
        "pair (labels: different, same): 40 in train, 40 in dev", "글 0 | 말 -> different",
    ),
    "tagging": (
        "text\ttags\n", "글 {}\tB-가 B-나{}\n",
        "tagging (labels: 가, 나0, 나1): 40 in train, 40 in dev", "글 0 -> 가 글; 나0 0",
    ),
    "span": (
        "question\tcontext\tanswer\tstart\n", "?\t글 {}\t글\t0\n", "span: 40 in train, 40 in dev", "글 0 | ? -> 글",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "header", "row", "read_as", "example"), [(task, *rest) for task, rest in DESCRIBED.items()]
)
def test_check_says_what_labelled_files_are_read_as(
    task: str, header: str, row: str, read_as: str, example: str, tmp_path: Path
) -> None:
    for name, first in (("train", 0), ("dev", 40)):
        content = header + "".join(row.format(n, n % 2) for n in range(first, first + 40))
        (tmp_path / f"{name}.txt").write_text(content, encoding="utf-8")
    assert describe("mine", options(task, dev="dev.txt"), tmp_path) == [
        f"features.mine is read as {read_as}, for example: {example}"
    ]


def test_check_says_how_many_texts_will_be_truncated(tmp_path: Path) -> None:
    write_reviews(tmp_path / "train.txt", [f"{'긴 글이다 ' * (20 if n % 4 == 0 else 1)}{n}" for n in range(40)])
    write_reviews(tmp_path / "dev.txt", ["좋다", "나쁘다"])
    said = describe("mine", options("nsmc", dev="dev.txt", max_length=32), tmp_path)
    assert "about 25% of the texts of train have more than max_length (32) tokens, some 64 characters" in said[1]
    assert len(describe("mine", options("nsmc", dev="dev.txt", max_length=128), tmp_path)) == 1


def test_a_dev_split_that_is_far_larger_than_asked_for_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_contexts(tmp_path / "train.json", [f"문맥 {n}" for n in range(6)])
    for seed in (0, 11):  # one and three of the contexts
        prepare(options("korquad", train="train.json", dev_share=0.2, dev_seed=seed), tmp_path)
    assert capsys.readouterr().err.count("dev has 50% of the examples, although dev_share is 0.2, since") == 1


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_share_of_dev_is_about_right(share: Any, many: Path) -> None:
    splits, _ = split(options(dev_share=share), many)
    groups = len({example["group"] for example in splits["dev"]})
    assert abs(groups / 2000 - share) < 5 * (share * (1 - share) / 2000) ** 0.5, share


def test_the_split_is_stable_and_another_seed_gives_another(many: Path) -> None:
    first, again, other = (ids(split(options(dev_seed=seed), many)[0]["dev"]) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    write_reviews(many / "train.txt", [f"영화{i}번" for i in range(1000, 1100)])
    kept = {example["group"] for example in split(options(), many)[0]["dev"]}
    write_reviews(many / "train.txt", [f"영화{i}번" for i in range(1050, 1100)])
    fewer = {example["group"] for example in split(options(), many)[0]["dev"]}
    assert fewer == {group for group in kept if int(group[2:-1]) >= 1050}, (
        "a group's side does not depend on the others"
    )


@pytest.mark.parametrize(("share", "seed"), [(0.1, 1), (0.3, 7)])
def test_the_reader_nsmc_gives_the_corpus_stage_the_reviews_of_dev(share: float, seed: int, many: Path) -> None:
    splits, _ = split(options(dev_share=share, dev_seed=seed), many)
    documents = Nsmc(path="train.txt", dev_share=share, dev_seed=seed).read(many)
    assert [document.text for document in documents] == [example["text"] for example in splits["dev"]]


def test_a_dev_file_is_taken_as_it_is(many: Path) -> None:
    write_reviews(many / "dev.txt", ["좋다", "나쁘다"])
    splits, _ = split(options(dev="dev.txt"), many)
    assert len(splits["train"]) == 4000 and len(splits["dev"]) == 2


def test_several_training_files_are_read_in_order(tmp_path: Path) -> None:
    write_reviews(tmp_path / "a.txt", [f"가{i}" for i in range(40)])
    write_reviews(tmp_path / "b.txt", [f"나{i}" for i in range(40)])
    splits, counts = split(options(train=["a.txt", "b.txt"], dev_share=0.2), tmp_path)
    assert counts["train_examples_read"] == 80
    kinds = [example["text"][0] for example in splits["train"]]
    assert kinds == sorted(kinds) and len(set(kinds)) == 2


def test_empty_reviews_are_not_trained_on_but_tested(tmp_path: Path) -> None:
    write_reviews(tmp_path / "train.txt", ["", " ", *(f"영화{i}" for i in range(60))])
    write_reviews(tmp_path / "test.txt", ["", "좋다"])
    splits, _ = split(options(test="test.txt", dev_share=0.2), tmp_path)
    assert all(example["text"].strip() for example in splits["train"])
    assert len(splits["test"]) == 2


SHARED = "경주의 첨성대는 신라 시대에 하늘의 별을 살피려고 돌을 쌓아 만든 건축물로서"
OTHERS = [
    f"서로 다른 {word} 이야기를 담은 {i}번째 글이다 {word * 9}" for i, word in enumerate("갈낙달락말박삿악잣착캇탁팍학")
]


def test_examples_of_one_text_need_a_dev_file(tmp_path: Path) -> None:
    write_contexts(tmp_path / "train.json", [SHARED])
    said = r"dev split .* is empty: 2 examples were read.*; raise dev_share \(now 0\.\d+\), .*, name a dev file, or add"
    with pytest.raises(UserError, match=said):
        prepare(options(task="korquad", train="train.json"), tmp_path)


def test_training_contexts_that_share_text_with_the_test_set_are_dropped_and_counted(tmp_path: Path) -> None:
    write_contexts(tmp_path / "train.json", [*OTHERS, SHARED.replace(" ", "  ") + " 유명하다."])
    write_contexts(tmp_path / "test.json", ["앞에 다른 말이 있고 " + SHARED + " 오래되었다."])
    splits, counts = split(options("korquad", train="train.json", test="test.json", dev_share=0.3), tmp_path)
    assert counts == {"train_examples_read": 2 * len(OTHERS) + 2, "train_examples_contaminated": 2}
    assert len(splits["train"]) + len(splits["dev"]) == 2 * len(OTHERS)
    assert all("첨성대" not in example["context"] for example in splits["train"] + splits["dev"])
    assert not {e["context"] for e in splits["train"]} & {e["context"] for e in splits["dev"]}


@pytest.mark.parametrize(
    "spell", [lambda text: normalize("NFD", text), lambda text: text.replace("첨", "첨\u200b"), str]
)
@pytest.mark.parametrize("shared", [SHARED, "민수가."])
def test_contexts_are_compared_however_they_are_spelled(spell: Any, shared: str, tmp_path: Path) -> None:
    write_contexts(tmp_path / "train.json", [*OTHERS, shared])
    write_contexts(tmp_path / "test.json", [spell(shared)])
    _, counts = split(options("korquad", train="train.json", test="test.json", dev_share=0.3), tmp_path)
    assert counts["train_examples_contaminated"] == 2


def test_reviews_are_not_cleaned_of_the_test_set(tmp_path: Path) -> None:
    """NSMC's official sets share reviews; leaving them out would give another task."""
    texts = [f"이 영화는 정말 재미있었고 배우들의 연기도 모두 훌륭했다 {i}" for i in range(60)]
    write_reviews(tmp_path / "train.txt", texts)
    write_reviews(tmp_path / "test.txt", [*texts[:5], *(f"다른 영화 {i}" for i in range(5))])
    splits, counts = split(options(test="test.txt", dev_share=0.2), tmp_path)
    assert len(splits["train"]) + len(splits["dev"]) == 60
    assert "train_examples_contaminated" not in counts


def texts_of(kind: str, texts: list[str]) -> str:
    """A file of labelled texts for the task `kind`."""
    if kind == "ner":
        return "\n\n".join(f"{''.join(text.split())}\tB-PS\n는\tO" for text in texts) + "\n"
    rows = {
        "classification": lambda i, text: {"text": text, "label": "산강"[i % 2]},
        "nli": lambda i, text: {"sentence1": text, "sentence2": "둘째", "gold_label": "neutral"},
        "sts": lambda i, text: {"sentence1": "첫째", "sentence2": text, "score": 1},
        "choice": lambda i, text: {"premise": text, "choice1": "가", "choice2": "나", "label": 0},
        "tagging": lambda i, text: {"text": text, "entities": [[0, 2, "곳"]]},
    }
    return "".join(json.dumps(rows[kind](i, text)) + "\n" for i, text in enumerate(texts))


@pytest.mark.parametrize("kind", ["classification", "nli", "sts", "choice", "tagging", "ner"])
def test_training_texts_that_stand_in_the_test_set_are_counted_and_a_test_file_of_them_is_refused(
    kind: Any,
    tmp_path: Path,
) -> None:
    suffix = "tsv" if kind == "ner" else "jsonl"
    train = [f"글 {i}번" for i in range(60)]
    for name, texts in {
        "train": train, "again": train, "half": ["글  0번", "글1번 ", "다른 하나", "다른 둘"],
        "most": ["글 0번", "글 0번", "다른 글"], "all": train,
    }.items():  # fmt: skip
        (tmp_path / f"{name}.{suffix}").write_text(texts_of(kind, texts), encoding="utf-8")
    split = {"train": [f"train.{suffix}", f"again.{suffix}"], "dev_share": 0.2}
    _, splits, counts = prepare(options(kind, test=f"half.{suffix}", **split), tmp_path)
    assert counts == {"train_examples_read": 120, "train_examples_in_test": 4}, kind
    assert len(splits["train"]) + len(splits["dev"]) == 120, "nothing is dropped"
    with pytest.raises(
        UserError, match=rf"2 of the 3 examples of the test file most\.{suffix} .*train\.{suffix}.*give a test file"
    ):
        prepare(options(kind, test=f"most.{suffix}", **split), tmp_path)
    with pytest.raises(UserError, match="60 of the 60 examples"):
        prepare(options(kind, test=f"all.{suffix}", **split), tmp_path)
    _, _, counts = prepare(options(kind, dev=f"half.{suffix}", **split), tmp_path)
    assert counts == {"train_examples_read": 120, "train_examples_in_dev": 4}, kind
    assert prepare(options(kind, **split), tmp_path)[2] == {"train_examples_read": 120}, kind


@pytest.mark.parametrize(
    ("files", "known"),
    [
        ({"dev": "train"}, "examples of the dev file train.json are in the training data (train.json"),
        ({"test": "held_out", "dev": "held_out"}, "examples of the test file held_out.json are in the dev data (held_"),
    ],
)
@pytest.mark.parametrize("task", ["nsmc", "korquad"])
def test_one_file_for_two_splits_is_refused(task: str, files: dict[str, str], known: str, tmp_path: Path) -> None:
    write, suffix = (write_contexts, "json") if task == "korquad" else (write_reviews, "txt")
    for name in ("train", "held_out"):
        write(tmp_path / f"{name}.{suffix}", [f"{name}의 {i}번째 글" for i in range(20)])
    named = {split: f"{name}.{suffix}" for split, name in {"train": "train", **files}.items()}
    with pytest.raises(UserError, match=re.escape(known).replace("json", suffix)):
        prepare(options(task, **named), tmp_path)


def test_other_questions_on_contexts_of_train_are_a_dev_file(tmp_path: Path) -> None:
    write_contexts(tmp_path / "train.json", OTHERS)
    asked = (tmp_path / "train.json").read_text(encoding="utf-8").replace('"?"', '"누구?"')
    (tmp_path / "dev.json").write_text(asked, encoding="utf-8")
    counts = prepare(options("korquad", train="train.json", dev="dev.json"), tmp_path)[2]
    assert counts == {"train_examples_read": 2 * len(OTHERS), "train_examples_in_dev": 0}


def test_a_training_file_that_is_named_twice_is_refused(many: Path) -> None:
    with pytest.raises(UserError, match=r"train\.txt and \./train\.txt are one training file; name it once"):
        split(options(train=["train.txt", "./train.txt"]), many)


@pytest.mark.parametrize("task", ["nsmc", "korquad"])
def test_spellings_that_are_read_as_one_text_are_in_one_group(task: str, tmp_path: Path) -> None:
    text = "한글로 쓴 글"
    spelled = [text, normalize("NFD", text), text.replace("글", "글\u200b"), f"{text} "]
    write, suffix = (write_contexts, "json") if task == "korquad" else (write_reviews, "txt")
    write(tmp_path / f"train.{suffix}", [*spelled, "다른 글"])
    examples = options(task).task.read(tmp_path / f"train.{suffix}")
    assert len({example["group"] for example in examples}) == 2


def test_empty_reviews_in_both_are_no_shared_texts(tmp_path: Path) -> None:
    write_reviews(tmp_path / "train.txt", [" ", *(f"영화{i}" for i in range(60))])
    write_reviews(tmp_path / "test.txt", ["", " ", "영화 7"])
    assert split(options(test="test.txt", dev_share=0.2), tmp_path)[1]["train_examples_in_test"] == 1


def test_an_empty_split_is_refused_by_its_name(tmp_path: Path) -> None:
    for files, changes, named in [
        ({"train.txt": ["하나"]}, {}, "train|dev"),
        ({"train.txt": ["하나", "둘"], "dev.txt": []}, {"dev": "dev.txt"}, "dev"),
        ({"train.txt": ["", " "], "dev.txt": ["하나"]}, {"dev": "dev.txt"}, "train"),
        ({"train.txt": [f"글{i}" for i in range(99)], "test.txt": []}, {"test": "test.txt"}, "test"),
    ]:
        for name, texts in files.items():
            write_reviews(tmp_path / name, texts)
        with pytest.raises(UserError, match=f"the ({named}) split"):
            split(options(**changes), tmp_path)


def test_a_file_that_does_not_exist_is_named_with_data_dir(tmp_path: Path) -> None:
    write_reviews(tmp_path / "train.txt", ["글"])
    with pytest.raises(UserError, match=r"nowhere\.txt.*data_dir"):
        raw_files(options(test="nowhere.txt"), tmp_path)
    assert raw_files(options(), tmp_path) == [tmp_path / "train.txt"]


def test_features_come_back_as_they_were_saved(tmp_path: Path) -> None:
    rows = [[2, 7, 3], [], [2, 3]]
    arrays = {"windows": row_starts(rows), "input_ids": flatten(rows, np.int32), "labels": np.array([1, 0, 1])}
    saved = Features(
        arrays, [{"id": "가", "text": "줄\n바꿈 \u2028"}, {"id": "b"}, {"id": "c", "answers": [["답", 3]]}]
    )
    saved.save(tmp_path / "train")
    loaded = Features.load(tmp_path / "train")
    assert loaded.examples == saved.examples
    assert loaded.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], array)
        assert loaded.arrays[name].dtype == array.dtype
    assert len(loaded) == 3 and loaded.lengths.tolist() == [3, 0, 2]


def test_the_stage_writes_every_split_and_counts_it(
    corpora: Path, morpheme_tokenizer_folder: Path, tmp_path: Path
) -> None:
    wanted = options("korquad", train="qa_train.json", test="qa_dev.json", dev_share=0.2, max_length=64)
    counts = stage.run(wanted, morpheme_tokenizer_folder, corpora, tmp_path)
    for name in ("train", "dev", "test"):
        features = Features.load(tmp_path / name)
        found = {"examples": len(features.examples), "windows": len(features), "tokens": int(features.lengths.sum())}
        assert found == {key: counts[f"{name}_{key}"] for key in found}
        assert Counter(features.arrays["example"].tolist()).keys() == set(range(len(features.examples)))
    total = counts["train_examples"] + counts["dev_examples"] + counts["train_examples_contaminated"]
    assert total == counts["train_examples_read"]
    described = read_json(tmp_path / "task.json")
    assert described["max_length"] == 64 and described["task"]["name"] == "korquad"
