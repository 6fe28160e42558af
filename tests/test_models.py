"""The models that come with a clone: unchanged, documented, and as good as the README says."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.checkpoint.source import bundled_models
from kobert_pipeline.files import read_json
from kobert_pipeline.runs.manifest import verify

REPO = Path(__file__).resolve().parents[1]
README = (REPO / "README.md").read_text(encoding="utf-8")
TABLE = (REPO / "models" / "README.md").read_text(encoding="utf-8")
MAX_BYTES = 60_000_000
"""Of all models together, because every clone downloads them."""


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
    shown = "{accuracy:.2f}" if "accuracy" in scores else "{exact_match:.2f} / {f1:.2f}"
    assert f"**{shown.format_map(scores)}**" in row
    card = (folder / "README.md").read_text(encoding="utf-8")
    licence = re.search(r"^license: (.*)$", card, re.M)
    assert licence and licence[1].upper() in row


def test_they_are_small_enough_for_a_clone() -> None:
    files = [path for path in (REPO / "models").rglob("*") if path.is_file()]
    assert 20_000_000 < sum(path.stat().st_size for path in files) <= MAX_BYTES


@pytest.mark.parametrize("name", [folder.name for folder in bundled_models()])
def test_the_readme_shows_what_each_says(kobert: Any, name: str) -> None:
    shown = re.findall(rf"^\$ kobert (predict {name} (?:.*\\\n)*.*)\n((?:(?:text|question): .*\n)+)```", README, re.M)
    assert sum(len(lines.splitlines()) for _, lines in shown) > (2 if name == "mini-nsmc" else 0)
    for command, lines in shown:
        found = kobert(*shlex.split(command.replace("\\\n", ""))).out.splitlines()
        assert len(found) == len(lines.splitlines()) > 0
        for line, printed in zip(found, lines.splitlines(), strict=True):
            # other processors round differently
            numbers = [[float(number) for number in re.findall(r"\d+\.\d+", one)] for one in (line, printed)]
            assert numbers[0] == pytest.approx(numbers[1], abs=0.002, rel=0.001)
            assert re.sub(r"\d+\.\d+", "", line) == re.sub(r"\d+\.\d+", "", printed)
