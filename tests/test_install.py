"""`scripts/install`, with an interpreter that installs nothing."""

import importlib.metadata
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHON = """#!/usr/bin/env bash
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python; exit "${VENV_FAILS:-0}" ;;
  "-m pip --version") exit "${NO_PIP:-0}" ;;
  *"pip install"*) case "$*" in *torch==*) exit "${TORCH_FAILS:-0}" ;; esac ;;
  *"import torch"*) exit 1 ;;
esac
"""


@pytest.mark.parametrize("requirement", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
def test_what_the_tests_need_is_installed(requirement: str) -> None:
    """No test is skipped, or passes by chance, because a library is missing or of another version."""
    parsed = Requirement(requirement)
    assert parsed.specifier.contains(importlib.metadata.version(parsed.name))


Installed = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def installed(repo: Path, tmp_path: Path) -> Installed:
    """Exit code, lines of standard output and standard error of the script in `tmp_path`."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/install", "pyproject.toml", "constraints.txt"):
        shutil.copy(repo / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "python").chmod(0o755)

    def call(extra: str = "serve", **more: str) -> tuple[int, list[str], str]:
        environment = os.environ | {"PYTHON": str(tmp_path / "python")} | more
        result = subprocess.run(
            [tmp_path / "scripts" / "install", extra], env=environment, capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout.splitlines(), result.stderr

    return call


def test_every_step_of_the_installation_is_printed_once(installed: Installed) -> None:
    torch = "installing torch (this takes minutes)"
    assert installed(TORCH_FAILS="3")[:2] == (3, ["creating .venv", torch])
    done = [
        "installing kobert-pipeline[serve] and what it needs",
        "installed in .venv: source .venv/bin/activate puts kobert on your path",
    ]
    assert installed()[:2] == (0, [torch, *done])
    assert installed()[:2] == (0, [])


def test_a_venv_that_could_not_be_created_is_removed_unless_its_folder_was_there(
    installed: Installed, tmp_path: Path
) -> None:
    code, said, error = installed(VENV_FAILS="1")
    assert (code, said) == (2, ["creating .venv"])
    assert "install its venv package" in error
    assert not (tmp_path / ".venv").exists()
    (tmp_path / ".venv").mkdir()
    assert installed(VENV_FAILS="1")[0] == 2
    assert (tmp_path / ".venv").exists()


def test_an_extra_that_pip_would_only_warn_of_is_refused(installed: Installed, tmp_path: Path) -> None:
    code, said, error = installed("server")
    assert (code, said) == (2, [])
    assert "no extra 'server' (allowed: html, ray, " in error and len(error.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()


def test_a_venv_without_pip_is_named_and_kept(installed: Installed, tmp_path: Path) -> None:
    assert installed(TORCH_FAILS="3")[0] == 3
    code, said, error = installed(NO_PIP="1")
    assert (code, said) == (2, [])
    assert ".venv has no pip" in error and len(error.splitlines()) == 1
    assert (tmp_path / ".venv").exists()


def test_unknown_arguments_start_nothing(repo: Path, tmp_path: Path) -> None:
    for script in ("install", "quickstart"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        copy = shutil.copy(repo / "scripts" / script, tmp_path / "scripts" / script)
        result = subprocess.run([copy, "--help"], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (2, "") and script in result.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["install", "quickstart", "scripts"]
