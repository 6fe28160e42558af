"""Cross-fitting: parts of a training set, and soft labels for it from models that have not seen it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune import distill
from kobert_pipeline.finetune.cross_fit import folds_of, left_out, texts_at, without
from kobert_pipeline.finetune.model import build, load
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.pipeline import stages
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.runs import compare
from kobert_pipeline.runs.seeds import current_seeds

rows_of_ids = st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=6), min_size=1, max_size=40)


def rows_of(features: Features) -> list[list[int]]:
    windows = features.arrays["windows"].tolist()
    return [features.arrays["input_ids"][start:end].tolist() for start, end in pairwise(windows)]


@given(rows_of_ids, st.integers(2, 4))
def test_parts_cover_the_set_and_equal_texts_are_in_one(rows: list[list[int]], parts: int) -> None:
    made = features_of_ids(rows)
    labels = np.arange(len(rows))
    features = Features(made.arrays | {"labels": labels}, [])
    pieces = [left_out(features, (part, parts)) for part in range(parts)]
    assert sorted(np.concatenate(pieces).tolist()) == labels.tolist()
    part_of = folds_of(features, parts).tolist()
    assert all(part_of[rows.index(row)] == part for row, part in zip(rows, part_of, strict=True))
    for part, piece in enumerate(pieces):
        rest = without(features, (part, parts))
        kept = [number for number in labels.tolist() if number not in piece]
        assert rest.arrays["labels"].tolist() == kept and rows_of(rest) == [rows[number] for number in kept]
        chosen = texts_at(features, piece)
        assert rows_of(chosen) == [rows[number] for number in piece] and len(chosen) == len(piece)
    assert without(features, None) is features


def test_a_training_text_is_labelled_by_the_models_that_have_not_seen_it(
    prepared: Path, pretrained: Path, tmp_path: Path
) -> None:
    train = Features.load(prepared / "nsmc" / "train")
    seeds = []
    for part in range(2):
        torch.manual_seed(part)
        folder = tmp_path / "teacher" / str(part) / "model"
        build(Task.choose("nsmc"), pretrained, False, FinetunePlan(), 32).save_pretrained(folder)
        seeds.append(distill.Teacher(folder, (part, 2)))
    found = distill.out_of_fold(train, [seeds, seeds[::-1]], None, bf16=False)
    part_of = folds_of(train, 2)
    assert {0, 1} == set(part_of.tolist())
    for row, (ids, part) in enumerate(zip(rows_of(train), part_of, strict=True)):
        with torch.no_grad():
            expected = load(seeds[part].folder)(input_ids=torch.tensor([ids])).logits.softmax(1)[0]
        np.testing.assert_allclose(found[row], expected.numpy(), atol=1e-6)
    few = texts_at(train, np.arange(4))
    parts = [distill.Teacher(seeds[0].folder, (part, 9)) for part in range(9)]
    np.testing.assert_allclose(distill.out_of_fold(few, [parts], None, bf16=False).sum(1), np.ones(4), atol=1e-6)
    np.save(tmp_path / distill.OF_TRAIN, found)
    labels = train.arrays["labels"]
    targets = distill.train_targets(tmp_path, 0.25, labels)
    own = targets[np.arange(len(labels)), labels]
    np.testing.assert_allclose(own, 0.75 + 0.25 * found[np.arange(len(labels)), labels], atol=1e-6)
    np.testing.assert_allclose(targets.sum(1), 1, atol=1e-6)


def test_a_run_with_cross_fitted_teachers(tiny: Any, kobert: Any, tmp_path: Path) -> None:
    """Each seed of a teacher trains on its half, and the student's training set has soft labels."""
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    recipe["features"] = {"nsmc": recipe["features"]["nsmc"]}
    halves = {"features": "nsmc", "cross_fit": True, "seeds": [1, 2], "test": False}
    plan = recipe["finetune"]["nsmc"]["plan"]
    recipe["finetune"] = {
        "teacher": halves | {"plan": plan},
        "ngrams": halves | {"ngrams": {"max_n": 3}},
        "student": {
            "features": "nsmc",
            "test": False,
            "distill": {"teachers": ["teacher", "ngrams"], "texts": 60, "train_share": 0.5},
            "plan": plan,
        },
    }
    recipe["publish"] = {}
    path = tmp_path / "halves.yaml"
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True, sort_keys=False), encoding="utf-8")
    run_dir = tiny.copy(tmp_path / "runs" / "tiny", "corpus", "analysis", "tokenizer", "shards", "features", "pretrain")
    result = kobert("run", path, "--run-dir", run_dir)
    assert result.code == 0, result.err
    manifests = tiny.manifests(run_dir)
    train = Features.load(run_dir / "features" / "nsmc" / "train")
    for name in ("teacher", "ngrams"):
        assert [manifests[f"finetune/{name}/{seed}"]["options"]["fold"] for seed in (1, 2)] == [[0, 2], [1, 2]]
        runs, left = current_seeds(run_dir / "finetune" / name)
        assert [run["options"]["seed"] for run in runs] == [1, 2] and not left
    assert not [name for name, _ in compare._options(run_dir) if ".fold" in name]
    steps = [manifests[f"finetune/teacher/{seed}"]["counts"]["steps"] for seed in (1, 2)]
    sizes = [len(train) - len(left_out(train, (part, 2))) for part in (0, 1)]
    assert steps == [-(-size // plan["batch_size"]) for size in sizes] and sum(sizes) == len(train)
    labels = np.load(run_dir / "finetune" / "student" / "soft-labels" / distill.OF_TRAIN)
    assert labels.shape == (len(train), 2)
    assert manifests["finetune/student/1"]["counts"]["steps"] == -(-60 // plan["batch_size"]) + -(
        -len(train) // plan["batch_size"]
    )
    with pytest.raises(ValueError, match="give two seeds or more"):
        Recipe.model_validate(recipe | {"finetune": {"teacher": halves | {"seeds": [1]}}})
    seen = {name: options | {"cross_fit": False} for name, options in recipe["finetune"].items() if name != "student"}
    student = recipe["finetune"]["student"]
    both = {"student": student | {"cross_fit": True, "seeds": [1, 2]}}
    with pytest.raises(ValueError, match="a student that learns all texts; leave out its cross_fit"):
        Recipe.model_validate(recipe | {"finetune": recipe["finetune"] | both})
    with pytest.raises(ValueError, match="'teacher' has seen the whole training set"):
        Recipe.model_validate(recipe | {"finetune": seen | {"student": student}})


def test_trials_of_a_grid_are_recorded_with_their_part(tiny: Any) -> None:
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    halves = {"features": "nsmc", "seeds": [1, 2], "plan": {"learning_rate": [1e-3, 1e-4]}}
    recipe["finetune"] = {"halves": halves | {"cross_fit": True}, "whole": halves}
    recipe["publish"] = {}
    jobs = stages.jobs(Recipe.model_validate(recipe), stages.Run("tiny", Path("data"), Path("runs/tiny")))
    trials = {job.name.partition("/")[0]: job.options for job in jobs if "/grid/" in (job.name or "")}
    assert trials["halves"]["fold"] == [0, 2] and "fold" not in trials["whole"]


def test_tasks_with_several_rows_a_text_have_no_parts(tiny: Any) -> None:
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    name, features = next((name, one) for name, one in recipe["features"].items() if "korquad" in str(one["task"]))
    recipe |= {"finetune": {name: {"cross_fit": True, "seeds": [1, 2]}}, "publish": {}, "features": {name: features}}
    with pytest.raises(ValueError, match=f"finetune.{name}.cross_fit needs a task that gives a single text"):
        Recipe.model_validate(recipe)
