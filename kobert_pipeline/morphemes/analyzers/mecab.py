# SPDX-License-Identifier: Apache-2.0
"""MeCab-ko (Kudo 2006; dictionary of the Eunjeon project) through python-mecab-ko, an optional extra.

It does not split sentences, so a sentence starts after every sentence-final punctuation mark.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

try:
    from mecab import MeCab
except ImportError as error:
    raise ImportError(f"{error}; run: pip install python-mecab-ko") from error

LIBRARY = "python-mecab-ko"
STYLES = ("surface", "form", "lemma", "tagged", "none")
USER_TAGS = ()

PREDICATES = ("VV", "VA", "VX", "VC", "XSV", "XSA")
"""Tags of words whose dictionary form ends in 다."""


@cache
def _instance(pid: int) -> MeCab:
    """The analyzer of a process: a fork must not share its parent's."""
    return MeCab()


def version() -> str:
    """The versions of the Python binding and of the dictionary."""
    from importlib.metadata import version as installed

    return f"python-mecab-ko {installed('python-mecab-ko')}, dictionary {installed('python-mecab-ko-dic')}"


def tokens(
    texts: Iterable[str],
    style: str,
    user_words: tuple[tuple[str, str, float], ...] = (),
    num_workers: int | None = None,
) -> Iterator[tuple[list[int], list[int], list[int], list[str] | None]]:
    """Analyse `texts` one after the other, on one thread whatever `num_workers` is.

    An inflected word gives several morphemes, and each of them spans all of the word's characters.
    """
    mecab = _instance(os.getpid())
    for text in texts:
        starts, ends, sentences, spellings = [], [], [], []
        sentence = 0
        for morpheme in mecab.parse(text):
            parts = list(_parts(morpheme)) if style in ("form", "lemma", "tagged") else [(morpheme.surface, "")]
            for form, tag in parts:
                starts.append(morpheme.span.start)
                ends.append(morpheme.span.end)
                sentences.append(sentence)
                spellings.append(_spelling(form, tag, style))
            sentence += morpheme.feature.pos == "SF"
        yield starts, ends, sentences, spellings if style in ("form", "lemma", "tagged") else None


def _parts(morpheme: Any) -> Iterator[tuple[str, str]]:
    """(form, tag) of a token, or of each morpheme of an inflected one, which the dictionary lists as
    하/XSV/*+었/EP/*."""
    feature = morpheme.feature
    if feature.type == "Inflect" and feature.expression:
        for part in feature.expression.split("+"):
            form, tag, *_ = part.split("/")
            yield form, tag
    else:
        yield morpheme.surface, feature.pos


def _spelling(form: str, tag: str, style: str) -> str:
    if style == "tagged":
        return f"{form}/{tag}"
    return form + "다" if style == "lemma" and tag.startswith(PREDICATES) else form
