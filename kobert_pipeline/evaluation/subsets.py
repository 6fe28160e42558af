"""Kinds of informal text in a file: which examples contain emoji, laughter, slang or lengthened syllables. No noise is
added to them."""

import re
from collections.abc import Iterator

from kobert_pipeline.features.task import Example
from kobert_pipeline.tokenizer.report import KINDS

SUBSETS = {
    "emoji": KINDS["emoji"],
    # faces made of characters: ^^, ㅡㅡ, T_T, :)
    "emoticon": re.compile(
        r"\^[_.oㅁ]?\^|[-=>][_.]+[-=<]"
        r"|[TㅜㅠㅡㅇO][_.][TㅜㅠㅡㅇO]|[:;]-?[)(DP]"
        r"|(?<!ㅡ)ㅡ(?:;+|ㅡ)(?!ㅡ)"
    ),
    "laughter": re.compile("[ㅋㅎ]{2,}"),
    "tears": re.compile("[ㅠㅜ]{2,}"),
    # other runs of consonants: ㅇㅈ, ㄷㄷ
    "jamo-slang": re.compile("(?:(?![ㅋㅎ])[ㄱ-ㅎ]){2,}"),
    # 아아아, 좋다~ and 와ㅏㅏ
    # but not ㅜ, ㅠ and ㅡ after a syllable, which are faces (영화ㅠㅠ)
    "elongation": re.compile(r"([가-힣])\1\1|[가-힣]~|~{2,}|[가-힣](?![ㅜㅠㅡ])[ㅏ-ㅣ]"),
    "latin": re.compile("[A-Za-z]{2,}"),
}
NONE = "none of these"


def subsets_of(text: str) -> list[str]:
    """The names of the subsets that `text` belongs to, [NONE] if there is no such subset."""
    return [name for name, pattern in SUBSETS.items() if pattern.search(text)] or [NONE]


def subsets(examples: list[Example]) -> Iterator[tuple[str, list[int]]]:
    """(name, indices of its examples) of each subset that is not empty."""
    # no pattern matches a line break, so none matches across both texts
    texts = ("\n".join(example[key] for key in ("text", "text_pair") if key in example) for example in examples)
    members = [subsets_of(text) for text in texts]
    for name in (*SUBSETS, NONE):
        indices = [index for index, names in enumerate(members) if name in names]
        if indices:
            yield name, indices
