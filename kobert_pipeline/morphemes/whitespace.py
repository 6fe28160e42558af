"""The control without an analyzer: an eojeol is one token, a line one sentence."""

import re
from collections.abc import Iterator

from .cutting import Token

EOJEOL = re.compile(r"\S+")


def version() -> str:
    """Cutting at white space has one version."""
    return "whitespace 1"


def tokens(texts: list[str], num_workers: int | None = None) -> Iterator[list[Token]]:
    """The eojeols of each text, all in sentence 0."""
    for text in texts:
        yield [(eojeol.start(), eojeol.end(), 0) for eojeol in EOJEOL.finditer(text)]
