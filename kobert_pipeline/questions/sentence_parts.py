"""Sentences of texts that number their sentences: what Kiwi takes for one is split at the marks of lists and after
headings, which are left out."""

import re
from collections.abc import Iterator, Sequence

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import bracket_spans

LONGEST_HEADING = 20
"""Morphemes of a heading in brackets, such as 【이유】."""
MARK = re.compile(r"[①-⑳⑴-⒇㉠-㉻ⓐ-ⓩ❶-❿○●◎◇◆□■△▲▽▼▷▶▪•※☞oㅇ]|\d{1,2}\.|(첫|둘|셋|넷|다섯|여섯|일곱|여덟|아홉|열)째")
"""Marks before the items of a list that Kiwi does not tag as such (SB)."""


def parts_of(sentence: Sequence[TaggedMorpheme]) -> Iterator[list[TaggedMorpheme]]:
    """The sentences in what Kiwi takes for one: it is split where one ends outside of quotes, and at the marks of a
    list and headings in brackets, which are left out."""
    part: list[TaggedMorpheme] = []
    index, depth = 0, 0
    while index < len(sentence):
        tag = sentence[index].tag
        if after := after_mark(sentence, index, is_first=not part):
            is_end = True
        else:
            after = index + 1
            part.append(sentence[index])
            depth += (tag == "SSO") - (tag == "SSC")
            # below 0 where a closing mark lacks its opening one
            is_end = tag == "SF" and depth <= 0 and len(part) > 1 and part[-2].tag == "EF"
        if is_end and part:
            yield part
        if is_end:
            part, depth = [], 0
        index = after
    if part:
        yield part


def after_mark(sentence: Sequence[TaggedMorpheme], index: int, is_first: bool) -> int:
    """The index after the mark of a list, or the heading, at a morpheme; 0 where there is none."""
    form, tag, start, _ = sentence[index]
    following = sentence[index + 1 : index + 1 + LONGEST_HEADING]
    touches = index > 0 and start == sentence[index - 1].end
    if tag == "SB" or (not touches and tag in ("SW", "SN", "NR", "SL") and MARK.fullmatch(form)):
        has_comma = bool(following) and following[0].tag == "SP"
        return 0 if tag == "NR" and not has_comma else index + 1 + (tag == "NR")  # 첫째, but not 첫째 아들
    if form == "【" or (is_first and form in ("[", "〔")):
        closing = next((count for count, other in enumerate(following) if other.tag == "SSC"), None)
        return 0 if closing is None else index + closing + 2
    if not is_first or [morpheme.form for morpheme in sentence[index : index + 3 : 2]] != ["제", "조"]:
        return 0
    # 제7조 and 제7조의2, but not 제7조에 and 제7조 제1항
    after = index + 3
    if [morpheme.tag for morpheme in sentence[after : after + 2]] == ["JKG", "SN"]:
        after += 2
    return after if after < len(sentence) and not sentence[after].tag.startswith(("J", "X")) else 0


def in_brackets(sentence: Sequence[TaggedMorpheme]) -> set[int]:
    """The indices of the morphemes inside brackets, the brackets included."""
    return {index for first, after in bracket_spans(sentence) for index in range(first, after)}


def words_outside_brackets(sentence: Sequence[TaggedMorpheme]) -> list[TaggedMorpheme]:
    """The morphemes of a sentence that are in no brackets, without signs."""
    inside = in_brackets(sentence)
    return [morpheme for index, morpheme in enumerate(sentence) if index not in inside and not is_sign(morpheme.tag)]


def is_sign(tag: str) -> bool:
    """Whether a tag is of punctuation or another sign, but of no comma."""
    return tag in ("SF", "SS", "SSO", "SSC", "SE", "SO", "SW")
