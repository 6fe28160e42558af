"""Texts as people write them: which of a file hold emoji, laughter, slang or drawn-out syllables. No noise is added to
them."""

import re
from collections.abc import Iterator

from kobert_pipeline.features.task import Example
from kobert_pipeline.tokenizer.report import KINDS

SUBSETS = {
    "emoji": KINDS["emoji"],
    "emoticon": re.compile(
        r"\^[_.oㅁ]?\^|[-=>][_.]+[-=<]|[TㅜㅠㅡㅇO][_.][TㅜㅠㅡㅇO]|[:;]-?[)(DP]|(?<!ㅡ)ㅡ(?:;+|ㅡ)(?!ㅡ)"
    ),
    "laughter": re.compile("[ㅋㅎ]{2,}"),
    "tears": re.compile("[ㅠㅜ]{2,}"),
    "jamo-slang": re.compile("(?:(?![ㅋㅎ])[ㄱ-ㅎ]){2,}"),
    "elongation": re.compile(r"([가-힣])\1\1|[가-힣]~|~{2,}|[가-힣](?![ㅜㅠㅡ])[ㅏ-ㅣ]"),
    "latin": re.compile("[A-Za-z]{2,}"),
}
"""Emoji; faces of characters (^^, ㅡㅡ, T_T); ㅋㅋ and ㅎㅎ; ㅠㅠ; other rows of consonants (ㅇㅈ, ㄷㄷ); 아아아, 좋다~ and 와ㅏㅏ;
Latin words."""
NONE = "none of these"


def of(text: str) -> list[str]:
    """The subsets that `text` belongs to, or that it belongs to none."""
    return [name for name, pattern in SUBSETS.items() if pattern.search(text)] or [NONE]


def subsets(examples: list[Example]) -> Iterator[tuple[str, list[int]]]:
    """The numbers of the examples in each subset, by their texts; subsets without any are passed over."""
    members = [of("\n".join(example[key] for key in ("text", "text_pair") if key in example)) for example in examples]
    for name in (*SUBSETS, NONE):
        numbers = [number for number, found in enumerate(members) if name in found]
        if numbers:
            yield name, numbers
