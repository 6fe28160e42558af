"""Which morphemes a token is a part of, and their tags.

A tokenizer over morphemes keeps only where they end, so for their tags the texts are analysed once more, unless the
tokenizer has a `TaggingSegmenter`. Tokens and morphemes meet at their characters in the text as given: 했, one token,
is the morphemes 하 and 었.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from kobert_pipeline.morphemes.morpheme import REPLACING, Segmentation
from kobert_pipeline.morphemes.normalization import nfc_with_offsets, replace_surrogates
from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.tokenizer.loading import is_morpheme_tokenizer

TAGGED = re.compile(r"(.+)/([A-Z][\w+-]*)")
"""The analyzers' style `tagged`: 하/XSV. What an analyzer skipped has no tag."""


class TaggingSegmenter:
    """The segmenter of a tokenizer that also keeps, for each text of the last call, its segmentation in the style
    `tagged` from the same analysis."""

    def __init__(self, segmenter: Any) -> None:
        self.segmenter, self.tagging = segmenter, replace(segmenter, style="tagged")
        self.tagged: dict[str, Segmentation] = {}

    def segment(self, texts: Iterable[str]) -> Iterator[Segmentation]:
        """The segmentations of `texts` in the tokenizer's own style."""
        texts, self.tagged = list(texts), {}
        for text, (segmentation, tagged) in zip(
            texts, self.tagging.segment_in((self.segmenter.style, "tagged"), texts), strict=True
        ):
            self.tagged[text] = tagged
            yield segmentation

    def segment_tagged(self, texts: Iterable[str]) -> Iterator[Segmentation]:
        """The segmentations of `texts` in the style `tagged`; only texts that are not known yet are analysed."""
        texts, known = list(texts), self.tagged
        new = self.tagging.segment([text for text in texts if text not in known])
        return (known[text] if text in known else next(new) for text in texts)


def with_tags(tokenizer: Any) -> Any:
    """A copy of `tokenizer` with a `TaggingSegmenter`; `tokenizer` itself where that would give nothing."""
    if not is_morpheme_tokenizer(tokenizer) or tokenizer.segmenter.style in REPLACING:
        return tokenizer
    try:
        segmenter = TaggingSegmenter(tokenizer.segmenter)
    except ValueError:
        return tokenizer  # its analyzer gives no tags
    tagging = copy(tokenizer)
    tagging.segmenter = segmenter
    return tagging


def morphemes_of_tokens(
    tokenizer: Any, texts: Sequence[str], ids: list[list[int]], offsets: list[list[tuple[int, int]]]
) -> dict[str, list[str | None]]:
    """The columns `morpheme` and `tag` of all tokens of all texts: the forms and tags of the morphemes that share a
    character with the token, joined by + (하+었 and XSV+EP), None for special tokens. {} where the tokenizer is not one
    over morphemes, or its analyzer gives no tags."""
    if not is_morpheme_tokenizer(tokenizer):
        return {}
    segmenter = tokenizer.segmenter
    if not isinstance(segmenter, TaggingSegmenter):
        try:
            segmenter = TaggingSegmenter(segmenter)
        except ValueError:
            return {}
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}  # [UNK] stands for a morpheme
    columns: dict[str, list[str | None]] = {"morpheme": [], "tag": []}
    for text, text_ids, spans in zip(tagged_morphemes(segmenter, texts), ids, offsets, strict=True):
        by_character: dict[int, list[TaggedMorpheme]] = {}
        for morpheme in text:
            for character in range(morpheme.start, morpheme.end):
                by_character.setdefault(character, []).append(morpheme)
        for id_, (start, end) in zip(text_ids, spans, strict=True):
            # a dict and not a set: in the order of the text, each morpheme once
            touched = {} if id_ in special else {m: None for c in range(start, end) for m in by_character.get(c, ())}
            columns["morpheme"].append("+".join(morpheme.form for morpheme in touched) or None)
            columns["tag"].append("+".join(morpheme.tag for morpheme in touched) or None)
    return columns


def tagged_morphemes(segmenter: TaggingSegmenter, texts: Sequence[str]) -> list[list[TaggedMorpheme]]:
    """The morphemes of each text that have a tag."""
    # exactly as `MorphemeTokenizer` normalizes: a `TaggingSegmenter` knows texts in that form, and would analyse any
    # other once more
    normalized = [nfc_with_offsets(replace_surrogates(text)) for text in texts]
    unique = list(dict.fromkeys(text for text, _, _ in normalized if text))
    segmentations = dict(zip(unique, segmenter.segment_tagged(unique), strict=True))
    return [
        [
            TaggedMorpheme(tagged[1], tagged[2], begins[start], ends[end - 1])
            for start, end, _, spelling in segmentations.get(text, ())
            if start < end and (tagged := TAGGED.fullmatch(spelling or ""))
        ]
        for text, begins, ends in normalized
    ]
