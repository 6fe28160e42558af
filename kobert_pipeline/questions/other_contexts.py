"""Paragraphs that answer a question which was made from another paragraph.

A question repeats the words of the sentence that it is made from, so that a model which sees both learns to match
words. Shown with another paragraph, which has the answer and only some of the words, it must learn what the question
asks: in English that was worth nine points of F1 (Fabbri et al., "Template-Based Question Generation from Retrieved
Sentences", ACL 2020; Li et al., "Harvesting and Refining Question-Answer Pairs for Unsupervised QA", ACL 2020).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kobert_pipeline.questions.answer_candidates import TaggedMorpheme, candidates_in_sentence
from kobert_pipeline.questions.lexical_overlap import content_words

FEWEST_SHARED = 2
"""Words, besides the answer, that the sentence with the answer shares with the one that the question is made from."""
SMALLEST_SHARE, LARGEST_SHARE = 0.3, 0.95
"""The part of that sentence's words, each by how rare it is, that the other one has: with less it says something else,
with more it is a copy."""
MOST_MENTIONS = 1000
"""Sentences with an answer beyond which it is not looked for elsewhere: 한국 or 1995년 say too little."""


class Mention(NamedTuple):
    """A candidate for an answer at the character `start` of a paragraph, in one of its sentences; both by number."""

    paragraph: int
    sentence: int
    start: int


class OtherContexts:
    """The candidates for answers in a corpus, by their text, and the words of the sentences that they are in."""

    def __init__(self) -> None:
        self._paragraphs = list[str]()
        self._sentences = list[list[frozenset[str]]]()
        self._mentions: defaultdict[str, list[Mention]] = defaultdict(list)
        self._counts = Counter[str]()

    def add(self, paragraph: str, sentences: Sequence[Sequence[TaggedMorpheme]]) -> None:
        """Take in a paragraph with its sentences."""
        number, words = len(self._paragraphs), [content_words(sentence) for sentence in sentences]
        self._paragraphs.append(paragraph)
        self._sentences.append(words)
        self._counts.update(frozenset[str]().union(*words))
        for index, sentence in enumerate(sentences):
            for candidate in candidates_in_sentence(paragraph, sentence):
                text = paragraph[candidate.start : candidate.end]
                self._mentions[text].append(Mention(number, index, candidate.start))

    def find(self, answer: str, sentence: Sequence[TaggedMorpheme], paragraph: str) -> tuple[str, int] | None:
        """The paragraph, other than the one given, that says best what a sentence says about an answer, and where the
        answer starts in it; None where there is none."""
        mentions = self._mentions.get(answer, [])
        if len(mentions) > MOST_MENTIONS:
            return None
        asked = frozenset(word for word in content_words(sentence) if word not in answer)
        total = self._weight(asked)
        best, best_weight = None, (0.0, 0.0)
        for mention in mentions:
            sentences, other = self._sentences[mention.paragraph], self._paragraphs[mention.paragraph]
            shared = asked & sentences[mention.sentence]
            weight = self._weight(shared)
            is_fit = len(shared) >= FEWEST_SHARED and SMALLEST_SHARE * total <= weight < LARGEST_SHARE * total
            if not is_fit or other == paragraph:
                continue
            in_paragraph = self._weight(asked.intersection(frozenset[str]().union(*sentences)))
            if (weight, in_paragraph) > best_weight:
                best, best_weight = (other, mention.start), (weight, in_paragraph)
        return best

    def _weight(self, words: frozenset[str]) -> float:
        """How rare words are, added up: the logarithm of how many times fewer paragraphs than all have each."""
        # fsum: a set has no order
        return math.fsum(math.log(len(self._paragraphs) / self._counts[word]) for word in words if self._counts[word])
