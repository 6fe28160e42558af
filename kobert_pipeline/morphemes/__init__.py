# SPDX-License-Identifier: Apache-2.0
"""Korean morpheme segmentation on the raw text, and the tokenizer built on it.

`publish` copies these very files into a model folder, where this package is not installed: a file here may import third
parties and its siblings (by one dot), and nothing else.
"""

from pathlib import Path

ANALYZERS = tuple(sorted(path.stem for path in (Path(__file__).parent / "analyzers").glob("[!_]*.py")))
"""The names of all analyzers."""


def tokenizer_files() -> tuple[str, ...]:
    """The names of all files that a saved tokenizer may consist of: vocabulary, settings, and the code in this
    folder."""
    here = Path(__file__).parent
    code = {path.name for folder in (here, here / "analyzers") for path in folder.glob("*.py")}
    return ("morphemes.json", "tokenizer_config.json", *sorted(code - {"__init__.py"}))
