"""What a manifest says of the software and hardware of a stage."""

import importlib.metadata
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from kobert_pipeline.runs import environment


def test_a_library_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "LIBRARIES", ("numpy", "no-such-library"))
    assert environment.versions().keys() - {"python", "commit"} == {"numpy"}
    assert environment.versions()["numpy"] == importlib.metadata.version("numpy")


@pytest.mark.parametrize(("changed", "commit"), [("", "abc1234"), (" M loop.py", "abc1234-dirty")])
def test_a_commit_with_changes_is_dirty(
    changed: str, commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "__file__", str(clone(tmp_path)))
    monkeypatch.setattr(environment, "git", lambda name, *_, folder: "abc1234" if name == "rev-parse" else changed)
    assert environment.commit.__wrapped__() == commit


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_where_git_does_not_answer_the_commit_is_not_known(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*_: str, folder: Path) -> str:
        raise error

    monkeypatch.setattr(environment, "__file__", str(clone(tmp_path)))
    monkeypatch.setattr(environment, "git", git)
    assert environment.commit.__wrapped__() is None


def test_an_installed_package_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*_: str, folder: Path) -> Any:
        raise AssertionError("a repository around the environment is another project's")

    monkeypatch.setattr(environment, "__file__", str(tmp_path / "package" / "runs" / "environment.py"))
    monkeypatch.setattr(environment, "git", git)
    assert environment.commit.__wrapped__() is None


def test_gpus_are_counted_over_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert environment.device() == {"name": "NVIDIA H200", "count": 1}
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert environment.device() == {"name": "NVIDIA H200", "count": 4}


def clone(folder: Path) -> Path:
    """Where the module would be in a clone."""
    (folder / ".git").mkdir()
    return folder / "package" / "runs" / "environment.py"
