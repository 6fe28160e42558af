"""The models that come with a clone: unchanged, documented, and as good as the README says."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.checkpoint.source import bundled_models
from kobert_pipeline.features.candidates import tagged_sentences
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.analyzer_loader import analyzer
from kobert_pipeline.runs.manifest import verify

REPO = Path(__file__).resolve().parents[1]
README = (REPO / "README.md").read_text(encoding="utf-8")
TABLE = (REPO / "models" / "README.md").read_text(encoding="utf-8")
PARTS = ("network_alone", "network_and_priors")
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
    if "accuracy" in scores:
        assert f"**{scores['accuracy']:.2f}**" in row
    else:  # what the network has learned is named first
        parts = read_json(REPO / "docs" / "results" / "models" / f"{name}.json")["prior_ablation"]
        alone, both = ("{exact_match:.2f} / {f1:.2f}".format_map(parts[part]) for part in PARTS)
        assert f"**{alone}**; {both} |" in row
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


@pytest.fixture
def without_kiwi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kiwi cannot be imported, and nothing is kept of what it said before."""
    monkeypatch.delitem(sys.modules, "kobert_pipeline.morphemes.analyzers.kiwi", raising=False)
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    tagged_sentences.cache_clear()
    analyzer.cache_clear()


def test_without_kiwi_plain_answers_if_no_bonus_needs_it(tmp_path: Path, kobert: Any, without_kiwi: None) -> None:
    folder, model = tmp_path / "plain", REPO / "models" / "mini-korquad"
    shutil.copytree(model / "plain", folder)
    shutil.copy(model / "model.safetensors", folder)
    text = "김철수 시인은 2019년에 서울에서 편지를 썼다."
    words = ("predict", folder, "--question", "편지를 쓴 해는 언제인가?", text, "--json")
    config, names = read_json(model / "config.json"), ("phrase_bonus", "kind_bonus", "sentence_bonus")
    options = config["task_specific_params"]["korquad"]
    for kept in names:
        bonuses = {name: options[name] if name == kept else 0 for name in names}
        write_json(folder / "config.json", config | {"task_specific_params": {"korquad": options | bonuses}})
        complaint = kobert(*words).complaint
        assert "pip install kiwipiepy" in complaint and all(name in complaint for name in names), kept
    without = {"korquad": options | dict.fromkeys(names, 0)}
    write_json(folder / "config.json", config | {"task_specific_params": without})
    assert json.loads(kobert(*words).out)["answer"] == "2019년"


def test_without_kiwi_a_folder_with_its_tokenizer_is_not_called_damaged(kobert: Any, without_kiwi: None) -> None:
    complaint = kobert("predict", "mini-nsmc", "좋다").complaint
    assert complaint.endswith("pip install kiwipiepy") and "again" not in complaint
