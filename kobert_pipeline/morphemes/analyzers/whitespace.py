# SPDX-License-Identifier: Apache-2.0
"""The baseline without an analyzer: an eojeol is one token, and a line is one sentence.

In the style `surface` punctuation at either end of an eojeol is split off afterwards, as for every analyzer.
"""

import re
from collections.abc import Iterable, Iterator

LIBRARY = ""
STYLES = ("surface", "none")
USER_TAGS = ()

EOJEOL = re.compile(r"\S+")


def version() -> str:
    """Splitting at white space has only one version."""
    return "whitespace 1"


def tokens(
    texts: Iterable[str],
    style: str,
    user_words: tuple[tuple[str, str, float], ...] = (),
    num_workers: int | None = None,
) -> Iterator[tuple[list[int], list[int], list[int], None]]:
    """The eojeols of each text, all in sentence 0."""
    for text in texts:
        spans = [match.span() for match in EOJEOL.finditer(text)]
        yield [start for start, _ in spans], [end for _, end in spans], [0] * len(spans), None
