"""A model that comes with a clone of the project goes by its name alone."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kobert_pipeline
from kobert_pipeline import files
from kobert_pipeline.checkpoint.source import commit_of, locate
from kobert_pipeline.errors import UserError


@pytest.fixture
def clone(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with one model, and a folder without a config."""
    folder = tmp_path / "clone"
    shutil.copytree(tiny.run_dir / "publish" / "nsmc", folder / "models" / "mood")
    (folder / "models" / "notes").mkdir()
    (folder / "pyproject.toml").touch()
    monkeypatch.setattr(files, "CLONE", folder)
    return folder


def test_it_is_found_by_name_where_no_folder_is_called_so(
    clone: Path, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kobert: Callable
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "배우들 연기가 정말 좋았고 또 보고 싶다"
    expected = kobert_pipeline.load(tiny.run_dir / "publish" / "nsmc").predict(text)
    assert kobert_pipeline.load("mood").predict(text) == expected
    assert expected["label"] in kobert("predict", "mood", text).out
    assert commit_of("mood", locate("mood")) is None
    (tmp_path / "mood").mkdir()
    assert locate("mood") == Path("mood")  # the user's own folder comes first


def test_other_names_are_refused_with_those_there_are(clone: Path) -> None:
    for name in ("moods", "notes", "../clone/models/gone", "mood/"):
        with pytest.raises(UserError, match=r"nor a model of this clone \(mood\); correct the path or the name"):
            locate(name)
    (clone / "pyproject.toml").unlink()  # as in an installed package
    with pytest.raises(UserError, match=r"OWNER/NAME@REVISION\); correct the path or the name"):
        locate("mood")


def test_a_recipe_may_start_from_it(clone: Path, corpora: Path, tmp_path: Path, kobert: Callable) -> None:
    (tmp_path / "r.yaml").write_text(
        f"data_dir: {corpora}\ncheckpoint: mood\n"
        "features: {nsmc: {task: nsmc, train: reviews_train.txt, max_length: 100000}}\nfinetune: {nsmc: {}}\n",
        encoding="utf-8",
    )
    assert "but mood has" in kobert("check", tmp_path / "r.yaml").complaint
    assert "valid" in kobert("check", tmp_path / "r.yaml", "--set", "features.nsmc.max_length=32").out
