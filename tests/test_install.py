"""`scripts/install`, with an interpreter that installs nothing."""

import os
import shutil
import subprocess
from pathlib import Path

PYTHON = """#!/usr/bin/env bash
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install"*) case "$*" in *torch==*) exit "${TORCH_FAILS:-0}" ;; esac ;;
  *"import torch"*) exit 1 ;;
esac
"""


def test_every_step_of_the_installation_is_printed_once(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/install", "pyproject.toml", "constraints.txt"):
        shutil.copy(repo / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "python").chmod(0o755)

    def installed(**more: str) -> tuple[int, list[str]]:
        environment = os.environ | {"PYTHON": str(tmp_path / "python")} | more
        result = subprocess.run(
            [tmp_path / "scripts" / "install", "serve"], env=environment, capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout.splitlines()

    torch = "installing torch (this takes minutes)"
    assert installed(TORCH_FAILS="3") == (3, ["creating .venv", torch])
    done = [
        "installing kobert-pipeline[serve] and what it needs",
        "installed in .venv: source .venv/bin/activate puts kobert on your path",
    ]
    assert installed() == (0, [torch, *done])
    assert installed() == (0, [])
