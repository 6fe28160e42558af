"""The one analyzer of this tokenizer."""

import importlib
from pathlib import Path
from types import ModuleType


def analyzer(name: str) -> ModuleType:
    """The module of the analyzer that this folder was published with."""
    if name != "kiwi":
        raise ValueError(f"there is no analyzer {name!r} in this folder; it was published with kiwi")
    from .kiwi import version  # transformers copies only files that an import statement names

    return importlib.import_module(f"{__package__}.kiwi")


def ship(name: str, folder: Path) -> None:
    """Nothing to do: `save_pretrained` copies this file and what it imports."""
