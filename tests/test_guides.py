"""The guides in docs/: a reader who types what they say gets what they promise."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
GUIDE = (REPO / "docs" / "own-data.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language in the guide."""
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S)


SMALLER = {
    "pieces: 1_000_000": "pieces: 30_000",
    "seeds: [1, 2, 3]": "seeds: [1]",
    "epochs: 3": "epochs: 1",
    "num_hidden_layers: 2": "num_hidden_layers: 1",
}
"""So that the test takes seconds; the rest of the recipe stays as it is printed."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the guide's recipe, and the bundled corpora under its names."""
    place = tmp_path_factory.mktemp("own")
    shutil.copytree(REPO / "corpora" / "documents", place / "mydata" / "texts")
    for name in ("reviews_train.txt", "reviews_test.txt"):
        shutil.copy(REPO / "corpora" / name, place / "mydata")
    recipe = blocks("yaml")[0]
    for printed, smaller in SMALLER.items():
        assert printed in recipe
        recipe = recipe.replace(printed, smaller)
    (place / "mine.yaml").write_text(recipe, encoding="utf-8")
    return place


def test_the_commands_of_the_guide_run_one_after_the_other(place, kobert_process) -> None:
    lines = [line.removeprefix("$ kobert ") for block in blocks("console") for line in block.splitlines()]
    assert len(lines) > 5
    said = {}
    for line in lines:
        result = kobert_process(*shlex.split(line), cwd=place)
        assert result.code == 0, f"{line}: {result.err[-1000:]}"
        said[line] = result.out
    assert "done" in said["status mine.yaml"]
    assert "missing" not in said["status mine.yaml"]
    assert "label: " in said[lines[-1]]
    assert "unknown" in (place / "runs" / "mine" / "tokenizer" / "report.md").read_text(encoding="utf-8")


def test_the_guide_names_every_reader_and_task_of_its_tables() -> None:
    from kobert_pipeline import registry

    for family in ("readers", "tasks"):
        table = {name for name in registry.contract(family).names() if f"| `{name}` |" in GUIDE}
        assert table, f"no {family} in the guide"
    assert set(registry.contract("tasks").names()) == {name for name in registry.contract("tasks").names() if f"| `{name}` |" in GUIDE}
