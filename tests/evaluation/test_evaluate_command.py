"""`kobert evaluate` on the checkpoints of the tiny run: its clean scores are those of fine-tuning; wrong arguments are
refused in one sentence."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.evaluation.evaluate import evaluate, sampled
from kobert_pipeline.evaluation.noise import Noise
from kobert_pipeline.evaluation.report import markdown
from kobert_pipeline.evaluation.wrong_labels import write_csv
from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.markdown import escaped
from kobert_pipeline.tables.rows import read_rows

FILES = {"nsmc": "reviews_test.txt", "korquad": "qa_dev.json"}


@pytest.fixture(scope="module")
def checkpoints(tiny: Any) -> dict[str, Checkpoint]:
    return {name: Checkpoint.load(tiny.run_dir / "publish" / name) for name in FILES}


def figures(checkpoint: Checkpoint, file: Path, noises: list[Noise] | None = None, **arguments: Any) -> dict[str, Any]:
    return evaluate(
        checkpoint,
        file,
        noises or [],
        arguments.pop("names", []),
        arguments.pop("explain", False),
        report=lambda _: None,
        **arguments,
    )


def test_clean_scores_are_those_that_fine_tuning_measured_on_the_same_file(
    tiny: Any, checkpoints: dict, corpora: Path
) -> None:
    """Task options, window length and weights come from the published folder alone."""
    for name in FILES:
        found = figures(checkpoints[name], corpora / FILES[name])
        tuned = tiny.manifests()[f"finetune/{name}/1"]["counts"]
        assert found["clean"]["scores"] == pytest.approx(tuned["test"], abs=0.006), name
        assert found.get("classification_report") == tuned.get("test_classification_report"), name
        assert found["task"] == json.loads((tiny.run_dir / "features" / name / "task.json").read_text())["task"], name
        assert (
            found["max_length"]
            == json.loads((tiny.run_dir / "features" / name / "task.json").read_text())["max_length"]
        ), name


def test_scores_by_class_and_the_confusion_matrix_are_on_the_page(checkpoints: dict, corpora: Path) -> None:
    found = figures(checkpoints["nsmc"], corpora / FILES["nsmc"])
    report = found["classification_report"]
    right = sum(report["confusion_matrix"][number][number] for number in range(2))
    assert right / found["clean"]["examples"] == pytest.approx(found["clean"]["scores"]["accuracy"] / 100, abs=1e-4)
    page = markdown(found | {"checkpoint": "nsmc"})
    for row, counts in zip(report["classes"], report["confusion_matrix"], strict=True):
        assert f"| {row['label']} | {row['precision']:.2f} | {row['recall']:.2f} |" in page
        assert f"| {row['label']} | {counts[0]} | {counts[1]} |" in page
    wide = {"classes": report["classes"] * 11, "confusion_matrix": [[0] * 22] * 22}
    page = markdown(found | {"checkpoint": "nsmc", "classification_report": wide})
    assert "confusion matrix of 22 classes is in the JSON" in page


def test_noise_of_rate_0_changes_no_score(checkpoints: dict, corpora: Path) -> None:
    for name in FILES:
        found = figures(checkpoints[name], corpora / FILES[name], [Noise("key-missed", 0.0, 1)], limit=12)
        row = found["noise"]["conditions"][0]
        assert row["scores"] == found["noise"]["clean"] == found["clean"]["scores"], name
        assert row["changed"] == 0, name
        if name == "korquad":
            assert row["scores_against_original"] == row["scores"], name
            assert row["answers_changed"] == 0, name
            assert row["ceiling_exact_match"] == found["clean"]["ceiling_exact_match"], name
        else:
            assert row["predictions_changed"] == 0, name


def test_scores_under_noise_are_those_of_a_file_with_the_same_noise(
    checkpoints: dict, corpora: Path, tmp_path: Path
) -> None:
    lines = (corpora / FILES["nsmc"]).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    with_noise = [rows[0], *([one, text.replace(" ", ""), label] for one, text, label in rows[1:])]
    (tmp_path / "noisy.txt").write_text("\n".join("\t".join(row) for row in with_noise) + "\n", encoding="utf-8")
    noisy = figures(checkpoints["nsmc"], corpora / FILES["nsmc"], [Noise("spaces-removed", 1.0, 1)])
    assert (
        noisy["noise"]["conditions"][0]["scores"]
        == figures(checkpoints["nsmc"], tmp_path / "noisy.txt")["clean"]["scores"]
    )
    assert noisy["noise"]["conditions"][0]["changed"] > 50


def test_answers_are_compared_with_the_noisy_text_and_with_the_original(checkpoints: dict, corpora: Path) -> None:
    """A model that always finds the answer: right by the noisy text, wrong by the original wherever noise changed the
    answer."""
    oracle = checkpoints["korquad"]

    class Oracle(type(oracle.task)):  # type: ignore[misc]
        def predict(self, logits: Any, features: Any) -> list[str]:
            return [example["answers"][0][0] for example in features.examples]

    knowing = Checkpoint(oracle.folder, oracle.model, oracle.tokenizer)
    knowing.__dict__["task"] = Oracle()
    found = figures(knowing, corpora / FILES["korquad"], [Noise("final-mistaken", 0.5, 1)], names=["context"])
    row = found["noise"]["conditions"][0]
    assert row["scores"] == {"exact_match": 100.0, "f1": 100.0}
    assert row["answers_changed"] > 0
    assert row["scores_against_original"]["exact_match"] == pytest.approx(100 - row["answers_changed"], abs=0.01)
    assert found["noise"]["in"] == ["context"]


def test_kinds_of_text_add_up(checkpoints: dict, corpora: Path) -> None:
    found = figures(checkpoints["nsmc"], corpora / FILES["nsmc"])
    subsets = {one["name"]: one["examples"] for one in found["subsets"]}
    assert max(subsets.values()) <= found["clean"]["examples"] <= sum(subsets.values())


def test_errors_and_page_of_a_checkpoint_by_the_command(
    tiny: Any, corpora: Path, tmp_path: Path, kobert: Callable
) -> None:
    out = tmp_path / "reports" / "korquad.json"
    folder = tiny.run_dir / "publish" / "korquad"
    arguments = ("--errors", "--noise", "spaces-removed", "--limit", 15, "--noise-limit", 5, "--out", out, "--json")
    result = kobert("evaluate", folder, corpora / FILES["korquad"], *arguments)
    found = result.json
    assert found == json.loads(out.read_text(encoding="utf-8"))
    assert found["checkpoint"] == "korquad"
    assert found["clean"]["examples"] == 15
    assert found["noise"]["examples"] == 5
    errors = found["errors"]
    assert sum(one["count"] for one in errors["categories"]) == errors["wrong"] <= 15
    page = out.with_suffix(".md").read_text(encoding="utf-8")
    assert page == markdown(found)
    assert "| spaces-removed | all |" in page
    assert f"{errors['wrong']} of 15 questions have an exact match of 0" in page
    shown = next(shown for samples in errors["samples"].values() for shown in samples)
    assert f"- {shown['question']} ({shown['id']})" in page


def test_texts_with_wrong_labels_are_listed_by_the_command_and_in_a_table_that_reads_like_training_files(
    tiny: Any, corpora: Path, tmp_path: Path, kobert: Callable
) -> None:
    """Their labels and probabilities are those of `predict`; with --limit only some are looked at."""
    folder, out = tiny.run_dir / "publish" / "nsmc", tmp_path / "nsmc.json"
    found = kobert("evaluate", folder, corpora / FILES["nsmc"], "--errors", "--out", out, "--json").json
    examples = {one["id"]: one for one in Task.choose("nsmc").read(corpora / FILES["nsmc"])}
    labels, wrong = ("negative", "positive"), found["wrong_labels"]
    assert 0 < len(wrong) == round(len(examples) * (1 - found["clean"]["scores"]["accuracy"] / 100))
    for row, given in zip(wrong, Checkpoint.load(folder).predict([row["text"] for row in wrong]), strict=True):
        example = examples[row["id"]]
        assert (row["text"], row["label"]) == (example["text"], labels[example["label"]])
        assert row["predicted"] == given["label"] != row["label"]
        assert row["probability"] == pytest.approx(given["scores"][given["label"]], abs=2e-4)
    assert [row["probability"] for row in wrong] == sorted((row["probability"] for row in wrong), reverse=True)
    table = out.with_suffix(".errors.csv")
    assert [row.cells for row in read_rows(table)] == [{name: str(cell) for name, cell in row.items()} for row in wrong]
    read_again = Task.choose({"name": "classification", "labels": list(labels)}).read(table)
    assert [labels[one["label"]] for one in read_again] == [row["label"] for row in wrong]
    page = out.with_suffix(".md").read_text(encoding="utf-8")
    assert f"{len(wrong)} of {len(examples)} predictions differ from the label of the file." in page
    assert f"| {escaped(wrong[0]['text'])} | {wrong[0]['label']} | {wrong[0]['predicted']} |" in page
    few = kobert("evaluate", folder, corpora / FILES["nsmc"], "--errors", "--limit", 5, "--json").json
    assert {row["id"] for row in few["wrong_labels"]} <= {row["id"] for row in wrong}
    assert len(few["wrong_labels"]) <= 5


def test_no_wrong_label_is_a_table_without_rows(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [], paired=False)
    assert (tmp_path / "a.csv").read_text(encoding="utf-8-sig") == "id,text,label,predicted,probability\n"
    write_csv(tmp_path / "pairs.csv", [], paired=True)
    assert (tmp_path / "pairs.csv").read_text(encoding="utf-8-sig") == "id,text,text_pair,label,predicted,probability\n"
    row = {"id": "1", "text": '가\n"나\ud800', "label": "1", "predicted": "0", "probability": "0.5"}
    write_csv(tmp_path / "b.csv", [row], paired=False)
    assert [row.cells for row in read_rows(tmp_path / "b.csv")] == [row | {"text": '가\n"나?'}]


def test_a_sample_is_always_the_same_and_keeps_the_order_of_the_file(corpora: Path) -> None:
    examples = Task.choose("nsmc").read(corpora / FILES["nsmc"])
    few, more = sampled(examples, 10), sampled(examples, 20)
    assert few == sampled(examples, 10) == sorted(few)
    assert len(few) == 10 and set(few) < set(more), "a larger sample holds a smaller one"
    assert few != list(range(10))
    backwards = [examples[::-1][number]["id"] for number in sampled(examples[::-1], 10)]
    assert backwards[::-1] == [examples[number]["id"] for number in few], (
        "an example is chosen by its content, not by its position"
    )
    assert sampled(examples, None) == sampled(examples, 10_000) == list(range(len(examples)))


WRONG = [
    ("nsmc", ["--noise", "spaces-droped"], "did you mean 'spaces-dropped'"),
    ("nsmc", ["--noise", "spaces-dropped=2"], "rates are numbers from 0 to 1"),
    ("nsmc", ["--noise", "all", "--noise-in", "question"], "the task nsmc has the texts text"),
    ("nsmc", ["--noise-in", "text"], "say which with --noise"),
    ("nsmc", ["--noise-limit", "3"], "say which with --noise"),
    ("nsmc", ["--out", "figures.txt"], "the name must end in one of .json"),
    ("nsmc", ["--task", "korquad"], "needs a model of the kind ForQuestionAnswering"),
    ("nsmc", ["--task", "nscm"], "did you mean 'nsmc'"),
    ("nsmc", ["--task", "nli"], "the checkpoint's labels are negative, positive"),
    ("nsmc", ["--set", "colour=red"], "unknown key 'colour'"),
    ("korquad", ["--set", "stride=many"], "stride"),
    ("korquad", ["--limit", "0"], "--limit"),
    ("mlm", [], "does not say which task"),
    ("mlm", ["--task", "nsmc"], "needs a model of the kind ForSequenceClassification"),
]


def test_wrong_arguments_are_refused_in_one_sentence(tiny: Any, corpora: Path, kobert: Callable) -> None:
    for name, more, message in WRONG:
        file = corpora / FILES.get(name, FILES["nsmc"])
        assert message in kobert("evaluate", tiny.run_dir / "publish" / name, file, *more).complaint, (
            name,
            more,
            message,
        )


def test_an_output_that_exists_is_refused_before_anything_is_evaluated(tmp_path: Path, kobert: Callable) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "figures.md").mkdir()
    for name in ("gold.json", "notes.md", "old.errors.csv"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    for out, message in {
        "figures.json": "figures.md exists already and is not overwritten",
        "gold.json": "gold.json exists already and is not overwritten",
        "notes.json": "notes.md exists already and is not overwritten",
        "old.json": "old.errors.csv exists already and is not overwritten",
    }.items():
        words = ("evaluate", tmp_path / "no checkpoint", tmp_path / "file", "--out", tmp_path / out)
        assert message in kobert(*words).complaint
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert {(tmp_path / name).read_text(encoding="utf-8") for name in ("gold.json", "notes.md", "old.errors.csv")} == {
        "mine"
    }


def test_a_report_that_cannot_be_written_is_printed(tiny: Any, corpora: Path, tmp_path: Path, kobert: Callable) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    words = ("evaluate", tiny.run_dir / "publish" / "nsmc", corpora / FILES["nsmc"], "--limit", 4, "--out")
    failed = kobert(*words, tmp_path / "file" / "figures.json")
    assert failed.code == 2 and str(tmp_path / "file") in failed.err
    assert "accuracy" in failed.out


def test_missing_files_and_folders_are_named(tiny: Any, corpora: Path, tmp_path: Path, kobert: Callable) -> None:
    folder = tiny.run_dir / "publish" / "nsmc"
    assert "does not exist" in kobert("evaluate", folder, tmp_path / "none.txt").complaint
    assert "no column" in kobert("evaluate", folder, corpora / FILES["korquad"]).complaint
    assert "not a published checkpoint" in kobert("evaluate", tmp_path, corpora / FILES["nsmc"]).complaint
    (tmp_path / "empty.txt").write_text("id\tdocument\tlabel\n", encoding="utf-8")
    assert "holds no examples" in kobert("evaluate", folder, tmp_path / "empty.txt").complaint


@pytest.mark.parametrize(("name", "metric"), (("nsmc", "accuracy"), ("korquad", "exact_match")))
def test_the_standard_error_of_a_sample_is_on_the_page(
    name: Any, metric: Any, checkpoints: dict, corpora: Path
) -> None:
    file = corpora / FILES[name]
    scores = [figures(checkpoints[name], file, limit=limit) | {"checkpoint": name} for limit in (10, None)]
    share = scores[0]["clean"]["scores"][metric] / 100
    error = 100 * np.std([1.0] * round(10 * share) + [0.0] * round(10 * (1 - share))) / 10**0.5
    assert f"the standard error of {metric} is {error:.2f}." in markdown(scores[0])
    assert "standard error" not in markdown(scores[1])


def test_probabilities_of_answers_are_set_beside_how_many_are_right(tiny: Any, corpora: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "korquad", tmp_path / "korquad"))
    assert "calibration" not in figures(Checkpoint.load(folder), corpora / FILES["korquad"])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["task_specific_params"]["korquad"]["answer_calibration"] = {"temperature": 0.004, "slope": 1, "intercept": 0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "manifest.json").unlink()
    checkpoint = Checkpoint.load(folder)
    found = figures(checkpoint, corpora / FILES["korquad"])
    rows, count = found["calibration"], found["clean"]["examples"]
    assert len(rows) > 1 and sum(row["answers"] for row in rows) == count
    for name, expected in (
        ("exact_match", found["clean"]["scores"]["exact_match"]),
        ("probability", 100 * np.mean([row["probability"] for row in answers(checkpoint, corpora)])),
    ):
        assert sum(row["answers"] * row[name] for row in rows) / count == pytest.approx(expected, abs=0.01)
    assert all(100 * row["from"] <= row["probability"] <= 100 * row["to"] for row in rows)
    assert "exactly right" in markdown(found | {"checkpoint": "korquad"})


def answers(checkpoint: Checkpoint, corpora: Path) -> list[dict[str, Any]]:
    examples = checkpoint.task.read(corpora / FILES["korquad"])
    return [checkpoint.predict(row["context"], row["question"]) for row in examples]


def test_a_table_with_other_columns_is_read_as_the_message_says(tiny: Any, tmp_path: Path, kobert: Callable) -> None:
    table = tmp_path / "own.csv"
    table.write_text("리뷰,평가\n정말 재미있었다,positive\n지루했다,negative\n", encoding="utf-8")
    words = ["evaluate", tiny.run_dir / "publish" / "nsmc", table]
    complaint = kobert(*words).complaint
    assert "no column 'id'" in complaint
    advice = re.search(r"--task classification --set text=COLUMN --set label=COLUMN", complaint)
    assert advice, complaint
    given = advice[0].replace("text=COLUMN", "text=리뷰").replace("label=COLUMN", "label=평가").split()
    result = kobert(*words, *given, "--json")
    assert json.loads(result.out)["clean"]["examples"] == 2 and "leaves out" not in result.err


def test_another_task_keeps_the_options_that_it_has_and_names_the_others(
    tiny: Any, corpora: Path, tmp_path: Path, kobert: Callable
) -> None:
    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "korquad", tmp_path / "priors"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    state = config["task_specific_params"].pop("korquad") | {"answer_priors": {"type": 8}, "null_threshold": 1.5}
    config["task_specific_params"]["mrc"] = state
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "manifest.json").unlink()
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"context": "한글은 1446년에 나왔다.", "question": "언제?", "answer": "1446년", "start": 4}\n',
        encoding="utf-8",
    )
    result = kobert("evaluate", folder, rows, "--task", "korquad")
    assert result.code == 0
    assert "--task korquad leaves out options of the checkpoint's task mrc: --set null_threshold=1.5\n" in result.err
    task = Checkpoint.load(folder).for_task("korquad").task
    assert task.answer_priors.type == 8  # type: ignore[attr-defined]


def test_a_checkpoint_without_its_history_is_evaluated_by_its_config(tiny: Any, corpora: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "korquad", tmp_path / "moved"))
    for name in ("training_manifest.json", "manifest.json"):
        (folder / name).unlink()
    loaded = Checkpoint.load(folder).for_task(settings=["max_answer_tokens=7"])
    assert (loaded.task.name, loaded.task.max_answer_tokens) == ("korquad", 7)  # type: ignore[attr-defined]
    expected = json.loads((tiny.run_dir / "features" / "korquad" / "task.json").read_text())["max_length"]
    assert loaded.max_length == expected
    found = figures(loaded, corpora / FILES["korquad"], limit=5)
    assert found["task"]["max_answer_tokens"] == 7
