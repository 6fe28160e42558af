"""Cut a text at an analyzer's borders so that no character is lost and no offset moves.

Everything here is a pure function of the text. The analysis stage, the shards and the published tokenizer all cut by this file,
which is why their ids agree on every document.
"""

import re
from collections.abc import Iterable, Iterator

from .morpheme import MAX_MORPHEME_CHARACTERS, Cut, Morpheme

MAX_UNIT_CHARACTERS = 2000
"""Most characters an analyzer gets at once: Kiwi has crashed natively on runs of 40,000 characters of one word."""

RUN = re.compile(r"\S+")
BLANK = re.compile(r"\s")

Token = tuple[int, int, int]
"""What an analyzer returns: start, end, sentence number, inside one unit. Tokens may overlap, be empty or leave gaps."""


def units(text: str) -> Iterator[tuple[int, int]]:
    """The spans handed to the analyzer one by one: lines, and of a very long line stretches that end at white space if they can."""
    start = 0
    for line in text.split("\n"):
        yield from _stretches(text, start, start + len(line))
        start += len(line) + 1


def _stretches(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_UNIT_CHARACTERS:
        limit = start + MAX_UNIT_CHARACTERS
        breaks = [match.end() for match in BLANK.finditer(text, start + MAX_UNIT_CHARACTERS // 2, limit)]
        stop = breaks[-1] if breaks else limit
        yield start, stop
        start = stop
    if not text[start:end].isspace() and start < end:
        yield start, end


def cut(text: str, spans: list[tuple[int, int]], tokens: Iterable[Iterable[Token]]) -> Cut:
    """Join the analyses of a text's `units` into one `Cut`. A unit begins a new sentence, whatever the analyzer numbered."""
    morphemes: Cut = []
    for (start, end), unit_tokens in zip(spans, tokens, strict=True):
        sentence = morphemes[-1].sentence + 1 if morphemes else 0
        morphemes += _cut_unit(text, start, end, unit_tokens, sentence)
    return morphemes


def _cut_unit(text: str, start: int, end: int, tokens: Iterable[Token], sentence: int) -> Iterator[Morpheme]:
    """What lies between two tokens (the analyzer skipped it) is kept, like the tokens themselves."""
    numbers: dict[int, int] = {}  # analyzers may skip sentence numbers; ours are dense
    reach, number = start, 0
    for left, right, number in _merged(start, end, tokens):
        if text[left:right].isspace():
            continue
        if left > reach:
            yield from _runs(text, reach, left, sentence + max(len(numbers) - 1, 0))
        yield from _runs(text, left, right, sentence + numbers.setdefault(number, len(numbers)))
        reach = right
    yield from _runs(text, reach, end, sentence + max(len(numbers) - 1, 0))


def _merged(start: int, end: int, tokens: Iterable[Token]) -> list[Token]:
    """Tokens in text coordinates; those that share a character (contracted morphemes: 하 + 었 in 했) become one."""
    spans: list[Token] = []
    for token_start, token_end, number in tokens:
        left, right = start + token_start, min(start + token_end, end)
        if right <= left:
            continue
        if spans and left < spans[-1][1]:
            # a token may even reach back over several (zero-width characters inside a word)
            while spans and left < spans[-1][1]:
                first, last, number = spans.pop()
                left, right = min(left, first), max(right, last)
        spans.append((left, right, number))
    return spans


def _runs(text: str, left: int, right: int, sentence: int) -> Iterator[Morpheme]:
    """The characters from `left` to `right` without white space, in stretches of at most `MAX_MORPHEME_CHARACTERS`."""
    for run in RUN.finditer(text, left, right):
        start, end = run.span()
        while end - start > MAX_MORPHEME_CHARACTERS:
            yield Morpheme(start, start + MAX_MORPHEME_CHARACTERS, sentence)
            start += MAX_MORPHEME_CHARACTERS
        yield Morpheme(start, end, sentence)
