"""Kiwi (Lee 2024). One `Kiwi` per process: its worker threads do not survive a fork, so instances are keyed by process
id."""

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
USER_WORDS = True

PREDICATES = ("VV", "VA", "VX", "VC", "XSV", "XSA")
"""Tags of what the dictionary writes with 다: verbs, adjectives, auxiliaries, copulas, and the suffixes that make
them."""

_instances: dict[tuple[Any, ...], Kiwi] = {}


def version() -> str:
    """The analyzer and its model."""
    return f"kiwipiepy {kiwipiepy.__version__}, model {kiwipiepy_model.__version__}"


def instance(user_words: tuple[tuple[str, str, float], ...] = (), num_workers: int | None = None) -> Kiwi:
    """The process's Kiwi with `num_workers` threads (None: one per core). Raises ValueError for a word or tag that Kiwi
    refuses."""
    workers = num_workers or os.cpu_count() or 1
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
    """Analyse `texts` on Kiwi's threads, which run ahead of what is asked for; a single one right here."""
    kiwi, several = instance(user_words, num_workers), iter(texts)
    first = list(islice(several, 2))
    for found in kiwi.tokenize(chain(first, several)) if len(first) > 1 else map(kiwi.tokenize, first):
        yield (
            [token.start for token in found],
            [token.end for token in found],
            [token.sent_position for token in found],
            _spellings(found, style),
        )


def _spellings(found: Any, style: str) -> list[str] | None:
    match style:
        case "form":
            return [token.form for token in found]
        case "lemma":
            return [token.form + "다" if token.tag.startswith(PREDICATES) else token.form for token in found]
        case "tagged":
            return [f"{token.form}/{token.tag}" for token in found]
        case _:
            return None
