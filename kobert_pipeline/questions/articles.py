"""Which texts are articles about one thing, as in an encyclopedia."""

import re
from collections.abc import Sequence
from itertools import pairwise

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import tagged_sentences
from kobert_pipeline.questions.clarity import PARTY, SPEAKERS, why_pointing
from kobert_pipeline.questions.sentence_parts import after_mark, words_outside_brackets

LEAD_CHARACTERS = 150
"""Characters at the beginning of a document in which its topic is looked for."""
NO_ARTICLE = re.compile(
    r"^\s*【|【\s*(주\s*문|이\s*유|판결요지|참조조문)|^\s*제\s*\d+\s*조(의\s*\d+)?\s*[(（]"
    r"|(청구|항소|상고|소)를 (모두 |각 )?(기각|각하)한다\.|소송비용은 ",
    re.M,
)
"""Headings of judgments and statutes, and what a judgment disposes where it has none. What it is about stands before
them, in sentences like an article's."""
LONGEST_SUBJECT = 25
"""Morphemes of what an article is about."""
TOPICS = ("은", "는", "란", "이란")
DEFINING = ("이", "말", "뜻", "의미", "일컫", "가리키", "있")
"""The copula, and the verbs that end the first sentence of an article."""
ROLES = ("로", "으로", "로서", "으로서", "로써", "으로써")


def lead_of(text: str) -> str:
    """The beginning of a document, by which `is_article` knows what it is; "" of judgments and statutes."""
    return "" if NO_ARTICLE.search(text) else text[:LEAD_CHARACTERS]


def is_article(lead: str) -> bool:
    """Whether the beginning of a text says in its first sentence, which may be cut off, what all of it is about, as in
    an encyclopedia: X는 … Y이다, or X는 Y로, …"""
    # a text that begins with a heading is none
    first_line, newline, _ = lead.lstrip().partition("\n")
    sentences = tagged_sentences(first_line)
    if not sentences or after_mark(sentences[0], 0, is_first=True) or any(map(_is_of_case_or_speech, sentences)):
        return False
    words = words_outside_brackets(sentences[0])
    # Kiwi takes the particle after some names for an ending; 있는 and 없는 are no particles
    topic = next(
        (
            index
            for index, word in enumerate(words)
            if word.form in TOPICS
            and (word.tag == "JX" or (word.tag == "ETM" and words[index - 1].form not in ("있", "없")))
        ),
        0,
    )
    is_name = sentences[0][0].tag == "SSO" or all(word.tag not in ("EC", "EF", "JKO") for word in words[:topic])
    # 이 법은, but what a longer name consists of may look like anything
    if not 0 < topic <= LONGEST_SUBJECT or not is_name or why_pointing(words[:3]):
        return False
    end = next((index for index in range(topic + 1, len(words)) if words[index].tag == "EF"), len(words))
    if end == len(words):
        is_noun = all(word.form != "제" and not word.tag.startswith(("V", "XSV", "JKS")) for word in words[:topic])
        return not newline and is_noun
    rest = [word for word in words[topic + 1 : end + 1] if word.tag not in ("EP", "XSV")]
    objects = [index for index, word in enumerate(rest) if word.tag == "JKO"] or [len(rest)]
    return any(
        (first.form in DEFINING and second.tag == "EF")
        or (first.tag == "VCP" and second.tag == "EC")
        or (first.form in ROLES and (second.tag == "SP" or (index < objects[0] and rest[index - 1].tag == "NNG")))
        for index, (first, second) in enumerate(pairwise(rest))
    )


def _is_of_case_or_speech(sentence: Sequence[TaggedMorpheme]) -> bool:
    """Whether a sentence is about the parties of a case or an article of a law, or said to somebody: by its pronouns
    or its polite ending."""
    return any(
        (tag == "NP" and form in SPEAKERS)
        or (tag == "EF" and form.endswith(("니다", "니까", "요", "죠")))
        or (tag.startswith("NN") and PARTY.fullmatch(form))
        or [morpheme.form for morpheme in sentence[index : index + 3 : 2]] == ["제", "조"]
        for index, (form, tag, *_) in enumerate(sentence)
    )
