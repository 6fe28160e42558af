"""Kiwi's borders. One `Kiwi` per process: its worker threads do not survive a fork, so the instance is keyed by process id."""

import os
from collections.abc import Iterator

import kiwipiepy
import kiwipiepy_model
from kiwipiepy import Kiwi

from .cutting import Token

_instances: dict[tuple[int, int], Kiwi] = {}


def version() -> str:
    """The analyzer and its model: another model cuts differently, so this belongs to a vocabulary."""
    return f"kiwipiepy {kiwipiepy.__version__}, model {kiwipiepy_model.__version__}"


def instance(num_workers: int | None = None) -> Kiwi:
    """The process's Kiwi with `num_workers` threads (None: one per core)."""
    workers = num_workers or os.cpu_count() or 1
    key = (os.getpid(), workers)
    if key not in _instances:
        _instances[key] = Kiwi(num_workers=workers)
    return _instances[key]


def tokens(texts: list[str], num_workers: int | None = None) -> Iterator[list[Token]]:
    """Analyse `texts` (NFC, no lone surrogates) on Kiwi's threads: for each, (start, end, sentence) of its morphemes."""
    for found in instance(num_workers).tokenize(texts):
        yield [(token.start, token.start + token.len, token.sent_position) for token in found]
