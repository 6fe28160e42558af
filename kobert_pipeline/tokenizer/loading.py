"""Load the tokenizer of a folder: one of this package, or any fast tokenizer of `transformers`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

from tokenizers import AddedToken, Tokenizer, normalizers

from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE
from kobert_pipeline.tokenizer.special_tokens import OUR_IDS, SpecialIds

KNOWN_WORDS = "이 가"
"""Words that every Korean vocabulary has."""
TOKEN_TYPES = "token_type_ids"
"""The name of the input that tells the texts of a pair apart."""


def is_morpheme_tokenizer(tokenizer: Any) -> bool:
    """Whether a loaded tokenizer is one of this package."""
    # not isinstance: its class would import transformers, and a published copy of it is another class
    return hasattr(tokenizer, "segmenter")


def has_morphemes(analyzer: str, style: str) -> bool:
    """Whether the words of a tokenizer with these settings are morphemes. They are eojeols without an analyzer ("", a
    tokenizer of others), with the analyzer `whitespace`, and in the style `none`."""
    return analyzer not in ("", "whitespace") and style != "none"


def splits_into_morphemes(tokenizer: Any) -> bool:
    """Whether the words of a loaded tokenizer are morphemes."""
    return is_morpheme_tokenizer(tokenizer) and has_morphemes(tokenizer.segmenter.analyzer, tokenizer.segmenter.style)


def load_tokenizer(folder: Path, **settings: Any) -> Any:
    """The tokenizer in `folder`, with code of this package or of `transformers`, never with the folder's own.

    Raises UserError for a tokenizer that does not load, or does not know which characters its tokens are from (a "slow"
    one), which answers and entities need.
    """
    if (folder / VOCABULARY_FILE).is_file():
        from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

        return MorphemeTokenizer.from_pretrained(folder, trust_remote_code=False, **settings)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **settings)
    except Exception as error:  # transformers has no fast class for it, or its files are damaged
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"{folder} has a tokenizer that does not load as a fast one ({reason}); give a checkpoint with a "
            "tokenizer.json"
        ) from error
    if not tokenizer.is_fast:
        raise UserError(
            f"{folder} has a tokenizer without offsets ({type(tokenizer).__name__}), so answers and entities cannot be "
            "found in the text; give a checkpoint with a tokenizer.json"
        )
    compose_hangul(tokenizer.backend_tokenizer, tokenizer.unk_token_id)
    return tokenizer


def compose_hangul(backend: Tokenizer, unknown: int | None) -> None:
    """Let a tokenizer of others read texts in NFC where it knows composed Hangul alone: decomposed (NFD), as files of a
    Mac have it, it would be the `unknown` token, or many bytes that its model has hardly seen. Offsets stay those of
    the text as it is."""
    unknown = backend.token_to_id(getattr(backend.model, "unk_token", None) or "") if unknown is None else unknown
    composed, decomposed = (
        backend.encode(text, add_special_tokens=False).ids for text in (KNOWN_WORDS, normalize("NFD", KNOWN_WORDS))
    )
    if unknown not in composed and (unknown in decomposed or len(decomposed) > len(composed)):
        before = [backend.normalizer] if backend.normalizer else []
        backend.normalizer = normalizers.Sequence([normalizers.NFC(), *before])


def add_tokens(tokenizer: Any, tokens: Sequence[str]) -> Any:
    """The tokenizer, which from now on takes these for one token each, as it does special tokens."""
    # normalized=False: found in the text before a normalizer could change it, such as [SUBJ] to [subj]
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in tokens], special_tokens=True)
    return tokenizer


def token_types(tokenizer: Any, encoded: Any) -> list[list[int]]:
    """The token types of encoded texts, row by row, as `transformers` gives them to the model: zeros where they are no
    input that a tokenizer of others has for it, whatever its post-processor says."""
    rows: list[list[int]] = encoded[TOKEN_TYPES]
    # ours was published without that input only for models that have no use for it
    has_types = is_morpheme_tokenizer(tokenizer) or TOKEN_TYPES in tokenizer.model_input_names
    return rows if has_types else [[0] * len(row) for row in rows]


def special_ids(tokenizer: Any) -> SpecialIds:
    """The ids of the special tokens that pretraining adds. Raises UserError for a tokenizer that lacks one, such as the
    tokenizer of a model that was not trained with masks."""
    names = ("pad", "cls", "sep", "mask")
    ids = [getattr(tokenizer, f"{name}_token_id") for name in names]
    if lacking := [name for name, id_ in zip(names, ids, strict=True) if id_ is None]:
        raise UserError(
            f"checkpoint: its tokenizer has no token for {', '.join(lacking)}, which pretraining with masks needs; "
            "give a checkpoint such as a BERT"
        )
    pad, cls, sep, mask = ids
    return SpecialIds(pad, cls, sep, mask, tuple(sorted(set(tokenizer.all_special_ids))))


def backend_in(folder: Path) -> Tokenizer:
    """The backend of the tokenizer in a folder."""
    if (folder / VOCABULARY_FILE).is_file():  # read without transformers' class, which needs the analyzer
        return Tokenizer.from_file(str(folder / VOCABULARY_FILE))
    return load_tokenizer(folder).backend_tokenizer


def vocabulary_in(folder: Path) -> tuple[Tokenizer, SpecialIds]:
    """The backend of the tokenizer in a folder, and the ids of its special tokens, which a pretraining needs."""
    if (folder / VOCABULARY_FILE).is_file():
        return backend_in(folder), OUR_IDS
    loaded = load_tokenizer(folder)
    return loaded.backend_tokenizer, special_ids(loaded)
