"""The software and hardware that a stage ran on, for its manifest.

They are not part of the fingerprint, so a run may be resumed on another machine.
"""

import importlib.metadata
import os
import platform
import sys
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
    """Versions of Python and of the installed `LIBRARIES`."""
    numbers = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            numbers[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return numbers


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
