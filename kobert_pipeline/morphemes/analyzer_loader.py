# SPDX-License-Identifier: Apache-2.0
"""Finds analyzers: in this package, every file of `analyzers/`.

A published folder holds another version of this file, written by `ship`, that knows one analyzer and names it in an
import statement: `transformers` copies only files that are imported by name with one dot.
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
    """The module of the analyzer `name`. Raises ImportError where its library is missing, ValueError for an unknown
    name."""
    names = sorted(module.name for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__))
    if name not in names:
        raise ValueError(f"there is no analyzer {name!r}; allowed: {', '.join(names)}")
    return importlib.import_module(f"{PACKAGE}.{name}")


def ship(name: str, folder: Path) -> None:
    """Write to `folder` the file of the analyzer `name`, and the published version of this file."""
    shutil.copyfile(str(analyzer(name).__file__), folder / f"{name}.py")
    source = PUBLISHED.replace("IMPORT", f"from .{name} import version").replace("NAME", name)
    (folder / Path(__file__).name).write_text(source, encoding="utf-8")


PUBLISHED = '''"""The one analyzer of this tokenizer."""

import importlib
from pathlib import Path
from types import ModuleType


def analyzer(name: str) -> ModuleType:
    """The module of the analyzer that this folder was published with."""
    if name != "NAME":
        raise ValueError(f"there is no analyzer {name!r} in this folder; it was published with NAME")
    IMPORT  # transformers copies only files that an import statement names

    return importlib.import_module(f"{__package__}.NAME")


def ship(name: str, folder: Path) -> None:
    """Nothing to do: `save_pretrained` copies this file and what it imports."""
'''
