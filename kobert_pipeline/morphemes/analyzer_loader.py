"""Which analyzers are at hand: in the package every file of `analyzers/`.

A published folder has another version of this file, written by `ship`, which names the one analyzer it needs in an
import, because transformers brings along only files that are imported by name with one dot.
"""

import importlib
import pkgutil
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType

PACKAGE = f"{__package__}.analyzers"


@cache
def analyzer(name: str) -> ModuleType:
    """The module of the analyzer called `name`. Raises ImportError when its library is missing, ValueError when nobody
    knows it."""
    names = sorted(module.name for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__))
    if name not in names:
        raise ValueError(f"there is no analyzer {name!r}; allowed: {', '.join(names)}")
    return importlib.import_module(f"{PACKAGE}.{name}")


def ship(name: str, folder: Path) -> None:
    """Bring the analyzer `name` along in `folder`, and this file in its published version."""
    shutil.copyfile(str(analyzer(name).__file__), folder / f"{name}.py")
    source = PUBLISHED.replace("IMPORT", f"from .{name} import version").replace("NAME", name)
    (folder / Path(__file__).name).write_text(source, encoding="utf-8")


PUBLISHED = '''"""The one analyzer of this tokenizer."""

import importlib
from pathlib import Path
from types import ModuleType


def analyzer(name: str) -> ModuleType:
    """The module of the analyzer this folder was published with."""
    if name != "NAME":
        raise ValueError(f"there is no analyzer {name!r} in this folder; it was published with NAME")
    IMPORT  # transformers brings along what is imported by name

    return importlib.import_module(f"{__package__}.NAME")


def ship(name: str, folder: Path) -> None:
    """Nothing to do: saving copies this file and what it imports."""
'''
