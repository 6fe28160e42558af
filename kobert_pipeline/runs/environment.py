"""The software and hardware that a stage ran on, for its manifest.

They are not part of the fingerprint, so a run may be resumed on another machine.
"""

import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = (
    "kobert-pipeline",
    "kiwipiepy",
    "kiwipiepy_model",
    "tokenizers",
    "transformers",
    "torch",
    "numpy",
    "pyarrow",
)
"""Libraries whose version may change a result."""


def versions() -> dict[str, str]:
    """Versions of Python and of the installed `LIBRARIES`, and the commit of this package."""
    numbers = {"python": platform.python_version()} | ({"commit": revision} if (revision := commit()) else {})
    for name in LIBRARIES:
        try:
            numbers[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return numbers


@cache
def commit() -> str | None:
    """The short hash of the commit that this package is at, with `-dirty` if its code was changed since; None for an
    installed wheel."""
    package = Path(__file__).parents[1]
    if not (package.parent / ".git").exists():
        return None
    try:
        revision = git("rev-parse", "--short=7", "HEAD", folder=package)
        # of the package alone: notes beside it change nothing
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", folder=package)
    except (OSError, subprocess.SubprocessError):  # git is not installed, or does not trust the folder's owner
        return None
    return f"{revision}-dirty" if changed else revision


def git(*arguments: str, folder: Path) -> str:
    """What a git command prints. Raises OSError or SubprocessError where it fails."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


def device() -> dict[str, Any]:
    """The device that this process computes on: its `name`, and the `count` of them in distributed training."""
    # Looked up, not imported: a stage that has not imported torch ran on the CPU, and should not wait for torch.
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return {"name": torch.cuda.get_device_name(), "count": int(os.environ.get("WORLD_SIZE", "1"))}
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"name": f"CPU ({models[0] if models else platform.machine()}, {os.cpu_count()} cores)", "count": 1}
