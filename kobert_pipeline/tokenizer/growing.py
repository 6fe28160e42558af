"""A domain vocabulary derived from the vocabulary of an existing model.

It is either grown (all old tokens keep their ids) or swapped (trained from scratch). In both cases every new token has
`origins`, the old ids that spell it, so that its embedding can start as their mean instead of at random (as in Gee et
al. 2022, "Fast Vocabulary Transfer").
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.plain import folder_with_analyzer
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS, UNK_ID
from kobert_pipeline.tokenizer.subword import commonest, count_characters

ORIGINS_FILE = "origins.json"
"""A list of old ids for each id of the new vocabulary; empty where the old vocabulary could not spell the token."""
MIN_USES = 5
"""How often a character that the base lacks must occur to become a token. Its embedding starts at random, for it has no
parts, and learns little from fewer; and half of such characters, such as Hanja of an encyclopedia, occur once."""
MAX_CHARACTERS = 1 / 4
"""The share of the new tokens that may be single characters."""
VOCABULARY_FILE, CONFIG_FILE = "morphemes.json", "tokenizer_config.json"


def base_files(base: Path) -> list[Path]:
    """The files of a published checkpoint (or a tokenizer folder) that a new vocabulary depends on. Raises UserError
    for a missing one."""
    files = [folder_with_analyzer(base) / name for name in (VOCABULARY_FILE, CONFIG_FILE)]
    for path in files:
        if not path.is_file():
            raise UserError(
                f"tokenizer.base: {path} does not exist; name a folder that `kobert` published, or a run's tokenizer "
                "folder"
            )
    return files


def load_base(base: Path, analyzer: dict[str, Any]) -> Tokenizer:
    """The backend of `base`. Raises UserError when it was made with another analyzer or style than the analysis, whose
    morphemes its tokens would not fit."""
    vocabulary, config = base_files(base)
    settings = read_json(config)
    if not isinstance(settings, dict):
        raise UserError(
            f"tokenizer.base: {config} does not hold the settings of a tokenizer; name a folder that `kobert` published"
        )
    for key in ("analyzer", "style"):
        # a config without a style has the default of `MorphemeTokenizer`
        in_base = settings.get(key, "surface" if key == "style" else None)
        if in_base != analyzer[key]:
            raise UserError(
                f"tokenizer.base: {base} was made with {key} {in_base!r}, the analysis with {analyzer[key]!r}; make "
                "them the same"
            )
    try:
        return read_morpheme_backend(vocabulary)
    except ValueError as error:
        raise UserError(f"tokenizer.base: {error}") from None


def grown_alphabet(lines: Iterable[str], base: Tokenizer, vocab_size: int) -> list[str]:
    """The characters of `lines` that `base` has, and the commonest of the others (`MIN_USES`, `MAX_CHARACTERS`), in
    code point order."""
    counts, known = count_characters(lines), base.get_vocab()
    limit = int(MAX_CHARACTERS * (vocab_size - len(known)))
    new = [character for character in commonest(counts) if character not in known and counts[character] >= MIN_USES]
    return sorted([*(character for character in counts if character in known), *new[:limit]])


def refuse_unfit(base: Tokenizer, vocab_size: int) -> None:
    """Raise UserError where `base` is not WordPiece, or has no room in `vocab_size` beside the special tokens."""
    # WordPiece needs nothing but a list of tokens: it takes the longest match, without merges or scores
    if not isinstance(base.model, models.WordPiece):
        kind = type(base.model).__name__
        raise UserError(
            f"tokenizer.base: a {kind} vocabulary cannot grow, since its tokens need merges or scores; set keep: "
            "nothing to swap it"
        )
    vocabulary = base.get_vocab()
    if (needed := len(vocabulary.keys() | SPECIAL_TOKENS)) > vocab_size:
        raise UserError(
            f"tokenizer.subword.vocab_size is {vocab_size}, but the {len(vocabulary)} tokens of tokenizer.base and the "
            f"special tokens that it lacks are {needed}; raise it to {needed} or more, or set keep: nothing"
        )


def grow_vocabulary(base: Tokenizer, trained: Tokenizer, vocab_size: int) -> Tokenizer:
    """`base` with the special tokens and then the first tokens of `trained` that it lacks, those with digits last, up
    to `vocab_size`."""
    vocabulary = base.get_vocab()
    # by content, the base's tokens last: a token that both have keeps the form of the base
    special = {
        token.content: token
        for backend in (trained, base)
        for _, token in sorted(backend.get_added_tokens_decoder().items())
    }
    # ids are in the order of training: the alphabet first, then the pieces of the most frequent pairs. Tokens with
    # digits come last: the numbers of a small corpus are many and rare, and their pieces (10-2) cut others
    # a stable sort: in both groups the tokens stay in the order of training
    for token in sorted(tokens_by_id(trained), key=has_digits):
        if len(vocabulary) >= vocab_size:
            break
        vocabulary.setdefault(token, len(vocabulary))
    return _word_piece(vocabulary, list(special.values()))


def has_digits(token: str) -> bool:
    """Whether a token of more than one character has digits."""
    return len(token.removeprefix(WORD_MARK)) > 1 and any(map(str.isdigit, token))


def vocabulary_forms(analyzer: dict[str, Any]) -> list[str]:
    """How the words of the analysis' user dictionary are spelled in the vocabulary: at the start of an eojeol, and
    inside one."""
    return [mark + form for form in forms_of(analyzer) for mark in (WORD_MARK, "")]


def forms_of(analyzer: dict[str, Any]) -> list[str]:
    """The words of the analysis' user dictionary, without the compounds with spaces that came with them."""
    return [form for form, *_ in analyzer.get("user_words", []) if " " not in form]


def add_words(backend: Tokenizer, words: list[str]) -> Tokenizer:
    """`backend`, a WordPiece vocabulary, with the words that it lacks as further tokens after all others."""
    vocabulary = backend.get_vocab()
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    return _word_piece(vocabulary, list(backend.get_added_tokens_decoder().values()))


def _word_piece(vocabulary: dict[str, int], special: list[AddedToken]) -> Tokenizer:
    # the settings of subwords/wordpiece.py: with others the same tokens would cut words in another way
    backend = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="", max_input_chars_per_word=200)
    )
    backend.add_special_tokens(special)
    return backend


def origins(base: Tokenizer, grown: Tokenizer) -> list[list[int]]:
    """The ids of `base` that spell the token of each id of `grown`, unknown ones left out."""
    old = base.get_vocab()
    return [[old[token]] if token in old else ids_in(base, token) for token in tokens_by_id(grown)]


def tokens_by_id(backend: Tokenizer) -> list[str]:
    """All tokens, special ones included, in the order of their ids."""
    # sorted, since `get_vocab` gives the order of a hash map in Rust, another one in every process
    return [token for token, _ in sorted(backend.get_vocab().items(), key=lambda item: item[1])]


def ids_in(base: Tokenizer, token: str) -> list[int]:
    """The ids of `base` for `token`, encoded as a morpheme."""
    ids: Iterable[int] = base.encode([token], is_pretokenized=True, add_special_tokens=False).ids
    return [id_ for id_ in ids if id_ != UNK_ID]
