"""The lowest room: morphemes on the raw text. Self-contained (one-dot imports only), because `publish` ships these very
files."""

from pathlib import Path


def tokenizer_files() -> tuple[str, ...]:
    """The names of all files that a saved tokenizer may consist of: vocabulary, settings, and this room's code."""
    here = Path(__file__).parent
    code = {path.name for folder in (here, here / "analyzers") for path in folder.glob("*.py")}
    return ("morphemes.json", "tokenizer_config.json", *sorted(code - {"__init__.py"}))
