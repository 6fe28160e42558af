"""The task contrastive: layouts of pairs and triples, wrong rows by file and line, ranks against loops; and recipes
with pairs from the corpus."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial import distance
from table_files import write_table

from kobert_pipeline.corpus.document import Document, write_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import prepare, split
from kobert_pipeline.features.tasks.contrastive import Contrastive, ranks
from kobert_pipeline.pipeline.recipe import Recipe

OWN = {"text": "a", "text_pair": "b", "negative": "c"}


@pytest.mark.parametrize(
    ("name", "record", "negatives", "options"),
    [
        ("pairs.tsv", {"query": "물음", "positive": "대답"}, [], {}),
        ("triples.tsv", {"sent0": "물음", "sent1": "대답", "hard_neg": "딴소리"}, ["딴소리"], {}),
        ("several.jsonl", {"anchor": "물음", "positive": "대답", "negatives": ["가", "나"]}, ["가", "나"], {}),
        (
            "numbers.jsonl",
            {"anchor": "물음", "positive": "대답", "negative_1": "가", "negative_2": "나"},
            ["가", "나"],
            {},
        ),
        ("neg.jsonl", {"query": "물음", "pos": "x", "positive": "대답", "neg": ["가"]}, ["가"], {}),
        ("own.jsonl", {"a": "물음", "b": "대답", "c": "딴소리"}, ["딴소리"], OWN),
    ],
)
def test_pairs_and_triples_are_read_from_known_columns_and_named_ones(
    name: Any, record: Any, negatives: Any, options: Any, tmp_path: Path
) -> None:
    [example] = Contrastive(**options).read(write_table(tmp_path / name, record))
    assert example == {
        "id": "1", "group": "대답", "text": "물음", "text_pair": "대답", "negatives": negatives
    }, name  # fmt: skip


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"query": "물음", "positive": " "}, "line 1: one of the texts is ' '"),
        ({"query": "물음", "positive": True}, "line 1: one of the texts is True"),
        ({"query": "물음", "positive": "대답", "negative": [""]}, "line 1: one of the texts is ''"),
        ({"query": "물음", "positive": "대답", "negative": ["가", "대답"]}, "'대답' both belongs to the text"),
        ({"query": "물음", "answer": "대답"}, "no column is the text_pair of the task contrastive"),
        ({"sentence1": "글", "sentence2": "말", "gold_label": "neutral"}, "no column is the text of the task"),
        ({"text": "글", "text_pair": "말", "score": "높음"}, "line 1: the score is '높음'; a number was expected"),
        ({"text": "글", "text_pair": "말", "score": True}, "line 1: the score is True; a number was expected"),
        ({"text": "글", "text_pair": "말", "score": "inf"}, "line 1: the score is 'inf'; a number was expected"),
    ],
)
def test_wrong_rows_are_refused(record: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        Contrastive().read(write_table(tmp_path / "wrong.jsonl", record))


def test_rows_with_other_numbers_of_negatives_are_refused(tmp_path: Path) -> None:
    rows = [{"query": f"물음 {n}", "positive": f"대답 {n}", "negative": ["가"] * (n % 2)} for n in range(40)]
    write_table(tmp_path / "mixed.jsonl", *rows)
    options = FeaturesOptions(task="contrastive", train="mixed.jsonl", dev_share=0.2)
    with pytest.raises(UserError, match="2 and 3 texts"):
        prepare(options, tmp_path)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("sts.tsv", {"genre": "g", "score": "3.8", "sentence1": "글", "sentence2": "말"}),
        ("sts.jsonl", {"guid": "0", "sentence1": "글", "sentence2": "말", "labels": {"label": 3.8, "real-label": 3.7}}),
        ("own.jsonl", {"text": "글", "text_pair": "말", "score": 3.8}),
    ],
)
def test_pairs_with_scores_are_read_as_published(name: Any, record: Any, tmp_path: Path) -> None:
    [example] = Contrastive().read(write_table(tmp_path / name, record))
    assert (example["text"], example["text_pair"], example["negatives"], example["score"]) == ("글", "말", [], 3.8)


def test_scores_are_for_dev_and_test_alone(tmp_path: Path) -> None:
    write_table(tmp_path / "train.jsonl", *({"query": f"물음 {n}", "positive": f"대답 {n}"} for n in range(9)))
    write_table(tmp_path / "sts.jsonl", *({"text": f"글 {n}", "text_pair": "말", "score": n} for n in range(9)))
    write_table(tmp_path / "dev.jsonl", {"query": "다른 물음", "positive": "다른 대답"})
    options = FeaturesOptions(task="contrastive", train="train.jsonl", dev="sts.jsonl")
    _, splits, _ = prepare(options, tmp_path)
    assert [example["score"] for example in splits["dev"]] == list(range(9))
    for train in (["sts.jsonl"], ["train.jsonl", "sts.jsonl"]):
        with pytest.raises(UserError, match="training examples have scores"):
            prepare(options.model_copy(update={"train": train, "dev": "dev.jsonl"}), tmp_path)


def test_a_split_has_scores_everywhere_or_nowhere(tmp_path: Path) -> None:
    rows = [{"text": "글", "text_pair": "말"} | ({"score": 1} if n else {}) for n in range(2)]
    for order, said in ((rows, "'score' is in this row but not in the first"), (rows[::-1], "there is no 'score'")):
        write_table(tmp_path / "mixed.jsonl", *order)
        with pytest.raises(UserError, match=f"line 2: .*{said}"):
            Contrastive().read(tmp_path / "mixed.jsonl")


@given(st.integers(2, 20), st.integers(0, 2**32 - 1))
def test_correlations_are_those_of_scipy_between_cosines_and_scores(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (count, 2, 3)).astype(np.float32) + 0.5  # many ties, no zeros
    scores = rng.integers(0, 6, count).astype(float).tolist()
    examples = [{"text": "글", "text_pair": "말", "negatives": [], "score": score} for score in scores]
    task = Contrastive()
    cosines = task.predict({"vectors": list(vectors)}, Features({}, examples))
    expected = [1 - distance.cosine(*pair.astype(float)) for pair in vectors]
    np.testing.assert_allclose(cosines, expected, atol=1e-6)
    found = task.score(cosines, examples)
    if len(set(scores)) == 1 or len(set(cosines)) == 1:
        assert found == {"spearman": 0, "pearson": 0}
        return
    assert found["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, scores).statistic, abs=1e-6)
    assert found["pearson"] == pytest.approx(100 * stats.pearsonr(cosines, scores).statistic, abs=1e-3)


def test_scores_of_dev_decide_what_selects() -> None:
    task = Contrastive()
    assert task.selection_score({"spearman": 40.0, "pearson": 50.0}) == 40
    assert task.selection_score({"mrr@10": 30.0, "ndcg@10": 35.0}) == 30
    assert task.selection_metric({"spearman": 40.0, "pearson": 50.0}) == "spearman"


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_ranks_equal_loops(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts, pairs = (rng.choice(list("가나다라마바"), count).tolist() for _ in range(2))
    queries, candidates = (rng.integers(-1, 2, (count, 3)).astype(np.float32) for _ in range(2))
    for row in range(count):  # the same text has the same vector
        candidates[row] = candidates[pairs.index(pairs[row])]
    expected = [
        1
        + sum(
            float(queries[row] @ candidates[other]) >= float(queries[row] @ candidates[row])
            for other in range(count)
            if pairs[other] not in (pairs[row], texts[row])
        )
        for row in range(count)
    ]
    assert ranks(queries, candidates, texts, pairs) == expected


def test_vectors_of_any_length_give_the_rank_by_cosine() -> None:
    examples = [{"text": f"물음 {n}", "text_pair": f"대답 {n}", "negatives": ["딴소리"]} for n in range(2)]
    vectors = [np.array([[1, 0], [9, 9], [0, 0]], np.float32), np.array([[0, 2], [0.1, 0.3], [5, 0]], np.float32)]
    task = Contrastive()
    predicted = task.predict({"vectors": vectors}, Features({}, examples))
    assert predicted == [1, 1]  # by their products 1 and 2
    assert task.score([1, 2], examples)["mrr@10"] == 75


def test_questions_on_one_passage_are_on_one_side_and_may_be_tested(tmp_path: Path) -> None:
    rows = [(f"물음 {number}", f"대답 {number % 10}") for number in range(50)]
    for name, chosen in (("train", rows[:40]), ("test", rows[40:])):
        lines = ["query\tpositive", *("\t".join(row) for row in chosen)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines), encoding="utf-8")
    options = FeaturesOptions(task="contrastive", train="train.tsv", test="test.tsv", dev_share=0.4)
    splits, counts = split(options, tmp_path)
    passages = {name: {example["text_pair"] for example in examples} for name, examples in splits.items()}
    assert passages["dev"] and passages["train"].isdisjoint(passages["dev"])
    assert counts["train_examples_in_test"] == 0  # other questions on the same passages
    with pytest.raises(UserError, match="40 of the 40 examples of the test file"):
        split(options.model_copy(update={"test": "train.tsv"}), tmp_path)


def test_a_short_text_of_dev_is_in_no_pair_of_the_corpus(tmp_path: Path) -> None:
    """Of either side, since a text of fewer than 30 characters is known as a whole only."""
    dev = {"text": "여권은 어디에서 만들어?", "text_pair": "여권은 구청에서 발급합니다.", "negatives": []}
    rng = random.Random(1)  # so that no two paragraphs overlap
    paragraphs = ["".join(chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(40)) for _ in range(4)]
    lines = [f"{dev['text_pair']} {paragraphs[0]}", *paragraphs[1:]]
    write_documents(tmp_path / "part-00000.parquet", [Document("d", "f", "\n".join(lines))])
    options = FeaturesOptions(task="contrastive", dev="dev.tsv", pairs={"number": 10})
    train = stage.add_from_corpus(options, {"train": [], "dev": [dev]}, tmp_path)["train"]
    assert train and not any("구청에서" in example["text"] + example["text_pair"] for example in train)


def test_recipes_that_cannot_make_pairs_are_refused(tiny_recipe_of_pairs: Any) -> None:
    for changes, said in (
        ({"task": "nsmc", "train": "reviews_train.txt", "pairs": {}}, "makes pairs of texts, but its task is nsmc"),
        ({"task": "contrastive"}, "train names no file"),
        ({"task": "contrastive", "pairs": {"kind": "next"}}, "neighbours"),
    ):
        with pytest.raises(ValueError, match=said):
            tiny_recipe_of_pairs(changes)
    checkpoint = {"checkpoint": "x", "features": {"search": {"task": "contrastive", "pairs": {}}}}
    with pytest.raises(ValueError, match="from the corpus, but the recipe has none"):
        Recipe.model_validate(checkpoint)
    assert tiny_recipe_of_pairs({"task": "contrastive", "pairs": {}}).features["search"].needs_corpus


@pytest.fixture
def tiny_recipe_of_pairs(corpora: Path) -> Any:
    content = yaml.safe_load((corpora.parent / "tiny.yaml").read_text(encoding="utf-8"))
    content |= {"finetune": {}, "publish": {}}
    return lambda features: Recipe.model_validate(content | {"features": {"search": features}})
