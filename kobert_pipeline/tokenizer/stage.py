"""Morphemes -> a subword vocabulary -> the tokenizer folder that `AutoTokenizer` loads, and a short report."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from tokenizers import Tokenizer

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, analysis_parts, read_analysis
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.reader import Reader, refuse_skipping
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes import tokenizer_files
from kobert_pipeline.tokenizer.growing import ORIGINS_FILE, base_files, grown, load_base, origins
from kobert_pipeline.tokenizer.plain import frame, save_plain
from kobert_pipeline.tokenizer.report import answered, ceiling, measure
from kobert_pipeline.tokenizer.report_page import draw, markdown
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, unused_tokens
from kobert_pipeline.tokenizer.subword import MIN_VOCAB_SIZE, Lines, Subword, alphabet_of
from kobert_pipeline.tokenizer.subwords.wordpiece import WordPiece

VERSION = 3
ANALYZER_FILE = "analyzer.json"
"""In the analysis: what its cuts were made with."""
PLAIN = "plain"
"""Folder of the tokenizer that needs no analyzer."""
WRITES = (
    *tokenizer_files(), f"{PLAIN}/tokenizer.json", f"{PLAIN}/tokenizer_config.json", ORIGINS_FILE, "vocabulary.txt",
    "report.json",
    "report.md", "vocabulary_use.png",
)  # fmt: skip
"""Patterns of every file that the stage writes to its folder."""


class ReportOptions(Options):
    """What the report measures, besides the corpus itself."""

    documents: int = Field(1000, gt=0)
    """Documents of the corpus that are measured, spread over its parts."""
    sources: dict[str, Reader] = {}
    """Further texts by name, such as a test set's."""
    answers: str | None = None
    """File in SQuAD form below data_dir, for the best EM that the tokens allow."""

    @field_validator("sources")
    @classmethod
    def _whole(cls, sources: dict[str, Reader]) -> dict[str, Reader]:
        refuse_skipping(sources.values(), "what a report measures")
        return sources


class TokenizerOptions(Options):
    """The vocabulary."""

    subword: Subword = WordPiece()
    """The subword model."""
    limit_alphabet: int | None = Field(None, gt=0)
    """Characters that get a token of their own; the rest is [UNK]. Default: all of them, up to a quarter of the
    vocabulary (half of a small one, up to 2,000)."""
    unused: int = Field(0, ge=0)
    """Slots `[unused0]`, ... behind the special tokens, for tokens that a user names later."""
    base: str | None = None
    """Checkpoint (published folder, below data_dir) whose vocabulary is grown or swapped for this corpus."""
    base_license: str | None = Field(None, exclude=True)
    """Licence of `base`, which a published model's card names; with `keep: all` its vocabulary is passed on."""
    keep: Literal["all", "nothing"] = "all"
    """With `base`: `all` of its tokens keep their ids and new ones are added up to vocab_size (WordPiece), or `nothing`
    is kept and the vocabulary is trained anew. Either way `origins.json` says which old tokens spell a new one, for the
    embeddings to start from."""
    report: ReportOptions = ReportOptions()
    """What is measured."""

    @model_validator(mode="after")
    def _grows(self) -> "TokenizerOptions":
        if self.base and self.keep == "all" and not self.subword.grows:
            raise ValueError(
                f"a {self.subword.name} vocabulary cannot grow, its tokens need merges or scores; say keep: nothing"
            )
        return self


def raw_files(options: TokenizerOptions, data_dir: Path) -> list[Path]:
    """The user's files that the stage reads."""
    base = base_files(data_dir / options.base) if options.base else []
    answers = [data_dir / options.report.answers] if options.report.answers else []
    for path in answers:
        if not path.is_file():
            raise UserError(
                f"tokenizer.report.answers: {path} does not exist; check the path in the recipe and data_dir (now "
                f"{data_dir})"
            )
    return [*base, *(path for reader in options.report.sources.values() for path in reader.files(data_dir)), *answers]


def run(options: TokenizerOptions, analysis: Path, data_dir: Path, out: Path) -> dict[str, Any]:
    """Train on the parts in `analysis`, save to `out` and report. Raises UserError when the text is too small."""
    analyzer = read_json(analysis / ANALYZER_FILE)
    lines: Lines = lambda: corpus_lines(analysis)  # noqa: E731
    base = load_base(data_dir / options.base, analyzer) if options.base else None
    alphabet, backend = train(options, lines)
    if base is not None:
        backend = grown(base, backend, options.subword.vocab_size) if options.keep == "all" else backend
        write_json(out / ORIGINS_FILE, origins(base, backend))
    if (found := backend.get_vocab_size()) < options.subword.vocab_size:
        raise UserError(
            f"tokenizer.subword.vocab_size is {options.subword.vocab_size}, but this corpus supports {found} tokens; "
            + smaller(found, len(alphabet), options.limit_alphabet)
        )
    save(backend, analyzer, out)
    return {
        "vocab_size": backend.get_vocab_size(),
        "alphabet": len(alphabet),
        **report(options.report, analysis, data_dir, out),
    }


def train(options: TokenizerOptions, lines: Lines) -> tuple[list[str], Tokenizer]:
    """The alphabet, and a backend with at most `vocab_size` tokens. Raises UserError when the special tokens and the
    alphabet alone are more."""
    size = options.subword.vocab_size
    alphabet = alphabet_of(lines(), options.limit_alphabet or max(size // 4, min(size // 2, 2000)))
    special_tokens = SPECIAL_TOKENS + unused_tokens(options.unused)
    if len(alphabet) + len(special_tokens) > size:
        largest = (
            f"unused (now {options.unused})"
            if options.unused > len(alphabet)
            else f"limit_alphabet (now {len(alphabet)})"
        )
        raise UserError(
            f"tokenizer.subword.vocab_size is {size}, which has no room for {len(alphabet)} characters and "
            f"{len(special_tokens)} special "
            f"tokens and unused slots; raise it, or lower tokenizer.{largest}"
        )
    return alphabet, options.subword.train(lines, alphabet, special_tokens)


def smaller(found: int, alphabet: int, limit_alphabet: int | None) -> str:
    """What to do about a corpus that supports `found` tokens over `alphabet` characters, too few for the size asked
    for."""
    if found >= MIN_VOCAB_SIZE:
        return f"set it to {found} with tokenizer.limit_alphabet {alphabet}, or add text"
    more = (
        "add text" if limit_alphabet is None else f"raise tokenizer.limit_alphabet (now {limit_alphabet}), or add text"
    )
    return f"the smallest vocabulary has {MIN_VOCAB_SIZE}, so {more}"


def corpus_lines(analysis: Path) -> Iterator[str]:
    """What the trainers read: a document a line, marked morphemes separated by spaces."""
    for document in documents(analysis):
        yield " ".join(document.words())


def documents(analysis: Path) -> Iterator[AnalyzedDocument]:
    """The documents of all parts, in order."""
    for part in analysis_parts(analysis):
        yield from read_analysis(part)


def save(backend: Tokenizer, analyzer: dict[str, Any], out: Path) -> None:
    """Save the backend as a `MorphemeTokenizer` with the settings `analyzer`, and below `plain/` as one that needs no
    analyzer."""
    # imported here: transformers takes half a second, and `kobert check` reads only this file's options
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    backend.pre_tokenizer = None
    frame(backend)
    MorphemeTokenizer(tokenizer_object=backend, **analyzer).save_pretrained(out)
    save_plain(backend, out / PLAIN)
    vocabulary = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    (out / "vocabulary.txt").write_text("".join(f"{token}\n" for token, _ in vocabulary), encoding="utf-8")


def report(options: ReportOptions, analysis: Path, data_dir: Path, out: Path) -> dict[str, Any]:
    """Measure the saved tokenizer and write report.json, report.md and a picture; returns the figures on the corpus."""
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    tokenizer = MorphemeTokenizer.from_pretrained(out)
    encode = partial(tokenizer, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    without_analyzer = Tokenizer.from_file(str(out / PLAIN / "tokenizer.json"))
    texts = {"corpus": sample(analysis, options.documents)}
    texts |= {name: (document.text for document in reader.read(data_dir)) for name, reader in options.sources.items()}
    figures: dict[str, Any] = {"vocabulary": {"vocab_size": len(tokenizer), "style": tokenizer.cutter.style}}
    figures["sources"] = {
        name: measure(of_source, encode, without_analyzer, len(tokenizer)) for name, of_source in texts.items()
    }
    if options.answers:
        figures["answers"] = ceiling(answered(data_dir / options.answers), encode)
    write_json(out / "report.json", figures)
    (out / "report.md").write_text(markdown(figures), encoding="utf-8")
    draw(figures, out / "vocabulary_use.png")
    told = (
        "tokens_per_morpheme",
        "tokens_per_eojeol",
        "unknown_rate",
        "texts_with_loss",
        "agreement_with_plain",
        "tokens_used",
    )
    return {name: figures["sources"]["corpus"][name] for name in told} | (
        {"ceiling_exact_match": figures["answers"]["ceiling_exact_match"]} if options.answers else {}
    )


def sample(analysis: Path, documents: int) -> Iterator[str]:
    """The first documents of every part, about `documents` in all."""
    parts = analysis_parts(analysis)
    for part in parts:
        for row in islice(read_analysis(part), -(-documents // len(parts))):
            yield row.document.text
