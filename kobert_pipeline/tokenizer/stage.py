"""Morphemes -> a subword vocabulary -> the tokenizer folder that `AutoTokenizer` loads, and a report on it."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from tokenizers import Tokenizer

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, read_analysis, read_texts
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import count_documents, document_parts
from kobert_pipeline.corpus.reader import Reader, refuse_skipping
from kobert_pipeline.download.sources import all_files
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes import tokenizer_files
from kobert_pipeline.progress import report as report_progress
from kobert_pipeline.progress import track
from kobert_pipeline.tables.data_files import data_file, data_files
from kobert_pipeline.tokenizer.growing import (
    ORIGINS_FILE,
    add_words,
    base_files,
    forms_of,
    grow_vocabulary,
    grown_alphabet,
    load_base,
    origins,
    refuse_unfit,
    tokens_by_id,
    vocabulary_forms,
)
from kobert_pipeline.tokenizer.loading import load_tokenizer
from kobert_pipeline.tokenizer.plain import PLAIN, PLAIN_FILES, add_template, folder_with_analyzer, save_plain
from kobert_pipeline.tokenizer.report import (
    ceiling,
    draw,
    evaluate_other,
    evaluate_texts,
    html,
    markdown,
    paragraphs_with_answers,
)
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID
from kobert_pipeline.tokenizer.subword import MIN_VOCAB_SIZE, Subword, alphabet_of
from kobert_pipeline.tokenizer.subwords.wordpiece import WordPiece
from kobert_pipeline.tokenizer.tagged_morphemes import TaggingSegmenter, with_tags
from kobert_pipeline.tokenizer.word_cuts import WordCuts, encode_by, figures_of

VERSION = 3
"""Version of the results; `version` computes that of a recipe."""
ANALYZER_FILE = "analyzer.json"
"""File in the analysis folder with the analyzer and its settings."""
WRITES = (
    *tokenizer_files(), *PLAIN_FILES, ORIGINS_FILE, "vocabulary.txt",
    "report.json",
    "report.md", "report.html", "vocabulary_use.png",
)  # fmt: skip
"""Patterns of every file that the stage writes to its folder."""

OTHER_FILES = ("morphemes.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model")
"""Files of another tokenizer that its tokens depend on."""
MOST_TERMS = 100
"""Words of a user dictionary that the report shows."""
REPORTED = (
    "tokens_per_morpheme", "tokens_per_eojeol", "unknown_rate", "texts_with_loss", "agreement_with_plain",
    "tokens_used",
)  # fmt: skip
"""Figures on the corpus that become counts of the stage."""


CORPUS = "corpus"
"""The name of the corpus among the sources of a report."""


class ReportOptions(Options):
    """The texts that the report covers."""

    documents: int = Field(1000, gt=0)
    """Number of documents of the corpus in the report, spread over its parts."""
    sources: dict[str, Reader] = {}
    """Further texts by name, such as a test set's."""
    answers: str | None = None
    """File in SQuAD format below data_dir, for the best exact match that the tokens allow."""
    # these two change nothing but the report, and no run from before they existed
    terms: list[str] = Field([], exclude_if=lambda value: not value)
    """Words of the domain, whose tokens the report shows; words of a user dictionary are shown anyway."""
    compare_with: str | None = Field(None, exclude_if=lambda value: value is None)
    """Another tokenizer whose tokens of the same words, and how many it needs, the report shows beside: a folder below
    data_dir or a bundled model's name; that of `base` is shown anyway."""

    @field_validator("sources")
    @classmethod
    def _whole(cls, sources: dict[str, Reader]) -> dict[str, Reader]:
        refuse_skipping(sources.values(), "what a report measures")
        if CORPUS in sources:
            raise ValueError(f"{CORPUS} is the name of the corpus itself; give this source another")
        return sources


class TokenizerOptions(Options):
    """How to train the vocabulary."""

    subword: Subword = WordPiece()
    """The subword model."""
    limit_alphabet: int | None = Field(None, gt=0)
    """Number of characters that get a token of their own, the commonest first; others are [UNK]. Default: all, up to a
    quarter of the vocabulary (half of a small one, up to 2,000); where `base` grows, of characters that it lacks only
    such as occur five times or more, up to a quarter of the new tokens."""
    # in the fingerprint only where it is set, so that runs from before it existed stay valid
    limit_characters: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Learn from about so many characters, from the beginning of each part of the corpus; null: from all of it."""
    user_words: bool = False
    """Makes every word of `analysis.analyzer.user_dictionary` a token, beyond the `vocab_size` tokens of the rest
    (WordPiece, styles surface and form only)."""
    base: str | None = None
    """Checkpoint (a folder that kobert published, or a name as for `checkpoint`) whose vocabulary is grown or swapped
    for this corpus."""
    # not in the fingerprint, because no token depends on it
    base_license: str | None = Field(None, exclude=True)
    """Licence of `base`, for the model card (default: what its own card states); with `keep: all` the published model
    redistributes its vocabulary."""
    keep: Literal["all", "nothing"] = "all"
    """With `base`: `all` of its tokens keep their ids and new ones are added up to vocab_size (WordPiece only), or
    `nothing` is kept and the vocabulary is trained from scratch. Either way `origins.json` lists the old tokens that
    spell each new one, so that its embedding can start as their mean."""
    report: ReportOptions = ReportOptions()
    """What the report covers."""

    @property
    def grows(self) -> bool:
        """Whether the vocabulary of `base` is kept, and grown."""
        return self.base is not None and self.keep == "all"

    @property
    def leaves_out_rare_characters(self) -> bool:
        """Whether of the characters that `base` lacks only the common ones become tokens."""
        return self.grows and self.limit_alphabet is None

    @model_validator(mode="after")
    def _takes_words(self) -> "TokenizerOptions":
        if self.user_words and not self.subword.grows:
            raise ValueError(f"user_words: a {self.subword.name} vocabulary takes no words of its own; use wordpiece")
        return self

    @model_validator(mode="after")
    def _grows(self) -> "TokenizerOptions":
        if self.grows and not self.subword.grows:
            raise ValueError(
                f"a {self.subword.name} vocabulary cannot grow: its tokens need merges or scores; set keep: nothing"
            )
        return self


def version(options: TokenizerOptions) -> int:
    """The version of what the stage makes with these options."""
    # what changed since version 3: words took the place of other tokens, and a base grew by all characters it lacks;
    # vocabularies without these are still the same
    return VERSION + options.user_words + 2 * options.leaves_out_rare_characters


def raw_files(options: TokenizerOptions, data_dir: Path) -> list[Path]:
    """The user's files that the stage reads."""
    base = base_files(data_dir / options.base) if options.base else []
    for folder in (options.base, options.report.compare_with):
        base += other_files(data_dir / folder) if folder else []
    answers = [options.report.answers] if options.report.answers else []
    readers = [reader.files for reader in options.report.sources.values()]
    return [*dict.fromkeys(base), *all_files([*readers, lambda folder: data_files(folder, answers)], data_dir)]


def other_files(folder: Path) -> list[Path]:
    """The files of a tokenizer that the report shows beside. Raises UserError where there is no such folder."""
    if not folder.is_dir():
        raise UserError(f"tokenizer.report.compare_with: {folder} is no folder; name one that holds a tokenizer")
    folders = tokenizer_folders(folder)
    return [
        path for tokenizer_folder in folders for path in sorted(tokenizer_folder.iterdir()) if path.name in OTHER_FILES
    ]


def tokenizer_folders(folder: Path) -> list[Path]:
    """The folders of a published model's tokenizers, which split texts differently: its own and, where that needs no
    analyzer, the one inside for an analyzer."""
    return list(dict.fromkeys([folder, folder_with_analyzer(folder)]))


def run(options: TokenizerOptions, analysis: Path, data_dir: Path, out: Path) -> dict[str, Any]:
    """Train on the parts in `analysis`, save to `out` and report; returns counts. Raises UserError for a corpus that
    is too small for the vocabulary."""
    analyzer = read_json(analysis / ANALYZER_FILE)
    # the questions of the report first, since training may take hours
    answers = options.report.answers
    paragraphs = paragraphs_with_answers(data_file(data_dir, answers)) if answers else None
    # a function, since it is read twice: for the alphabet and in training
    lines = partial(corpus_lines, analysis, limit=options.limit_characters)
    base = load_base(data_dir / options.base, analyzer) if options.base else None
    kept = base if options.grows else None
    if kept is not None:
        refuse_unfit(kept, options.subword.vocab_size)
    alphabet, backend = train(options, lines, kept)
    if kept is not None:
        backend = grow_vocabulary(kept, backend, options.subword.vocab_size)
    if (supported := backend.get_vocab_size()) < options.subword.vocab_size:
        new_characters = len(set(alphabet) - kept.get_vocab().keys()) if kept else 0
        raise UserError(
            f"tokenizer.subword.vocab_size is {options.subword.vocab_size}, but this corpus supports {supported} "
            f"tokens; {advice(options, supported, len(alphabet), new_characters)}"
        )
    if options.user_words:
        backend = add_words(backend, vocabulary_forms(analyzer))
    if base is not None:
        write_json(out / ORIGINS_FILE, origins(base, backend))
    save(backend, analyzer, out)
    return {
        "vocab_size": backend.get_vocab_size(),
        "alphabet": len(alphabet),
        **report(options.report, analysis, data_dir, out, other_tokenizers(options, data_dir), paragraphs),
    }


def other_tokenizers(options: TokenizerOptions, data_dir: Path) -> dict[str, Any]:
    """The tokenizers that the report shows beside, by name."""
    folders = [data_dir / other for other in (options.base, options.report.compare_with) if other]
    are_distinct = len({folder.name for folder in folders}) == len(folders)
    # runs/a/publish/mlm and runs/b/publish/mlm
    names = [folder.name if are_distinct else "/".join(folder.parts[-3:]) for folder in folders]
    return {
        "/".join([name, *tokenizer_folder.relative_to(folder).parts]): load_tokenizer(tokenizer_folder)
        for name, folder in zip(names, folders, strict=True)
        for tokenizer_folder in tokenizer_folders(folder)
    }


def train(
    options: TokenizerOptions, lines: Callable[[str], Iterator[str]], kept: Tokenizer | None = None
) -> tuple[list[str], Tokenizer]:
    """The alphabet, and a backend with at most `vocab_size` tokens; with `kept`, a vocabulary that grows by them, few
    of its characters are new. `lines` reads the corpus for an activity, which it reports. Raises UserError when special
    tokens and alphabet alone exceed that size."""
    size, characters = options.subword.vocab_size, lines("counting characters")
    if kept and options.leaves_out_rare_characters:
        alphabet = grown_alphabet(characters, kept, size)
    else:
        alphabet = alphabet_of(characters, options.limit_alphabet or max(size // 4, min(size // 2, 2000)))
    if len(alphabet) + len(SPECIAL_TOKENS) > size:
        raise UserError(
            f"tokenizer.subword.vocab_size is {size}, which has no room for {len(alphabet)} characters and "
            f"{len(SPECIAL_TOKENS)} special tokens; raise it, or lower tokenizer.limit_alphabet (now "
            f"{options.limit_alphabet})"
        )
    return alphabet, options.subword.train(partial(lines, "counting words"), alphabet, SPECIAL_TOKENS)


def advice(options: TokenizerOptions, supported: int, alphabet: int, new_characters: int) -> str:
    """What to do when the corpus supports only `supported` tokens with an alphabet of `alphabet` characters,
    `new_characters` of which a base lacks."""
    limit_alphabet = options.limit_alphabet
    if options.leaves_out_rare_characters:
        # of a smaller vocabulary fewer characters are a part, down to none
        return f"set tokenizer.subword.vocab_size={supported - new_characters} or less, or add text"
    if supported >= MIN_VOCAB_SIZE:
        # with the alphabet named too: its default depends on the size, so the smaller size alone would change it
        return f"set both tokenizer.subword.vocab_size={supported} and tokenizer.limit_alphabet={alphabet}, or add text"
    if limit_alphabet is None:
        return f"the smallest vocabulary has {MIN_VOCAB_SIZE}, so add text"
    return (
        f"the smallest vocabulary has {MIN_VOCAB_SIZE}, so raise tokenizer.limit_alphabet (now {limit_alphabet}), or "
        "add text"
    )


def corpus_lines(analysis: Path, activity: str = "reading", limit: int | None = None) -> Iterator[str]:
    """The input of the trainers: one document per line, its marked morphemes separated by spaces. `activity` says what
    they are read for; with a `limit` of characters they are those of each part's first documents."""
    document_count = None if limit else count_documents(document_parts(analysis))
    for document in track(documents(analysis, limit), activity, document_count, "documents"):
        yield " ".join(document.words())
    report_progress("computing the vocabulary")  # a trainer that has read everything does not say how far it is


def documents(analysis: Path, limit: int | None) -> Iterator[AnalyzedDocument]:
    """The documents of all parts, in order, or with a `limit` the first ones of each part, which have about so many
    characters in all."""
    parts = document_parts(analysis)
    for part in parts:
        characters = 0
        for document in read_analysis(part):
            if limit and characters * len(parts) >= limit:
                break
            characters += len(document.document.text)
            yield document


def save(backend: Tokenizer, analyzer: dict[str, Any], out: Path) -> None:
    """Save the backend as a `MorphemeTokenizer` with the settings `analyzer`, and in `plain/` as a tokenizer that needs
    no analyzer."""
    # not at the top: transformers takes half a second to import, and `kobert check` reads only this file's options
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    # the one of training split at white space; `MorphemeTokenizer` sets its own, which calls Python and is never saved
    backend.pre_tokenizer = None
    add_template(backend)
    MorphemeTokenizer(tokenizer_object=backend, **analyzer).save_pretrained(out)
    save_plain(backend, out / PLAIN)
    (out / "vocabulary.txt").write_text("".join(f"{token}\n" for token in tokens_by_id(backend)), encoding="utf-8")


def report(
    options: ReportOptions, analysis: Path, data_dir: Path, out: Path, others: dict[str, Any],
    paragraphs: list[dict[str, Any]] | None,
) -> dict[str, Any]:  # fmt: skip
    """Evaluate the saved tokenizer and write report.json, report.md, report.html and a plot, with other tokenizers by
    name beside, and how many answers of the `paragraphs` its tokens allow; returns the figures on the corpus."""
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    tokenizer = MorphemeTokenizer.from_pretrained(out)
    tagging = with_tags(tokenizer)
    encode = encode_by(tagging)
    plain = Tokenizer.from_file(str(out / PLAIN / "tokenizer.json"))
    dictionary = forms_of(read_json(analysis / ANALYZER_FILE))
    terms = list(dict.fromkeys([*options.terms, *dictionary[:MOST_TERMS]]))
    cuts = WordCuts(tagging.segmenter if isinstance(tagging.segmenter, TaggingSegmenter) else None, terms)
    texts: dict[str, tuple[Iterator[str], int | None]] = {CORPUS: sample(analysis, options.documents)}
    for name, reader in options.sources.items():
        texts[name] = (document.text for document in reader.read(data_dir)), None
    figures: dict[str, Any] = {"vocabulary": {"vocab_size": len(tokenizer), "style": tokenizer.segmenter.style}}
    figures["sources"] = {
        name: evaluate_texts(of_source, encode, plain, len(tokenizer), cuts if name == CORPUS else None, name, count)
        for name, (of_source, count) in texts.items()
    }
    if others:
        figures["others"] = {
            name: evaluate_beside(name, other, *sample(analysis, options.documents)) for name, other in others.items()
        }
    figures["cuts"] = figures_of(cuts, encode, UNK_ID, others)
    if paragraphs is not None:
        figures["answers"] = ceiling(paragraphs, encode)
    report_progress("writing the report")
    write_json(out / "report.json", figures)
    page = markdown(figures)
    (out / "report.md").write_text(page, encoding="utf-8")
    (out / "report.html").write_text(html(page), encoding="utf-8")
    draw(figures, out / "vocabulary_use.png")
    counts = {name: figures["sources"][CORPUS][name] for name in REPORTED}
    if paragraphs is not None:
        counts["ceiling_exact_match"] = figures["answers"]["ceiling_exact_match"]
    return counts


def evaluate_beside(name: str, other: Any, texts: Iterator[str], count: int) -> dict[str, Any]:
    """The figures of another tokenizer on `count` texts."""
    measured = track(texts, f"measuring {name}", count, "documents")
    return evaluate_other(measured, encode_by(other), other.unk_token_id)


def sample(analysis: Path, documents: int) -> tuple[Iterator[str], int]:
    """The texts of about `documents` documents, the same share of every part and evenly spread in it, and how many
    there are."""
    sizes = {part: count_documents([part]) for part in document_parts(analysis)}
    share = min(1, documents / max(1, sum(sizes.values())))
    # rounded up, so that a small part is not left out
    taken = {part: math.ceil(share * size) for part, size in sizes.items()}
    chosen = {part: {index * sizes[part] // count for index in range(count)} for part, count in taken.items()}
    texts = (text for part in sizes for index, text in enumerate(read_texts(part)) if index in chosen[part])
    return texts, sum(taken.values())
