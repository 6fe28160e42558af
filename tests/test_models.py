"""The models that come with a clone: unchanged, documented, and as good as the README says."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.checkpoint.source import bundled_models
from kobert_pipeline.features.metrics import korquad_scores
from kobert_pipeline.features.tasks.korquad import KorQuad
from kobert_pipeline.features.tasks.nsmc import Nsmc
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.analyzer_loader import analyzer
from kobert_pipeline.questions.answer_candidates import tagged_sentences
from kobert_pipeline.runs.manifest import verify

REPO = Path(__file__).resolve().parents[1]
README, TABLE = ((REPO / name).read_text(encoding="utf-8") for name in ("README.md", "models/README.md"))
PARTS = ("network_alone", "network_and_priors")
MAX_BYTES = 60_000_000
"""Of one model, because every clone downloads them."""
REVIEWS, QUESTIONS = 500, 100
"""How many of the test reviews and of KorQuAD's questions are scored: a standard error of 1.4 and of 5 points."""
NETWORK_ALONE = 45.57
"""Its exact match on all questions (docs/results/questions.md)."""
MAX_DIFFERENCE = 8
"""Points of exact match, between a sample and all questions."""


@pytest.mark.parametrize("name", [folder.name for folder in bundled_models()])
def test_each_is_unchanged_and_listed_with_its_own_score(name: str) -> None:
    folder = REPO / "models" / name
    listed = verify(folder)["files"]
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert present == {*listed, "manifest.json"}
    stages = read_json(folder / "training_manifest.json")["stages"]
    task = name.removeprefix("mini-")
    [scores] = [stage["counts"]["test"] for key, stage in stages.items() if re.fullmatch(rf"finetune/{task}/\d+", key)]
    row = next(line for line in TABLE.splitlines() if line.startswith(f"| `{name}` |"))
    if "accuracy" in scores:
        assert f"**{scores['accuracy']:.2f}**" in row
    else:  # what the network has learned is named first
        parts = read_json(REPO / "docs" / "results" / "models" / f"{name}.json")["prior_ablation"]
        alone, both = ("{exact_match:.2f} / {f1:.2f}".format_map(parts[part]) for part in PARTS)
        assert f"**{alone}**; {both} |" in row
    card = (folder / "README.md").read_text(encoding="utf-8")
    licence = re.search(r"^license: (.*)$", card, re.M)
    assert licence and licence[1].upper() in row


@pytest.mark.parametrize("folder", bundled_models(), ids=lambda folder: folder.name)
def test_they_are_small_enough_for_a_clone(folder: Path) -> None:
    assert 20_000_000 < sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MAX_BYTES


@pytest.mark.parametrize("name", [folder.name for folder in bundled_models()])
def test_the_readmes_show_what_each_says(kobert: Any, name: str) -> None:
    example = rf"^\$ kobert (predict {name} (?:.*\\\n)*.*)\n((?:(?:text|question): .*\n)+)```"
    shown = re.findall(example, README + TABLE, re.M)
    assert sum(len(lines.splitlines()) for _, lines in shown) > (2 if name == "mini-nsmc" else 0)
    for command, lines in shown:
        found = kobert(*shlex.split(command.replace("\\\n", ""))).out.splitlines()
        assert len(found) == len(lines.splitlines()) > 0
        for line, printed in zip(found, lines.splitlines(), strict=True):
            # other processors round differently
            numbers = [[float(number) for number in re.findall(r"\d+\.\d+", one)] for one in (line, printed)]
            assert numbers[0] == pytest.approx(numbers[1], abs=0.002, rel=0.001)
            assert re.sub(r"\d+\.\d+", "", line) == re.sub(r"\d+\.\d+", "", printed)


# the models' own scores, on a part of each test set


@pytest.fixture(scope="module")
def reviews() -> list[dict[str, Any]]:
    """Every hundredth review of NSMC's test set."""
    rows = Nsmc().read(REPO / "corpora" / "nsmc" / "ratings_test.txt.zst")
    return rows[:: len(rows) // REVIEWS][:REVIEWS]


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    """Every 57th question of KorQuAD's dev set."""
    rows = KorQuad().read(REPO / "corpora" / "qa" / "KorQuAD_v1.0_dev.json.zst")
    return rows[:: len(rows) // QUESTIONS][:QUESTIONS]


@pytest.fixture(scope="module")
def questions_file(questions: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of these questions, in the format of SQuAD."""
    paragraphs = [
        {"context": row["context"], "qas": [{"id": row["id"], "question": row["question"], "answers": [
            {"text": text, "answer_start": start} for text, start in row["answers"]
        ]}]}
        for row in questions
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("questions") / "questions.json"
    write_json(path, {"version": "1", "data": [{"title": "", "paragraphs": paragraphs}]})
    return path


@pytest.fixture(scope="module")
def evaluation(questions_file: Path, kobert: Any) -> dict[str, Any]:
    """What `kobert evaluate` gives for them."""
    return dict(kobert("evaluate", "mini-korquad", questions_file, "--json").json)


@pytest.fixture(scope="module")
def by_plain_transformers(
    reviews: list[dict[str, Any]],
    questions: list[dict[str, Any]],
    fresh: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[str]]:
    """What the example of each model's card prints for each of them, in a fresh process without this package."""
    inputs: dict[str, list[Any]] = {
        "mini-nsmc": [row["text"] for row in reviews],
        "mini-korquad": [(row["question"], row["context"]) for row in questions],
    }
    jobs, folder = {}, tmp_path_factory.mktemp("plain")
    for name in inputs:
        code = re.findall(r"```python\n(.*?)```", (REPO / "models" / name / "README.md").read_text("utf-8"), re.S)[0]
        code = code.replace("PATH/TO/THIS/FOLDER", str(REPO / "models" / name))
        jobs[name] = {"code": code, "inputs": inputs[name]}
    (folder / "jobs.json").write_text(json.dumps(jobs), "utf-8")
    environment = os.environ | {"HF_MODULES_CACHE": str(folder), "PYTHONPATH": ""}
    result = fresh(EXAMPLE_ON_EACH, folder / "jobs.json", cwd=folder, env=environment)
    assert result.code == 0, result.err[-3000:]
    return dict(json.loads(result.out.splitlines()[-1]))


EXAMPLE_ON_EACH = """
import contextlib, io, json, re, sys
sys.modules["kobert_pipeline"] = None  # as where it is not installed
printed = {}
for name, job in json.load(open(sys.argv[1], encoding="utf-8")).items():
    # the lines that load the model, and those that follow with a text or with a question and its context
    setup, example = re.split(r"^(?=question, context = |print\\(classify\\()", job["code"], flags=re.M)
    example = re.sub(r'^question, context = .*$', "question, context = given", example, flags=re.M)
    example = re.sub(r'^print\\(classify\\(.*\\)\\)$', "print(classify(given)[0]['label'])", example, flags=re.M)
    values = {}
    exec(setup, values)
    example, printed[name] = compile(example, "card", "exec"), []
    for values["given"] in job["inputs"]:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(example, values)
        printed[name].append(out.getvalue().rstrip("\\n"))
print(json.dumps(printed))
"""


def test_reviews_are_labelled_as_well_as_the_card_says(
    reviews: list[dict[str, Any]], by_plain_transformers: dict[str, list[str]], kobert: Any, tmp_path: Path
) -> None:
    file = tmp_path / "reviews.txt"
    lines = ["id\tdocument\tlabel", *(f"{row['id']}\t{row['text']}\t{row['label']}" for row in reviews)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    evaluated = kobert("evaluate", "mini-nsmc", file, "--json").json["clean"]["scores"]["accuracy"]
    labels = by_plain_transformers["mini-nsmc"]
    right = sum(label == ("negative", "positive")[row["label"]] for label, row in zip(labels, reviews, strict=True))
    assert len(reviews) == REVIEWS
    assert evaluated >= 86
    assert 100 * right / len(reviews) == pytest.approx(evaluated, abs=0.5)


def test_questions_are_answered_as_well_as_the_card_says(evaluation: dict[str, Any]) -> None:
    stages = read_json(REPO / "models" / "mini-korquad" / "training_manifest.json")["stages"]
    [of_all] = [stage["counts"]["test"] for key, stage in stages.items() if re.fullmatch(r"finetune/korquad/\d+", key)]
    assert evaluation["clean"]["scores"]["exact_match"] == pytest.approx(of_all["exact_match"], abs=MAX_DIFFERENCE)


def test_the_network_alone_answers_as_well_as_it_says_also_by_plain_transformers(
    questions: list[dict[str, Any]], evaluation: dict[str, Any], by_plain_transformers: dict[str, list[str]]
) -> None:
    answers = [[text for text, _ in row["answers"]] for row in questions]
    scores = korquad_scores(by_plain_transformers["mini-korquad"], answers)
    assert len(questions) == QUESTIONS
    for exact_match in (evaluation["prior_ablation"]["network_alone"]["exact_match"], scores["exact_match"]):
        assert exact_match == pytest.approx(NETWORK_ALONE, abs=MAX_DIFFERENCE)


@pytest.fixture
def without_kiwi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kiwi cannot be imported, and nothing is kept of what it said before."""
    monkeypatch.delitem(sys.modules, "kobert_pipeline.morphemes.analyzers.kiwi", raising=False)
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    tagged_sentences.cache_clear()
    analyzer.cache_clear()


@pytest.mark.parametrize(
    "needs_kiwi",
    [{"answer_priors": {"phrase": 4}}, {"answer_priors": {"type": 8}}, {"answer_priors": {"overlap": 12}},
     {"pos_feature": True}],
)  # fmt: skip
def test_without_kiwi_plain_answers_if_nothing_needs_it(
    needs_kiwi: dict[str, Any], tmp_path: Path, kobert: Any, without_kiwi: None
) -> None:
    folder, model = tmp_path / "plain", REPO / "models" / "mini-korquad"
    shutil.copytree(model / "plain", folder)
    shutil.copy(model / "model.safetensors", folder)
    text = "김철수 시인은 2019년에 서울에서 편지를 썼다."
    words = ("predict", folder, "--question", "편지를 쓴 해는 언제인가?", text, "--json")
    config = read_json(model / "config.json")
    options = config["task_specific_params"]["korquad"]
    assert options.pop("answer_priors") and options.pop("pos_feature")
    write_json(folder / "config.json", config)
    assert json.loads(kobert(*words).out)["answer"] == "2019년"
    options |= needs_kiwi
    write_json(folder / "config.json", config)
    complaint = kobert(*words).complaint
    assert "pip install kiwipiepy" in complaint and f"task korquad: {next(iter(needs_kiwi))} need Kiwi" in complaint


def test_without_kiwi_a_folder_with_its_tokenizer_is_not_called_damaged(kobert: Any, without_kiwi: None) -> None:
    complaint = kobert("predict", "mini-korquad", "좋다", "--question", "좋은가?").complaint
    assert complaint.endswith("pip install kiwipiepy") and "again" not in complaint
