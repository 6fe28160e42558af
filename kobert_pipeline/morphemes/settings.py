"""The settings and the vocabulary of a saved tokenizer: what is written beside them, and what is refused when they are
read."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from .raw_text_backend import read_morpheme_backend

VOCABULARY_FILE = "morphemes.json"
NEEDS_TRUST = (
    "This tokenizer is code in its folder: load it with AutoTokenizer.from_pretrained(folder, trust_remote_code=True)"
)
GUARD = {NEEDS_TRUST: {"content": "[UNK]"}}
"""Saved as `added_tokens_decoder`, which this class does not read. All classes of `transformers` do, with numbers for
keys, before anything of their own: without the flag they raise "invalid literal for int() with base 10: " and this
sentence, and none comes up with a vocabulary that would spell every text [UNK]."""
OF_ONE_LOADING = ("is_local", "local_files_only")
"""What `transformers` saves of how a tokenizer was loaded."""

KINDS: dict[str, tuple[type, ...]] = {
    "analyzer": (str,), "analyzer_version": (str, type(None)), "style": (str,), "user_words": (list,),
    "model_max_length": (int, float),
    "model_input_names": (list,), "extra_special_tokens": (list, dict), "clean_up_tokenization_spaces": (bool,),
    "split_special_tokens": (bool,), "chat_template": (str, list, dict, type(None)), "pad_token": (str, dict),
    "unk_token": (str, dict),
    "cls_token": (str, dict), "sep_token": (str, dict), "mask_token": (str, dict),
}  # fmt: skip
"""Settings and what JSON may hold for them."""


def guard(path: Path) -> None:
    """Let the saved settings tell other classes what they lack, and say nothing of how this one was loaded."""
    settings = json.loads(path.read_text(encoding="utf-8")) | {"added_tokens_decoder": GUARD}
    # sentence-transformers asks `AutoProcessor`, which would hide the error of `AutoTokenizer` but names the flag for
    # code of its own
    settings["auto_map"]["AutoProcessor"] = settings["auto_map"]["AutoTokenizer"][0]
    settings = {name: value for name, value in settings.items() if name not in OF_ONE_LOADING}
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_settings(path: str | Path, tokenizer: type) -> dict[str, Any]:
    """The settings that a `tokenizer` was saved with. Raises ValueError, naming the setting, for any that cannot be
    one."""
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); fetch or publish the folder again") from None
    if not isinstance(settings, dict):
        raise ValueError(
            f"{path} holds no settings of a tokenizer but {type(settings).__name__}; fetch or publish the folder again"
        )
    for name in settings:
        if callable(getattr(tokenizer, name, None)):
            raise ValueError(f"{path}: {name[:60]} is a method and no setting; fetch or publish the folder again")
    for name, kinds in KINDS.items():
        value = settings.get(name, _MISSING)
        if value is not _MISSING and (not isinstance(value, kinds) or isinstance(value, bool) > (bool in kinds)):
            allowed = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise ValueError(
                f"{path}: {name} is {str(value)[:60]!r}, it must be {allowed}; fetch or publish the folder again"
            )
    for word in settings.get("user_words", []):
        if not (isinstance(word, list) and len(word) == 3 and isinstance(word[2], (int, float))):
            raise ValueError(
                f"{path}: user_words holds {str(word)[:60]!r}, each must be a form, a tag and a score; fetch the "
                "folder again"
            )
    for name in (
        "tokenizer_class",
        "added_tokens_decoder",
        "init_inputs",
        "vocab",
    ):  # of other classes, or (`vocab`) of how this one was saved before
        settings.pop(name, None)
    return settings


_MISSING = object()


def read_vocabulary(path: Any, special_tokens: tuple[Any, ...]) -> Tokenizer:
    """The backend in `morphemes.json`. Raises ValueError for a vocabulary in which ids are missing, or special tokens,
    or that cannot spell an unknown morpheme."""
    if path is None or not Path(path).is_file():
        raise ValueError(f"no {VOCABULARY_FILE} to load the vocabulary from (given: {path})")
    backend = read_morpheme_backend(path)
    vocabulary = backend.get_vocab(with_added_tokens=True)
    largest = max(vocabulary.values(), default=-1)
    if largest >= len(vocabulary):
        raise ValueError(
            f"{path} gives {len(vocabulary)} tokens ids up to {largest}; the largest must be {len(vocabulary) - 1}"
        )
    for token in map(str, special_tokens):
        if token not in vocabulary:
            raise ValueError(f"{path} lacks the special token {token[:60]}; fetch or publish the folder again")
    try:
        backend.model.tokenize("\U0010ffff")
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise ValueError(
            f"{path} cannot spell what it does not know ({error}); fetch or publish the folder again"
        ) from None
    return backend


@contextmanager
def one_sentence(folder: Any) -> Iterator[None]:
    """Whatever `transformers` stumbles over in a folder's files, as a ValueError that names it."""
    try:
        yield
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, ValueError) and str(folder) in said:
            raise
        raise ValueError(
            f"{folder}: tokenizer_config.json and morphemes.json make no tokenizer ({said[:200]}); fetch or publish "
            "the folder again"
        ) from None


def warn_of_another(made_with: str | None, at_hand: str) -> None:
    """Name two versions of an analyzer that differ."""
    if made_with and made_with != at_hand:
        text = f"this vocabulary was made with {made_with}, here is {at_hand}: some texts may be cut otherwise"
        warnings.warn(text, stacklevel=3)
