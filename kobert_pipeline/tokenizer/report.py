"""What a vocabulary does to texts: tokens per eojeol, unknown rates, losses, how much of it is used, and the best EM it
allows."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from kobert_pipeline.corpus.readers.squad import paragraphs
from kobert_pipeline.errors import UserError
from kobert_pipeline.tokenizer.plain import by_eojeol
from kobert_pipeline.tokenizer.special_tokens import UNK_ID

Encode = Callable[[list[str]], Any]
"""Texts -> a `BatchEncoding` with `input_ids` and `offset_mapping`, without special tokens."""

KINDS = {
    "emoji": re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b50\u2b55]"),
    "slang": re.compile("[\u3131-\u3163]{2,}"),
    "hanja": re.compile("[\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]"),
    "old_hangul": re.compile(
        "[\u1113-\u115f\u1176-\u11a7\u11c3-\u11ff\ua960-\ua97c\ud7b0-\ud7fb\u3164-\u318e\u302e\u302f]"
    ),
}
"""What a Korean vocabulary is most likely to lack: emoji, runs of jamo (ㅋㅋ), Hanja, old Hangul and its tone marks."""

UNSEEN_MARKS = frozenset(string.punctuation + "《》〈〉‘’")
"""What EM does not see at the ends of an answer, besides white space, by KorQuAD's official definition (as in
`features.metrics`)."""

BATCH = 256
SAMPLES = 5
USE_POINTS = 12


@dataclass
class Tally:
    """Running counts over texts."""

    texts: int = 0
    characters: int = 0
    eojeols: int = 0
    morphemes: int = 0
    tokens: int = 0
    unknown: int = 0
    agreeing: int = 0
    of_kind: Counter[str] = field(default_factory=Counter)
    unknown_of_kind: Counter[str] = field(default_factory=Counter)
    lossy: list[str] = field(default_factory=list)
    used: Counter[int] = field(default_factory=Counter)

    def add(
        self, text: str, ids: list[int], spans: list[tuple[int, int]], morphemes: int, plain_ids: list[list[int]]
    ) -> None:
        """Count one text. `plain_ids` are the ids of each eojeol by the plain tokenizer."""
        own = by_eojeol(text, ids, spans)
        self.texts += 1
        self.characters += sum(not character.isspace() for character in text)
        self.eojeols += len(own)
        self.morphemes += morphemes
        self.tokens += len(ids)
        self.used.update(ids)
        self.agreeing += sum(one == two for one, two in zip(own, plain_ids, strict=True))
        if not covered(text, spans):
            self.lossy.append(text[:100])
        self.unknown += ids.count(UNK_ID)
        for kind, pattern in KINDS.items():
            places = {place for match in pattern.finditer(text) for place in range(*match.span())}
            over = [id_ for id_, span in zip(ids, spans, strict=True) if places and not places.isdisjoint(range(*span))]
            self.of_kind[kind] += len(over)
            self.unknown_of_kind[kind] += over.count(UNK_ID)

    def figures(self, vocab_size: int) -> dict[str, Any]:
        """Rates and shares."""
        counts = np.sort(np.array(list(self.used.values()), np.int64))[::-1]
        ranks = sorted({min(2**power, vocab_size) for power in range(6, 6 + USE_POINTS)})
        reach = np.cumsum(counts) / max(self.tokens, 1)
        return {
            "texts": self.texts,
            "characters": self.characters,
            "tokens_per_eojeol": round(self.tokens / max(self.eojeols, 1), 4),
            "tokens_per_morpheme": round(self.tokens / max(self.morphemes, 1), 4),
            "characters_per_token": round(self.characters / max(self.tokens, 1), 4),
            "unknown_rate": round(self.unknown / max(self.tokens, 1), 6),
            "unknown_rate_of": {
                kind: {
                    "tokens": self.of_kind[kind],
                    "rate": round(self.unknown_of_kind[kind] / max(self.of_kind[kind], 1), 6),
                }
                for kind in KINDS
            },
            "texts_with_loss": len(self.lossy),
            "loss_samples": self.lossy[:SAMPLES],
            "agreement_with_plain": round(self.agreeing / max(self.eojeols, 1), 4),
            "tokens_used": len(counts),
            "share_of_text_by_commonest": {
                str(rank): round(float(reach[min(rank, len(reach)) - 1]), 4) for rank in ranks if len(reach)
            },
        }


def covered(text: str, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether spans never run back, stay inside `text`, and reach every character that is not white space."""
    reach = left = 0
    for start, end in spans:
        if start < left or end < start or end > len(text) or text[reach:start].strip():
            return False
        left, reach = start, max(reach, end)
    return not text[reach:].strip()


def measure(texts: Iterable[str], encode: Encode, plain: Tokenizer, vocab_size: int) -> dict[str, Any]:
    """The figures of a tokenizer on `texts`. `plain` is its plain export."""
    tally = Tally()
    for batch in batches(texts):
        encoded = encode(batch)
        others = plain.encode_batch(batch, add_special_tokens=False)
        for row, (text, other) in enumerate(zip(batch, others, strict=True)):
            words = encoded.word_ids(row)
            ids, spans = encoded["input_ids"][row], encoded["offset_mapping"][row]
            tally.add(text, ids, spans, len(set(words)), by_eojeol(text, other.ids, other.offsets))
    return tally.figures(vocab_size)


def answered(path: Path) -> Iterator[dict[str, Any]]:
    """The paragraphs of a file in SQuAD form. Raises UserError for a question without the key `answers` (an empty list
    is one)."""
    for paragraph in paragraphs(path):
        for question in paragraph["qas"]:
            if "answers" not in question:
                raise UserError(
                    f"tokenizer.report.answers: {path}, question {question.get('id')} has no answers; name a file with "
                    "answers"
                )
        yield paragraph


def ceiling(paragraphs: Iterable[dict[str, Any]], encode: Encode) -> dict[str, Any]:
    """How many questions (SQuAD form) have an answer that tokens can spell: no model over this tokenizer can have a
    better EM. `answers_on_borders_percent` asks for both ends on token borders; `ceiling_exact_match` forgives white
    space and marks at the ends, as the metric does."""
    answers = exact = reachable = 0
    missed: list[str] = []
    rows = list(paragraphs)
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        spans = encode([paragraph["context"] for paragraph in batch])["offset_mapping"]
        for paragraph, found in zip(batch, spans, strict=True):
            text, begins, ends = paragraph["context"], {one for one, _ in found}, {two for _, two in found}
            for question in paragraph["qas"]:
                places = [
                    (answer["answer_start"], answer["answer_start"] + len(answer["text"]))
                    for answer in question["answers"]
                ]
                answers += bool(places)
                exact += any(left in begins and right in ends for left, right in places)
                if any(same_answer(text, left, begins) and same_answer(text, right, ends) for left, right in places):
                    reachable += 1
                elif places:
                    missed.append(around(text, *places[0]))
    return {
        "answers": answers,
        "answers_on_borders_percent": round(100 * exact / max(answers, 1), 3),
        "ceiling_exact_match": round(100 * reachable / max(answers, 1), 3),
        "missed": len(missed),
        "missed_samples": missed[:SAMPLES],
    }


def same_answer(text: str, place: int, borders: set[int]) -> bool:
    """Whether a border lies at `place`, or beyond nothing from it but what EM does not see."""
    left = right = place
    while left not in borders and left > 0 and unseen(text[left - 1]):
        left -= 1
    while right not in borders and right < len(text) and unseen(text[right]):
        right += 1
    return left in borders or right in borders


def unseen(character: str) -> bool:
    """Whether the metric drops `character` at the ends of an answer."""
    return character in UNSEEN_MARKS or character.isspace()


def around(text: str, left: int, right: int) -> str:
    """A span in brackets with some of the text on its sides."""
    return f"{text[max(left - 10, 0) : left]}[{text[left:right]}]{text[right : right + 10]}"


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of `BATCH` texts."""
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
