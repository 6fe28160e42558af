"""The wheel holds the package, its recipes and small texts, and nothing of the clone's data; a run needs no more."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
LARGEST = 2_000_000
"""Bytes: the code and the texts of recipe `tiny`; the clone's data is 29 MB."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, since setuptools writes into the folder that it builds from."""
    place = tmp_path_factory.mktemp("wheel")
    made_here = shutil.ignore_patterns(".git", ".venv", "*.egg-info", "__pycache__", ".*_cache")

    def not_source(folder: str, names: list[str]) -> set[str]:
        # The user's runs lie in the clone's `runs/`; the package has a room of that name.
        return made_here(folder, names) | ({"runs"} if Path(folder) == REPO else set())

    source = shutil.copytree(REPO, place / "source", symlinks=True, ignore=not_source)
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", place, source], check=True)
    [built] = place.glob("kobert_pipeline-*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_none_of_the_data(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = (path for path in (REPO / "kobert_pipeline").rglob("*") if path.is_file())
    assert names == {str(path.relative_to(REPO)) for path in package if "__pycache__" not in path.parts}
    assert wheel.stat().st_size < LARGEST


@pytest.mark.slow
def test_a_run_of_the_installed_wheel_needs_no_clone(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([*PIP, "install", "--no-deps", "--target", tmp_path / "site", wheel], check=True)

    def kobert(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}
        command = [sys.executable, "-m", "kobert_pipeline", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    ran = kobert("run", "tiny")
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert (tmp_path / "runs" / "tiny" / "publish" / "nsmc" / "model.safetensors").is_file()
    asked = kobert("predict", "runs/tiny/publish/nsmc", "정말 재밌다", "--json")
    assert '"label"' in asked.stdout, asked.stderr[-2000:]
    refused = kobert("run", "mini")
    assert refused.returncode == 2
    assert "come with a clone of the repository" in refused.stderr and "kobert download" in refused.stderr
