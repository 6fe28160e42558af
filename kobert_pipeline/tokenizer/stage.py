"""Morphemes -> a subword vocabulary -> the tokenizer folder that `AutoTokenizer` loads, and a short report."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field
from tokenizers import Tokenizer, decoders, processors

from kobert_pipeline.analysis.analyzer import AnalyzedDocument, analysis_parts, read_analysis
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.options import Options
from kobert_pipeline.tokenizer.special_tokens import CLS, CLS_ID, SEP, SEP_ID, UNK_ID
from kobert_pipeline.tokenizer.subword import Lines, Subword, alphabet_of
from kobert_pipeline.tokenizer.subwords.wordpiece import WordPiece

VERSION = 1
REPORT_DOCUMENTS = 1000


class TokenizerOptions(Options):
    """The vocabulary."""

    subword: Subword = WordPiece()
    """The subword model."""
    limit_alphabet: int | None = Field(None, gt=0)
    """Characters that get a piece of their own; the rest is [UNK]. Default: all of them, up to a quarter of the vocabulary."""


def run(options: TokenizerOptions, analysis: Path, analyzer: str, out: Path) -> dict[str, Any]:
    """Train on the parts in `analysis` (made by `analyzer`) and save to `out`. Raises UserError when the text is too small."""
    lines: Lines = lambda: corpus_lines(analysis)  # noqa: E731
    alphabet, backend = train(options, lines, options.subword.vocab_size)
    if (supported := backend.get_vocab_size()) < options.subword.vocab_size:
        # a smaller vocabulary gives fewer characters a piece, which may leave fewer pieces still
        while (found := train(options, lines, supported)[1].get_vocab_size()) < supported:
            supported = found
        raise UserError(
            f"tokenizer.subword.vocab_size is {options.subword.vocab_size}, but this corpus supports {supported} pieces; "
            f"lower vocab_size to that or add text"
        )
    save(backend, analyzer, out)
    return {"vocab_size": backend.get_vocab_size(), "alphabet": len(alphabet), **report(backend, analysis)}


def train(options: TokenizerOptions, lines: Lines, vocab_size: int) -> tuple[list[str], Tokenizer]:
    """The alphabet, and a backend with at most `vocab_size` pieces."""
    alphabet = alphabet_of(lines(), options.limit_alphabet or vocab_size // 4)
    return alphabet, options.subword.model_copy(update={"vocab_size": vocab_size}).train(lines, alphabet)


def corpus_lines(analysis: Path) -> Iterator[str]:
    """What the trainers read: a document a line, marked morphemes separated by spaces."""
    for document in documents(analysis):
        yield " ".join(document.pieces())


def documents(analysis: Path) -> Iterator[AnalyzedDocument]:
    """The documents of all parts, in order."""
    for part in analysis_parts(analysis):
        yield from read_analysis(part)


def save(backend: Tokenizer, analyzer: str, out: Path) -> None:
    """Dress the backend for BERT's input and save it as a `MorphemeTokenizer`."""
    # imported here: transformers takes half a second, and `kobert check` reads only this file's options
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    backend.no_padding()
    backend.pre_tokenizer = None
    backend.decoder = decoders.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    backend.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1", special_tokens=[(CLS, CLS_ID), (SEP, SEP_ID)]
    )
    MorphemeTokenizer(tokenizer_object=backend, analyzer=analyzer).save_pretrained(out)
    vocabulary = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    (out / "vocabulary.txt").write_text("".join(f"{piece}\n" for piece, _ in vocabulary), encoding="utf-8")


def report(backend: Tokenizer, analysis: Path) -> dict[str, float]:
    """Pieces per morpheme and eojeol and the unknown rate, on the first documents of the corpus."""
    pieces = morphemes = eojeols = unknown = 0
    for document in islice(documents(analysis), REPORT_DOCUMENTS):
        ids = backend.encode(document.pieces(), is_pretokenized=True, add_special_tokens=False).ids
        pieces, morphemes = pieces + len(ids), morphemes + len(document.cut)
        eojeols, unknown = eojeols + len(document.document.text.split()), unknown + ids.count(UNK_ID)
    return {
        "pieces_per_morpheme": round(pieces / max(morphemes, 1), 4),
        "pieces_per_eojeol": round(pieces / max(eojeols, 1), 4),
        "unknown_rate": round(unknown / max(pieces, 1), 6),
    }


def analyzer_of(folder: Path) -> str:
    """The analyzer that a saved tokenizer cuts with."""
    name: str = read_json(folder / "tokenizer_config.json")["analyzer"]
    return name
