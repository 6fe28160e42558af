"""The commands of docs/evaluating.md work, it and its Korean version name every noise and category, and the page of
results comes from the JSON files."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.evaluation.error_analysis import CATEGORIES
from kobert_pipeline.evaluation.noise import KINDS

REPO = Path(__file__).resolve().parents[2]
GUIDE = (REPO / "docs" / "evaluating.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"^```console\n(.*?)^```", GUIDE, re.M | re.S) for line in block.splitlines()]
LINES = [line for line in LINES if line.startswith("$ kobert evaluate")]  # test_suites.py has those of the suites


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory, corpora: Path, kobert: Callable) -> Path:
    """A folder with the files that the commands of the guide wrote."""
    place = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in LINES:
            words = (
                line.replace("corpora/nsmc/ratings_test.txt.zst", str(corpora / "reviews_test.txt"))
                .replace("corpora/qa/KorQuAD_v1.0_dev.json.zst", str(corpora / "qa_dev.json"))
                .removeprefix("$ kobert ")
            )
            result = kobert(*shlex.split(words))
            assert result.code == 0, result.err
            assert result.out.startswith("# ")
    return place


def test_the_commands_of_the_guide_write_what_it_says(figures: Path) -> None:
    assert len(LINES) == 5
    assert {path.name for path in figures.iterdir()} == {
        "nsmc.json", "nsmc.md", "korquad.json", "korquad.md", "wrong.json", "wrong.md", "wrong.errors.csv",
    }  # fmt: skip
    found = json.loads((figures / "nsmc.json").read_text(encoding="utf-8"))
    assert found["noise"]["examples"] == 30
    assert {row["kind"] for row in found["noise"]["conditions"]} == set(KINDS)


@pytest.mark.parametrize("folder", ["docs", "docs/ko"])
def test_the_guide_names_every_noise_and_category(folder: Any) -> None:
    guide = (REPO / folder / "evaluating.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", guide, re.M)) == {*KINDS, *CATEGORIES}, folder


def test_the_page_of_results_comes_from_figures_and_copies_no_text(figures: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("## Notes\n\nA thought.\n", encoding="utf-8")
    names = [*(str(figures / name) for name in ("nsmc.json", "korquad.json", "wrong.json")), "notes.md"]
    script = [sys.executable, str(REPO / "scripts" / "robustness"), "One core", "2026-01-01", *names]
    subprocess.run(script, cwd=tmp_path, check=True)
    made = json.loads((tmp_path / "docs" / "results" / "robustness.json").read_text(encoding="utf-8"))
    page = (tmp_path / "docs" / "results" / "robustness.md").read_text(encoding="utf-8")
    assert "One core. 2026-01-01." in page
    assert page.endswith("A thought.\n")
    typed = re.findall(r"^\$ (.*)$", page, re.M)
    assert typed == [
        "kobert evaluate mini-nsmc reviews_test.txt --noise all --noise-limit 30 --out mini-nsmc.json",
        "kobert evaluate mini-korquad qa_dev.json --errors --out mini-korquad.json",
        "kobert evaluate mini-nsmc reviews_test.txt --out mini-nsmc.json",
    ]
    wrong = json.loads((figures / "wrong.json").read_text(encoding="utf-8"))
    assert wrong.pop("wrong_labels")
    assert made["figures"][2] == wrong
    korquad = json.loads((figures / "korquad.json").read_text(encoding="utf-8"))
    questions = [shown["question"] for samples in korquad["errors"]["samples"].values() for shown in samples]
    assert questions and not [question for question in questions if question in page]
    assert made["figures"][1]["errors"] == korquad["errors"] | {"samples": {}}
    for row in json.loads((figures / "nsmc.json").read_text(encoding="utf-8"))["noise"]["conditions"]:
        assert re.search(rf"\| {row['kind']} \| .*{row['scores']['accuracy']:.2f} ", page)
