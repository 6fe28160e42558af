"""Distillation: texts drawn from the shards, the teachers' probabilities, and a student that learns both kinds of
labels."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy

from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage as features_stage
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune import distill
from kobert_pipeline.finetune.batching import Batches, BatchSchedule
from kobert_pipeline.finetune.model import TaskModule, build, load
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.pipeline.disk_space import bytes_needed
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.stages import plan as pipeline_plan
from kobert_pipeline.shards.format import PARAGRAPH, Shard, Shards, number_sources
from kobert_pipeline.tokenizer.loading import load_tokenizer, vocabulary_in
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, OUR_IDS, SEP_ID, UNK_ID

Documents = list[tuple[str, list[list[int]]]]
"""The source of each document, and the ids of its paragraphs."""
documents = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=9), max_size=4)),
    max_size=6,
)


def shard_of(content: Documents) -> Shard:
    paragraphs = [paragraph for _, each in content for paragraph in each]
    ends = np.cumsum([0, *(sum(map(len, each)) for _, each in content)], dtype=np.int64)
    boundaries = [PARAGRAPH * (i == 0) for paragraph in paragraphs for i in range(len(paragraph))]
    return Shard(
        np.array([id_ for paragraph in paragraphs for id_ in paragraph], np.uint16),
        np.array(boundaries, np.uint8), ends, np.ones(len(content), bool),
        *number_sources(source for source, _ in content),
    )  # fmt: skip


def texts_of(features: Features) -> list[list[int]]:
    windows = features.arrays["windows"]
    return [features.arrays["input_ids"][start:end].tolist() for start, end in pairwise(windows)]


@given(st.lists(documents, min_size=1, max_size=3), st.integers(1, 12), st.sets(st.integers(5, 8)))
def test_the_texts_are_different_unknown_paragraphs_of_the_sources(
    parts: list[Documents], count: int, known: set[int]
) -> None:
    shards = Shards([shard_of(content) for content in parts])
    own = {tuple(paragraph[:6]) for content in parts for source, each in content if source == "a" for paragraph in each}
    if not any(source == "a" for content in parts for source, _ in content):
        return
    own -= {(one,) for one in known}
    spelled = np.array([str(id_) for id_ in range(9)], object)
    drawn = texts_of(distill.draw_paragraphs(shards.of_sources(["a"]), count, 8, {str(one) for one in known}, spelled))
    assert all(text[0] == CLS_ID and text[-1] == SEP_ID for text in drawn)
    inner = [tuple(text[1:-1]) for text in drawn]
    assert len(inner) == len(set(inner)) == min(count, len(own))
    assert set(inner) <= own


def reencoded(texts: Features, tiny: Any, plain_share: float, unspaced_share: float, max_length: int) -> Features:
    settings = {"plain_share": plain_share, "unspaced_share": unspaced_share, "max_length": max_length}
    folder = tiny.run_dir / "tokenizer"
    return distill.encode_for_student(texts, settings, folder, vocabulary_in(folder)[0], OUR_IDS)


def test_a_share_of_the_texts_is_encoded_plainly(prepared: Path, tiny: Any) -> None:
    plain = Tokenizer.from_file(str(tiny.run_dir / "tokenizer" / "plain" / "tokenizer.json"))
    texts = Features.load(prepared / "nsmc" / "train")
    before, found = texts_of(texts), texts_of(reencoded(texts, tiny, 0.5, 0, 24))
    changed = 0
    for old, new in zip(before, found, strict=True):
        if new != old:
            changed += 1
            text = plain.decode(old)
            assert new == [*plain.encode(text).ids[:-1][:23], SEP_ID]
            assert text.startswith(plain.decode(new))
    assert 0.1 < changed / len(before) < 0.6
    unknown = Features({"windows": np.array([0, 3]), "input_ids": np.array([CLS_ID, UNK_ID, SEP_ID])}, [])
    assert texts_of(reencoded(unknown, tiny, 1, 1, 24)) == [[CLS_ID, UNK_ID, SEP_ID]]


def test_a_share_of_the_texts_has_no_white_space(prepared: Path, tiny: Any) -> None:
    loaded = load_tokenizer(tiny.run_dir / "tokenizer")
    plain = Tokenizer.from_file(str(tiny.run_dir / "tokenizer" / "plain" / "tokenizer.json"))
    texts = Features.load(prepared / "nsmc" / "train")
    before = texts_of(texts)
    plainly, unspaced, both = (
        texts_of(reencoded(texts, tiny, *shares, 64)) for shares in ((0.5, 0), (0, 0.5), (0.5, 0.5))
    )
    kinds = set[tuple[bool, bool]]()
    for old, of_plain, of_unspaced, found in zip(before, plainly, unspaced, both, strict=True):
        text = plain.decode(old)
        joined = "".join(text.split())
        without = loaded(joined, truncation=True, max_length=64)["input_ids"]
        assert of_unspaced in (old, without)
        if of_plain != old and of_unspaced != old:
            assert found == [*plain.encode(joined).ids[:-1][:63], SEP_ID]
        elif of_plain == old:
            assert found in (old, of_unspaced, [*plain.encode(joined).ids[:-1][:63], SEP_ID])
        kinds.add((of_plain != old, of_unspaced != old))
    assert len(kinds) == 4


def test_a_corpus_of_labelled_texts_alone_is_refused(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(distill, "draw_paragraphs", lambda *_: features_of_ids([]))
    folders = [tiny.run_dir / name for name in ("features/nsmc", "shards", "tokenizer")]
    with pytest.raises(UserError, match="no text to label in the corpus that is not also in train, dev or test"):
        distill.run(distill.Distillation(teachers=("nsmc",)), *folders, [], False, tmp_path)


def test_texts_of_all_labelled_sets_are_known(tiny: Any) -> None:
    features = tiny.run_dir / "features" / "nsmc"
    found, spelled = distill.texts_of_splits(features, tiny.run_dir / "tokenizer")
    splits = [Features.load(features / name) for name in ("train", "dev", "test")]
    texts = [text[1:-1] for split in splits for text in texts_of(split)]
    assert found == {"".join(spelled[text]) for text in texts} and len(texts) > 60
    plain = Tokenizer.from_file(str(tiny.run_dir / "tokenizer" / "plain" / "tokenizer.json"))
    for text in texts:  # the same text in other tokens is known, too
        if UNK_ID not in text:
            assert "".join(spelled[plain.encode(plain.decode(text)).ids[1:-1]]) in found


LONG = "나는 어제 도서관에서 빌린 책을 읽었는데 너무 재미있어서 밤을 새웠다 그래서 오늘은 졸렸다 " * 3


@pytest.mark.parametrize(
    ("share", "text"),
    [("plain_share", "이 영화𓂀정말 좋다"), ("plain_share", LONG), ("unspaced_share", "이 영화 참 좋다")],
)
def test_labelled_texts_are_known_by_their_tokens_in_the_shards(
    tiny: Any, tmp_path: Path, share: str, text: str
) -> None:
    """Where another tokenizer spells a text in another way (around an unknown character, or where it is truncated), or
    its white space is removed."""
    folder = tiny.run_dir / "tokenizer"
    rows = [f"{number}\t{line}\t1\n" for number, line in enumerate([text, *map(str, range(20))])]
    (tmp_path / "reviews.txt").write_text("".join(["id\tdocument\tlabel\n", *rows]), encoding="utf-8")
    options = {"task": "nsmc", "train": "reviews.txt", "dev_share": 0.2, "max_length": 32, share: 0.99}
    features_stage.run(FeaturesOptions(**options), folder, tmp_path, tmp_path / "features")
    known, spelled = distill.texts_of_splits(tmp_path / "features", folder)
    in_shards = load_tokenizer(folder)(text, add_special_tokens=False)["input_ids"][:30]
    assert "".join(spelled[in_shards]) in known


@pytest.fixture(scope="module")
def teachers(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models with random heads."""
    folders = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        folders.append(tmp_path_factory.mktemp("teacher") / "model")
        build(Task.choose("nsmc"), pretrained, False, FinetunePlan(), 32).save_pretrained(folders[-1])
    return folders


def test_soft_labels_are_the_mean_of_the_teachers_probabilities(prepared: Path, teachers: list[Path]) -> None:
    dev = Features.load(prepared / "nsmc" / "dev")
    texts = texts_of(dev)
    with torch.no_grad():
        plain = [
            sum(load(folder)(input_ids=torch.tensor([text])).logits.softmax(1)[0] for folder in teachers) / 2
            for text in texts
        ]
    found = distill.mean_probabilities(dev, [teachers], None, bf16=False)
    np.testing.assert_allclose(found, torch.stack(plain).numpy(), atol=1e-6)
    np.testing.assert_allclose(distill.mean_probabilities(dev, [teachers], None, bf16=True), found, atol=0.02)
    first, second = teachers
    weighted = distill.mean_probabilities(dev, [[first], [first, second]], None, bf16=False)
    one = distill.encoder_probabilities(dev, first, bf16=False)
    np.testing.assert_allclose(weighted, (one + found) / 2, atol=1e-6)


def test_the_loss_of_certain_soft_labels_is_that_of_gold_labels(prepared: Path, teachers: list[Path]) -> None:
    train = Features.load(prepared / "nsmc" / "train")
    module = TaskModule(load(teachers[0]))
    labels = train.arrays["labels"]
    certain = np.eye(2, dtype=np.float32)[labels]
    gold, soft, doubtful = (
        Batches(train, targets, 16, seed=1).batch(0, 0, 1)
        for targets in ({"labels": labels}, {"soft_labels": certain}, {"soft_labels": np.full_like(certain, 0.5)})
    )
    with torch.no_grad():
        torch.testing.assert_close(module(soft)[0], module(gold)[0])
        inputs = {name: value for name, value in doubtful.items() if name not in ("soft_labels", "share")}
        expected = cross_entropy(module.model(**inputs).logits, doubtful["soft_labels"])
        torch.testing.assert_close(module(doubtful)[0], expected)


def test_a_course_gives_the_batches_of_each_part_in_turn(prepared: Path) -> None:
    splits = [Features.load(prepared / "nsmc" / name) for name in ("dev", "train")]
    first, second = (Batches(split, {"labels": split.arrays["labels"]}, 16, seed=1) for split in splits)
    schedule = BatchSchedule([(first, 2), (second, 1)])
    assert schedule.steps == 2 * first.per_epoch + second.per_epoch
    expected = [first.batch(step, 0, 1) for step in range(2 * first.per_epoch)]
    expected += [second.batch(step, 0, 1) for step in range(second.per_epoch)]
    for step, batch in enumerate(expected):
        assert torch.equal(schedule.batch(step, 0, 1)["input_ids"], batch["input_ids"])
        assert schedule.parts_at(step, 100) > 1


def test_a_run_with_a_student(tiny: Any, kobert: Any, tmp_path: Path) -> None:
    """The soft labels are a job of their own, found finished by a second call; the student has scores of its own, and
    its card counts what the teacher cost. A share of its texts is tokenized as in `plain/`."""
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    recipe["features"] = {"nsmc": recipe["features"]["nsmc"] | {"plain_share": 0.3}}
    plan = recipe["finetune"]["nsmc"]["plan"]
    recipe["finetune"] = {
        "nsmc": recipe["finetune"]["nsmc"],
        "ngrams": {"features": "nsmc", "ngrams": {"max_n": 3}, "test": False},
        "student": {
            "features": "nsmc",
            "init": "nsmc",
            "test": False,
            "distill": {"teachers": ["nsmc", "ngrams"], "sources": ["*.txt"], "texts": 60},
            "plan": plan,
        },
        "soft": {"features": "nsmc", "distill": {"teachers": ["nsmc"], "texts": 60}, "plan": plan | {"epochs": 0}},
    }
    recipe["publish"] = {"student": {"source": "student", "onnx": False}}
    path = tmp_path / "student.yaml"
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    run_dir = tiny.copy(tmp_path / "runs" / "tiny", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    first = kobert("run", path, "--run-dir", run_dir)
    assert first.code == 0, first.err
    manifests = tiny.manifests(run_dir)
    assert manifests["finetune/student/soft-labels"]["counts"]["texts"] == 60
    assert manifests["finetune/student/soft-labels"]["counts"]["teachers"] == 2
    for name in ("ngrams", "student"):  # both leave the test set alone
        counts = manifests[f"finetune/{name}/1"]["counts"]
        assert "dev" in counts and "test" not in counts
        assert not (run_dir / "finetune" / name / "1" / "predictions.jsonl").exists()
    assert set(manifests["finetune/student/1"]["inputs"]) == {"features", "soft-labels", "finetune/nsmc/1"}
    # of the n-grams alone: an encoder this small learns nothing from so few reviews
    assert manifests["finetune/ngrams/1"]["counts"]["dev"]["accuracy"] > 70
    steps = {name: manifests[f"finetune/{name}/1"]["counts"]["steps"] for name in ("nsmc", "student", "soft")}
    assert steps["soft"] == -(-60 // plan["batch_size"])
    assert steps["student"] == steps["nsmc"] + steps["soft"]
    card = (run_dir / "publish" / "student" / "README.md").read_text(encoding="utf-8")
    assert "finetune/nsmc" in card and "finetune/ngrams" in card
    assert "no test set was read" in card and "evaluate (test)" not in card
    shared = manifests["features/nsmc"]["counts"]["train_examples_plain"]
    assert 0 < shared < manifests["features/nsmc"]["counts"]["train_examples"]
    assert f"| of train, tokenized without the analyzer | {shared} |" in card and "needs no analyzer" in card
    assert "| unlabelled texts with pseudo-labels (soft labels of its teachers) | 60 |" in card
    again = kobert("run", path, "--run-dir", run_dir, "--json").json
    assert {stage["status"] for stage in again["stages"]} == {"skipped"}
    loaded, planned = pipeline_plan(str(path), [], run_dir, None)
    labels, student = (next(job for job in planned if job.name == f"student/{part}") for part in ("soft-labels", "1"))
    written = sum(one.stat().st_size for one in labels.folder.glob("*.npy"))
    assert written < bytes_needed(loaded, labels, corpus=1e6) < bytes_needed(loaded, student, corpus=1e6)
    assert run_dir.absolute() / "finetune" / "nsmc" / "1" / "model" in student.run.args
    compared = kobert("compare", run_dir)
    assert "student" in compared.out


def test_a_distillation_that_cannot_be_is_refused(tiny: Any) -> None:
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    tuned = recipe["finetune"]
    for changes, said in (
        ({"nsmc": {"distill": {"teachers": ["nsmc"]}}}, "not an earlier fine-tuning"),
        ({"nsmc": {}, "qa": {"features": "korquad", "distill": {"teachers": ["nsmc"]}}}, "on the features 'korquad'"),
        ({"korquad": {}, "qa": {"features": "korquad", "distill": {"teachers": ["korquad"]}}}, "a task that gives"),
        ({"korquad": {"ngrams": {}}}, "ngrams needs a task that gives"),
        ({"nsmc": {"ngrams": {}, "plan": {"epochs": 3}}}, "plan is for encoders"),
        ({"nsmc": {"plan": {"epochs": [2, 0]}}}, "epochs is 0, which is for learning soft labels alone"),
        ({"nsmc": {"ngrams": {"min_n": 6}}}, "min_n is 6 and max_n 5"),
    ):
        with pytest.raises(ValueError, match=said):
            Recipe.model_validate(recipe | {"finetune": changes, "publish": {}})
    assert tuned == yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))["finetune"]
