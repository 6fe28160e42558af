"""A vocabulary for a domain, from one that a model already knows: grown (all old pieces keep their ids) or swapped
(trained anew).

Either way every new piece knows its `origins`, the old ids that spell it, so that its embedding can start as their mean
instead of at random (as in Gee et al. 2022, "Fast Vocabulary Transfer").
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.tokenizer.special_tokens import UNK_ID

ORIGINS_FILE = "origins.json"
"""For each id of the new vocabulary a list of old ids; empty where the old vocabulary could not spell the piece."""
VOCABULARY_FILE, CONFIG_FILE = "morphemes.json", "tokenizer_config.json"


def base_files(base: Path) -> list[Path]:
    """What of a published checkpoint (or a tokenizer's folder) a vocabulary is made from. Raises UserError where it is
    missing."""
    files = [base / VOCABULARY_FILE, base / CONFIG_FILE]
    for path in files:
        if not path.is_file():
            raise UserError(
                f"tokenizer.base: {path} does not exist; name a folder that `kobert` published, or a run's tokenizer "
                "folder"
            )
    return files


def load_base(base: Path, analyzer: dict[str, Any]) -> Tokenizer:
    """The backend of `base`. Raises UserError when it was made with another analyzer or style than the analysis: its
    pieces would not fit the morphemes."""
    vocabulary, config = base_files(base)
    settings = read_json(config)
    if not isinstance(settings, dict):
        raise UserError(
            f"tokenizer.base: {config} holds no settings of a tokenizer; name a folder that `kobert` published"
        )
    for key in ("analyzer", "style"):
        theirs = settings.get(key, "surface" if key == "style" else None)
        if theirs != analyzer[key]:
            raise UserError(
                f"tokenizer.base: {base} was made with {key} {theirs!r}, the analysis with {analyzer[key]!r}; make "
                "them the same"
            )
    try:
        return read_morpheme_backend(vocabulary)
    except ValueError as error:
        raise UserError(f"tokenizer.base: {error}") from None


def grown(base: Tokenizer, trained: Tokenizer, vocab_size: int) -> Tokenizer:
    """`base` with the special tokens and then the first pieces of `trained` that it lacks, up to `vocab_size`. Both are
    WordPiece: it needs nothing but the pieces. Raises UserError where there is no room for that."""
    if not isinstance(base.model, models.WordPiece):
        kind = type(base.model).__name__
        raise UserError(
            f"tokenizer.base: a {kind} vocabulary cannot grow, its pieces need merges or scores; say keep: nothing to "
            "swap it"
        )
    vocabulary = base.get_vocab()
    special = {
        token.content: token for one in (trained, base) for _, token in sorted(one.get_added_tokens_decoder().items())
    }
    if (needed := len(vocabulary.keys() | special)) > vocab_size:
        raise UserError(
            f"tokenizer.subword.vocab_size is {vocab_size}, but the {len(vocabulary)} pieces of tokenizer.base and the "
            "special tokens and "
            f"unused slots that it lacks are {needed}; raise it to {needed} or more, or say keep: nothing"
        )
    for piece, _ in sorted(trained.get_vocab().items(), key=lambda item: item[1]):
        if len(vocabulary) >= vocab_size:
            break
        vocabulary.setdefault(piece, len(vocabulary))
    made = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="", max_input_chars_per_word=200)
    )
    made.add_special_tokens(list(special.values()))
    return made


def origins(base: Tokenizer, made: Tokenizer) -> list[list[int]]:
    """For each id of `made`, the ids of `base` that spell its piece, unknown ones left out."""
    old = base.get_vocab()
    pieces = [piece for piece, _ in sorted(made.get_vocab().items(), key=lambda item: item[1])]
    return [[old[piece]] if piece in old else spelled(base, piece) for piece in pieces]


def spelled(base: Tokenizer, piece: str) -> list[int]:
    """The ids of `base` for the morpheme `piece`."""
    ids: Iterable[int] = base.encode([piece], is_pretokenized=True, add_special_tokens=False).ids
    return [id_ for id_ in ids if id_ != UNK_ID]
