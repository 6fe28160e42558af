"""What a vocabulary does to texts: tokens per eojeol, unknown rates, lost characters, how much of it is used, and the
best exact match (EM) it allows in extractive question answering."""

import re
import string
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.markdown import escaped, table
from kobert_pipeline.morphemes.normalization import remove_invisible
from kobert_pipeline.morphemes.segmenter import batches_of
from kobert_pipeline.progress import report
from kobert_pipeline.tables.answers import answer_pairs, located
from kobert_pipeline.tables.squad import paragraphs
from kobert_pipeline.tables.unreadable import readable
from kobert_pipeline.tokenizer.plain import ids_by_eojeol
from kobert_pipeline.tokenizer.special_tokens import UNK_ID
from kobert_pipeline.tokenizer.unknown import rate
from kobert_pipeline.tokenizer.word_cuts import Encode, WordCuts
from kobert_pipeline.tokenizer.word_cuts import markdown as cuts_markdown

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
"""What EM ignores at the ends of an answer, besides white space, by KorQuAD's official definition. The same characters
as in `features.metrics`, which this room may not import."""

HEAD = """<meta charset="utf-8"><title>Tokenizer report</title><style>
body { font-family: sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; line-height: 1.5 }
table { border-collapse: collapse; font-size: 0.9em } th, td { border: 1px solid #bbb; padding: 0.2em 0.6em }
</style>"""
"""The head of the report as a page."""
CHARACTERS_AT_ONCE = 20_000
"""Characters of texts that are encoded together, and after which progress is shown."""
BATCH = 32
"""Contexts of answers that are encoded together."""
SAMPLES = 5
USE_POINTS = 12

COLUMNS = {
    "tokens / eojeol": "tokens_per_eojeol", "tokens / morpheme": "tokens_per_morpheme",
    "characters / token": "characters_per_token",
    "unknown tokens": "unknown_rate", "texts that lose characters": "texts_with_loss",
    "eojeols with the same tokens in `plain/`": "agreement_with_plain",
}  # fmt: skip
LEGEND = (
    "An eojeol is a word between spaces. An unknown token ([UNK]) stands for characters that the vocabulary lacks; a "
    "text loses a character where no token stands for it. `plain/` is the tokenizer that needs no morphological "
    "analyzer. Unknown tokens and eojeols are shares, from 0 to 1."
)


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
        """Count one text. `plain_ids` are the ids of each eojeol by the tokenizer in `plain/`."""
        own_ids = ids_by_eojeol(text, ids, spans)
        self.texts += 1
        self.characters += sum(not character.isspace() for character in text)
        self.eojeols += len(own_ids)
        self.morphemes += morphemes
        self.tokens += len(ids)
        self.used.update(ids)
        self.agreeing += sum(eojeol_ids == plain for eojeol_ids, plain in zip(own_ids, plain_ids, strict=True))
        if not covered(text, spans):
            self.lossy.append(text[:100])
        self.unknown += ids.count(UNK_ID)
        for kind, pattern in KINDS.items():
            inside = {position for match in pattern.finditer(text) for position in range(*match.span())}
            over = [id_ for id_, span in zip(ids, spans, strict=True) if inside and not inside.isdisjoint(range(*span))]
            self.of_kind[kind] += len(over)
            self.unknown_of_kind[kind] += over.count(UNK_ID)

    def figures(self, vocab_size: int) -> dict[str, Any]:
        """The counts, rates and samples that the report shows, by name."""
        # (used tokens,) counts, the largest first; the share is given at 64, 128, ... tokens for a logarithmic axis
        counts = np.sort(np.array(list(self.used.values()), np.int64))[::-1]
        ranks = sorted({min(2**power, vocab_size) for power in range(6, 6 + USE_POINTS)})
        share = np.cumsum(counts) / max(self.tokens, 1)
        unknown_rates = {kind: rate(self.unknown_of_kind[kind], self.of_kind[kind]) for kind in KINDS}
        return {
            "texts": self.texts,
            "characters": self.characters,
            "tokens_per_eojeol": rate(self.tokens, self.eojeols, 4),
            "tokens_per_morpheme": rate(self.tokens, self.morphemes, 4),
            "characters_per_token": rate(self.characters, self.tokens, 4),
            "unknown_rate": rate(self.unknown, self.tokens),
            "unknown_rate_of": {kind: {"tokens": self.of_kind[kind], "rate": unknown_rates[kind]} for kind in KINDS},
            "texts_with_loss": len(self.lossy),
            "loss_samples": self.lossy[:SAMPLES],
            "agreement_with_plain": rate(self.agreeing, self.eojeols, 4),
            "tokens_used": len(counts),
            "share_of_text_by_commonest": {
                str(rank): round(float(share[min(rank, len(share)) - 1]), 4) for rank in ranks if len(share)
            },
        }


def covered(text: str, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether spans never run backwards, stay inside `text`, and reach every character that can be seen."""
    reach = left = 0
    for start, end in spans:
        if start < left or end < start or end > len(text) or remove_invisible(text[reach:start]).strip():
            return False
        left, reach = start, max(reach, end)
    return not remove_invisible(text[reach:]).strip()


def evaluate_texts(
    texts: Iterable[str],
    encode: Encode,
    plain: Tokenizer,
    vocab_size: int,
    cuts: WordCuts | None = None,
    name: str = "texts",
    count: int | None = None,
) -> dict[str, Any]:
    """The figures of a tokenizer on `texts`, which progress calls `name` and of which there are `count`. `plain` is its
    export without an analyzer; `cuts` counts the words."""
    tally, done = Tally(), 0
    report(f"measuring {name}", 0, count, "documents")
    for batch in batches_of(texts, CHARACTERS_AT_ONCE):
        encoded = encode(batch)
        plain_encodings = plain.encode_batch(batch, add_special_tokens=False)
        for row, (text, other) in enumerate(zip(batch, plain_encodings, strict=True)):
            ids, spans = encoded["input_ids"][row], encoded["offset_mapping"][row]
            morphemes = len(set(encoded.word_ids(row)))  # the backend gets one word per morpheme
            tally.add(text, ids, spans, morphemes, ids_by_eojeol(text, other.ids, other.offsets))
        if cuts is not None:
            unknown = [[id_ == UNK_ID for id_ in ids] for ids in encoded["input_ids"]]
            cuts.add(batch, encoded["offset_mapping"], unknown)
        done += len(batch)
        report(f"measuring {name}", done, count, "documents")
    return tally.figures(vocab_size)


def evaluate_other(texts: Iterable[str], encode: Encode, unk_id: int | None) -> dict[str, Any]:
    """The figures of another tokenizer on texts that do not depend on an analyzer."""
    count = characters = eojeols = tokens = unknown = 0
    for batch in batches_of(texts, CHARACTERS_AT_ONCE):
        ids_of = encode(batch)["input_ids"]
        count += len(batch)
        eojeols += sum(len(text.split()) for text in batch)
        characters += sum(len(eojeol) for text in batch for eojeol in text.split())
        tokens += sum(map(len, ids_of))
        unknown += sum(ids.count(unk_id) for ids in ids_of)
    return {
        "texts": count,
        "tokens_per_eojeol": rate(tokens, eojeols, 4),
        "characters_per_token": rate(characters, tokens, 4),
        "unknown_rate": rate(unknown, tokens),
    }


def paragraphs_with_answers(path: Path) -> list[dict[str, Any]]:
    """The paragraphs of a file in SQuAD format, with the `text` and `answer_start` of every answer. Raises UserError
    for a question without the key `answers`, and for an answer that its context does not have at its start; an empty
    list, which marks an unanswerable question, is allowed."""
    return [
        paragraph | {"qas": [_with_answers(path, question, paragraph["context"]) for question in paragraph["qas"]]}
        for paragraph in readable(paragraphs(path))
    ]


def _with_answers(path: Path, question: Any, context: str) -> dict[str, Any]:
    """A question with the `text` and `answer_start` of each of its answers."""
    try:
        answers = located(answer_pairs(question["answers"]), context)
    except (KeyError, TypeError):
        problem = "has no answers (text, answer_start)"
    except UserError as error:
        problem = f"cannot be read: {error}"
    else:
        return {"answers": [{"text": text, "answer_start": start} for text, start in answers]}
    name = question.get("id") if isinstance(question, dict) else repr(question)[:40]
    raise UserError(f"tokenizer.report.answers: {path}, question {name} {problem}; name a file with answers")


def ceiling(paragraphs: Iterable[dict[str, Any]], encode: Encode) -> dict[str, Any]:
    """The share of answers (SQuAD format) that whole tokens can spell: no model over this tokenizer has a better EM.

    `answers_on_borders_percent` requires both ends on token boundaries; `ceiling_exact_match` ignores white space and
    punctuation at the ends, as the metric does.
    """
    answers = exact = reachable = 0
    missed: list[str] = []
    rows = list(paragraphs)
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        offsets = encode([paragraph["context"] for paragraph in batch])["offset_mapping"]
        for paragraph, spans in zip(batch, offsets, strict=True):
            text, starts, ends = paragraph["context"], {start for start, _ in spans}, {end for _, end in spans}
            for question in paragraph["qas"]:
                places = [
                    (answer["answer_start"], answer["answer_start"] + len(answer["text"]))
                    for answer in question["answers"]
                ]
                answers += bool(places)
                exact += any(left in starts and right in ends for left, right in places)
                if any(same_answer(text, left, starts) and same_answer(text, right, ends) for left, right in places):
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


def same_answer(text: str, position: int, boundaries: set[int]) -> bool:
    """Whether a token boundary is at `position`, or separated from it only by characters that EM ignores."""
    left = right = position
    while left not in boundaries and left > 0 and unseen(text[left - 1]):
        left -= 1
    while right not in boundaries and right < len(text) and unseen(text[right]):
        right += 1
    return left in boundaries or right in boundaries


def unseen(character: str) -> bool:
    """Whether EM ignores `character` at the ends of an answer."""
    return character in UNSEEN_MARKS or character.isspace()


def around(text: str, left: int, right: int) -> str:
    """A span in brackets, with ten characters of context on either side."""
    return f"{text[max(left - 10, 0) : left]}[{text[left:right]}]{text[right : right + 10]}"


def markdown(figures: dict[str, Any]) -> str:
    """The report as a Markdown page. `figures` has `vocabulary`, `sources` (name -> result of `evaluate_texts`) and
    optionally `others` (name -> result of `evaluate_other`), `answers` (result of `ceiling`) and `cuts` (of
    `word_cuts.figures_of`)."""
    lines = ["# Tokenizer report", "", *(f"- {name}: {value}" for name, value in figures["vocabulary"].items()), ""]
    header = ["source", "texts", *COLUMNS, *(f"unknown in {kind.replace('_', ' ')}" for kind in KINDS)]
    rows = []
    for name, source in figures["sources"].items():
        rates = [source["unknown_rate_of"][kind] for kind in KINDS]
        kinds = [f"{rate['rate']:.4%} of {rate['tokens']:,}" for rate in rates]
        rows.append([escaped(name), f"{source['texts']:,}", *(str(source[key]) for key in COLUMNS.values()), *kinds])
    for name, other in figures.get("others", {}).items():
        cells = [str(other.get(key, "")) for key in COLUMNS.values()]
        rows.append([f"corpus, by {escaped(name)}", f"{other['texts']:,}", *cells, *([""] * len(KINDS))])
    lines += [table(header, rows), "", LEGEND]
    if "answers" in figures:
        answers = figures["answers"]
        lines += [
            "",
            f"Best EM these tokens allow: **{answers['ceiling_exact_match']} %** of {answers['answers']:,} answers "
            f"({answers['answers_on_borders_percent']} % without forgiving white space and punctuation at the ends).",
        ]
        if answers["missed_samples"]:
            samples = (" ".join(sample.split()) for sample in answers["missed_samples"])
            lines.append(f"Out of reach, for example: {'; '.join(samples)}")
    if "cuts" in figures:
        lines += cuts_markdown(figures["cuts"])
    return "\n".join([*lines, "", "![Share of the text that the commonest tokens spell](vocabulary_use.png)", ""])


def html(report: str) -> str:
    """The report, given as Markdown, as a page."""
    from markdown_it import MarkdownIt

    # without HTML, since samples of texts may have some
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(report)
    return f"<!doctype html>\n<html>\n<head>{HEAD}</head>\n<body>\n{body}</body>\n</html>\n"


def draw(figures: dict[str, Any], path: Any) -> None:
    """Plot the use of the vocabulary to a PNG: number of commonest tokens against the share of the text they make."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, source in figures["sources"].items():
        points = source["share_of_text_by_commonest"]
        axes.plot([int(rank) for rank in points], list(points.values()), marker="o", label=name)
    axes.set(
        xscale="log",
        xlabel="commonest tokens",
        ylabel="share of the text",
        ylim=(0, 1.02),
        title="Use of the vocabulary",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    # without the library's version in the file, the same figures give the same bytes
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})
