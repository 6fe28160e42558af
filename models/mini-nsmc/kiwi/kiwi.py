# SPDX-License-Identifier: Apache-2.0
"""The analyzer Kiwi (Lee 2024), through kiwipiepy."""

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

try:
    import kiwipiepy
    import kiwipiepy_model
    from kiwipiepy import Kiwi
except ImportError as error:
    raise ImportError(f"{error}; run: pip install kiwipiepy") from error

LIBRARY = "kiwipiepy"
STYLES = ("surface", "form", "lemma", "tagged", "none")
USER_TAGS = (
    "NNG", "NNP", "NNB", "NR", "NP", "VV", "VA", "VX", "VCP", "VCN", "MM", "MAG", "MAJ", "IC", "JKS", "JKC", "JKG",
    "JKO", "JKB", "JKV", "JKQ", "JX", "JC", "EP", "EF", "EC", "ETN", "ETM", "XPN", "XSN", "XSV", "XSA", "XSM", "XR",
    "SL", "SH",
)  # fmt: skip

PREDICATES = ("VV", "VA", "VX", "VC", "XSV", "XSA")
"""Tags of words whose dictionary form ends in 다: verbs, adjectives, auxiliaries, copulas, and the suffixes that form
them."""

# on the library's own module, since every published folder brings a copy of this file: a process has one analyzer, not
# one for each checkpoint
_instances: dict[tuple[Any, ...], Kiwi] = vars(kiwipiepy).setdefault("_kobert_instances", {})


def version() -> str:
    """The versions of the analyzer and of its model."""
    return f"kiwipiepy {kiwipiepy.__version__}, model {kiwipiepy_model.__version__}"


def instance(user_words: tuple[tuple[str, str, float], ...] = (), num_workers: int | None = None) -> Kiwi:
    """The process's Kiwi with `num_workers` threads (None: one per core). Raises ValueError for a word or tag that Kiwi
    refuses."""
    workers = num_workers or os.cpu_count() or 1
    # Kiwi's threads do not survive a fork, so a child process, which inherits this cache, must make its own instance
    key = (os.getpid(), workers, user_words)
    if key not in _instances:
        kiwi = Kiwi(num_workers=workers)
        for word in user_words:
            kiwi.add_user_word(*word)
        _instances[key] = kiwi
    return _instances[key]


def tokens(
    texts: Iterable[str],
    style: str,
    user_words: tuple[tuple[str, str, float], ...] = (),
    num_workers: int | None = None,
) -> Iterator[tuple[list[int], list[int], list[int], list[str] | None]]:
    """Analyse `texts` on Kiwi's threads, which work ahead of what has been consumed."""
    kiwi, remaining = instance(user_words, num_workers), iter(texts)
    first = list(islice(remaining, 2))
    # a single text needs no threads
    several = len(first) > 1
    for analysis in kiwi.tokenize(chain(first, remaining)) if several else map(kiwi.tokenize, first):
        yield (
            [token.start for token in analysis],
            [token.end for token in analysis],
            [token.sent_position for token in analysis],
            _spellings(analysis, style),
        )


def _spellings(analysis: Any, style: str) -> list[str] | None:
    match style:
        case "form":
            return [token.form for token in analysis]
        case "lemma":
            return [token.form + "다" if token.tag.startswith(PREDICATES) else token.form for token in analysis]
        case "tagged":
            return [f"{token.form}/{token.tag}" for token in analysis]
        case _:
            return None
