"""How words are cut into tokens, by one tokenizer or by several: frequent words in many tokens, numbers, and terms of
one's own."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kobert_pipeline.markdown import escaped, table
from kobert_pipeline.morphemes.runs import runs_of
from kobert_pipeline.tokenizer.special_tokens import UNK
from kobert_pipeline.tokenizer.tagged_morphemes import TaggingSegmenter, tagged_morphemes

Encode = Callable[[list[str]], Any]
"""Texts -> a `BatchEncoding` with `input_ids` and `offset_mapping`, without special tokens."""
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
"""Words, where there is no analyzer that knows their morphemes."""
CONTENT = re.compile("N|XR|XPN|XSN|SL|SH|VV|VA|MAG")
"""How tags of morphemes begin that say what a text is about: nouns, roots, affixes of nouns, foreign words, verbs,
adjectives, adverbs."""
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
WHITE_SPACE = re.compile(r"\s")
MANY, LISTED, NUMBERS = 3, 30, 10
"""The tokens of a word that is listed, and how many such words and how many numbers are."""
AROUND = 20
"""Characters on both sides of a word that are kept with it: what is beside it in its eojeol decides about its cut."""
LEGEND = (
    "Words are of the sample of the corpus, without particles and endings (with them where no analyzer knows these); a "
    "space ends a token. A word that is cut in several ways has its most frequent one here. Another tokenizer's tokens "
    f"are those at the first place with this cut, read with {AROUND} characters on both sides; terms are cut alone."
)
Place = tuple[str, int, int]
"""A text, and a word's characters `start` to `end` (exclusive) in it."""


class WordCuts:
    """Counts of the words and numbers of texts by how they are cut. With a segmenter that gives tags, words have no
    particles and endings, which would fill the list of those in many tokens."""

    def __init__(self, segmenter: TaggingSegmenter | None = None, terms: Sequence[str] = ()) -> None:
        self.segmenter = segmenter
        self.terms: dict[str, Counter[str]] = {term: Counter() for term in terms if term}
        self.words: dict[str, Counter[str]] = defaultdict(Counter)
        self.numbers: dict[str, Counter[str]] = defaultdict(Counter)
        self.places: dict[tuple[str, str], Place] = {}
        """Where each word was first cut in each way."""

    def add(self, texts: list[str], spans: Sequence[Sequence[tuple[int, int]]], unknown: list[list[bool]]) -> None:
        """Count the words of texts. `spans` are the places of the tokens of each, `unknown` says of each token whether
        it stands for something that the vocabulary lacks."""
        for text, words, of_text, lacking in zip(texts, self._words(texts), spans, unknown, strict=True):
            # neither starts nor ends of tokens ever decrease, so the tokens that touch a word are found by bisection
            starts, ends = [start for start, _ in of_text], [end for _, end in of_text]
            numbers = [match.span() for match in NUMBER.finditer(text)]
            for counted, places in ((self.words, words), (self.numbers, numbers)):
                for start, end in places:
                    first, last = bisect_right(ends, start), bisect_left(starts, end)
                    pieces = cut(text, (start, end), of_text[first:last], lacking[first:last])
                    counted[text[start:end]][pieces] += 1
                    left = max(0, start - AROUND)
                    with_neighbours = text[left : end + AROUND], start - left, end - left
                    self.places.setdefault((text[start:end], pieces), with_neighbours)
            for term, cuts in self.terms.items():
                for match in re.finditer(re.escape(term), text):
                    first, last = bisect_right(ends, match.start()), bisect_left(starts, match.end())
                    # a token with more than the term is not the term, and [UNK] stands for it without being it
                    is_one = of_text[first:last] == [match.span()] and not lacking[first]
                    cuts["one" if is_one else "several"] += 1

    def _words(self, texts: list[str]) -> list[list[tuple[int, int]]]:
        """The places of the words of each text."""
        if self.segmenter is None:
            return [[match.span() for match in WORD.finditer(text)] for text in texts]
        runs = (
            runs_of((morpheme.start, morpheme.end) for morpheme in morphemes if CONTENT.match(morpheme.tag))
            for morphemes in tagged_morphemes(self.segmenter, texts)
        )
        # Kiwi knows names with a space inside (알탄 칸), which no token can have
        return [
            [(start, end) for start, end in of_text if not WHITE_SPACE.search(text, start, end)]
            for text, of_text in zip(texts, runs, strict=True)
        ]


def frequent(cuts_of: dict[str, Counter[str]], tokens: int, limit: int) -> list[dict[str, Any]]:
    """The `limit` most frequent words whose usual cut has at least so many `tokens`, with their counts."""
    usual = {word: cuts.most_common(1)[0][0] for word, cuts in cuts_of.items()}
    counts = Counter({word: cuts_of[word].total() for word in usual if usual[word].count(" ") >= tokens - 1})
    return [{"word": word, "count": count, "cut": usual[word]} for word, count in counts.most_common(limit)]


def cut(text: str, place: tuple[int, int], spans: Iterable[tuple[int, int]], unknown: Iterable[bool]) -> str:
    """The part of a text at a place with a space between its tokens, [UNK] for an unknown one."""
    left, right = place
    pieces = [
        UNK if lacking else text[max(start, left) : min(end, right)]
        for (start, end), lacking in zip(spans, unknown, strict=True)
        if start < end
    ]
    return " ".join(piece for piece in pieces if piece)


def cuts_at(places: list[Place], encode: Encode, unk_id: int | None) -> list[str]:
    """How a tokenizer cuts the words at these places."""
    encoded = encode([text for text, _, _ in places]) if places else {"input_ids": [], "offset_mapping": []}
    cuts = []
    for (text, start, end), ids, spans in zip(places, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        inside = [(id_, span) for id_, span in zip(ids, spans, strict=True) if span[0] < end and span[1] > start]
        cuts.append(cut(text, (start, end), [span for _, span in inside], [id_ == unk_id for id_, _ in inside]))
    return cuts


def alone(words: Iterable[str]) -> list[Place]:
    """The places of words without texts around them."""
    return [(word, 0, len(word)) for word in words]


def figures_of(cuts: WordCuts, encode: Encode, unk_id: int, others: dict[str, Any]) -> dict[str, Any]:
    """The words, numbers and terms with their cuts; `others` are further tokenizers by name, which cut each at the same
    place."""
    terms = cuts_at(alone(cuts.terms), encode, unk_id)
    groups = {
        "words": frequent(cuts.words, MANY, LISTED),
        "numbers": frequent(cuts.numbers, 2, NUMBERS),
        "terms": [
            {"word": term, "count": counts.total(), "one_token": counts["one"], "cut": cut_alone}
            for (term, counts), cut_alone in zip(cuts.terms.items(), terms, strict=True)
        ],
    }
    for group, rows in groups.items():
        if group == "terms":  # a term need not be in the sample
            places = alone(row["word"] for row in rows)
        else:
            places = [cuts.places[row["word"], row["cut"]] for row in rows]
        for name, tokenizer in others.items():
            by_other = cuts_at(places, encode_by(tokenizer), tokenizer.unk_token_id)
            for row, cut_by_other in zip(rows, by_other, strict=True):
                row.setdefault("others", {})[name] = cut_by_other
    return groups


def encode_by(tokenizer: Any) -> Encode:
    """What encodes texts for a report."""
    return lambda texts: tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)


def markdown(figures: dict[str, Any]) -> list[str]:
    """The tables of a report."""
    titles = {
        "words": f"The most frequent words in {MANY} tokens or more",
        "numbers": "The most frequent numbers in several tokens",
        "terms": "Terms",
    }
    columns = {"count": "times in the sample", "one_token": "of these as one token"}
    lines = []
    for group, title in titles.items():
        if not (rows := figures[group]):
            continue
        others = list(rows[0].get("others", {}))
        counted = [name for name in columns if name in rows[0]]
        cells = [
            [escaped(row["word"]), *(f"{row[name]:,}" for name in counted), escaped(row["cut"]),
             *(escaped(row["others"][name]) for name in others)]
            for row in rows
        ]  # fmt: skip
        whole = sum(row["cut"] == row["word"] for row in rows)
        unseen = [row["word"] for row in rows if not row.get("count")]
        absent = f" Not in the sample: {escaped(', '.join(unseen))}." if unseen else ""
        summary = [f"{whole} of {len(rows)} are one token by themselves.{absent}", ""] if group == "terms" else []
        names = ["word", *(columns[name] for name in counted), "tokens", *map(escaped, others)]
        lines += ["", f"## {title}", "", *summary, table(names, cells)]
    return [*lines, "", LEGEND] if lines else []
