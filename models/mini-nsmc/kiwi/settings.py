# SPDX-License-Identifier: Apache-2.0
"""The files of a saved tokenizer, `tokenizer_config.json` and `morphemes.json`: what is added on writing, and what is
refused on reading."""

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
"""Saved as `added_tokens_decoder`, which this class does not read. All other classes of `transformers` do, first of all
and with ids as keys: without trust_remote_code they raise "invalid literal for int() with base 10: " and this sentence,
so none of them loads a vocabulary that would turn every text into [UNK]."""
LOADING_OPTIONS = ("is_local", "local_files_only")
"""What `transformers` saves of how a tokenizer was loaded."""
STALE_SETTINGS = ("tokenizer_class", "added_tokens_decoder", "init_inputs", "vocab")
"""Settings of other classes, or (`vocab`) left over from an earlier save; ignored on reading."""

SETTING_TYPES: dict[str, tuple[type, ...]] = {
    "analyzer": (str,), "analyzer_version": (str, type(None)), "style": (str,), "user_words": (list,),
    "model_max_length": (int, float),
    "model_input_names": (list,), "extra_special_tokens": (list, dict), "clean_up_tokenization_spaces": (bool,),
    "split_special_tokens": (bool,), "chat_template": (str, list, dict, type(None)), "pad_token": (str, dict),
    "unk_token": (str, dict),
    "cls_token": (str, dict), "sep_token": (str, dict), "mask_token": (str, dict),
}  # fmt: skip
"""Settings and the types that JSON may hold for them."""
AGAIN = "fetch or publish the folder again"
_MISSING = object()


def prefixed(name: str, filename_prefix: str | None) -> str:
    """The name of a saved file, with the prefix that `save_pretrained` got."""
    return f"{filename_prefix}-{name}" if filename_prefix else name


def write_guard(path: Path) -> None:
    """Change a saved `tokenizer_config.json` so that other classes fail with `NEEDS_TRUST`, and remove how this
    tokenizer was loaded."""
    settings = json.loads(path.read_text(encoding="utf-8")) | {"added_tokens_decoder": GUARD}
    # sentence-transformers asks `AutoProcessor`, which hides the error of `AutoTokenizer`; with an entry of its own it
    # names the flag trust_remote_code too
    settings["auto_map"]["AutoProcessor"] = settings["auto_map"]["AutoTokenizer"][0]
    settings = {name: value for name, value in settings.items() if name not in LOADING_OPTIONS}
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_settings(path: str | Path, tokenizer: type) -> dict[str, Any]:
    """The settings that a `tokenizer` was saved with. Raises ValueError, naming the setting, for a value of a wrong
    type."""
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); {AGAIN}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} holds {type(settings).__name__} instead of a tokenizer's settings; {AGAIN}")
    for name in settings:
        # `transformers` refuses such a setting too, by an AttributeError that names no file
        if callable(getattr(tokenizer, name, None)):
            raise ValueError(f"{path}: {name[:60]} is a method, not a setting; {AGAIN}")
    for name, types in SETTING_TYPES.items():
        value = settings.get(name, _MISSING)
        if value is not _MISSING and not _is_of(value, types):
            allowed = " or ".join("null" if kind is type(None) else kind.__name__ for kind in types)
            raise ValueError(f"{path}: {name} is {str(value)[:60]!r}, it must be {allowed}; {AGAIN}")
    for word in settings.get("user_words", []):
        if not (isinstance(word, list) and len(word) == 3 and isinstance(word[2], (int, float))):
            raise ValueError(
                f"{path}: user_words holds {str(word)[:60]!r}, each must be a form, a tag and a score; {AGAIN}"
            )
    for name in STALE_SETTINGS:
        settings.pop(name, None)
    return settings


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    # true and false are integers in Python, but not in JSON
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types)


def read_vocabulary(path: Any, special_tokens: tuple[Any, ...]) -> Tokenizer:
    """The backend in `morphemes.json`. Raises ValueError for a vocabulary with gaps in its ids, without one of the
    special tokens, or that fails on an unknown character."""
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
            raise ValueError(f"{path} lacks the special token {token[:60]}; {AGAIN}")
    try:
        backend.model.tokenize("\U0010ffff")
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise ValueError(f"{path} cannot encode an unknown character ({error}); {AGAIN}") from None
    return backend


@contextmanager
def single_value_error(folder: Any) -> Iterator[None]:
    """Turn whatever `transformers` raises about a folder's files into one ValueError that names the folder."""
    try:
        yield
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, ValueError) and str(folder) in reason:
            raise
        raise ValueError(
            f"{folder}: tokenizer_config.json and morphemes.json do not make a tokenizer ({reason[:200]}); {AGAIN}"
        ) from None


def warn_if_version_differs(recorded: str | None, installed: str) -> None:
    """Warn when a vocabulary was made with another version of its analyzer."""
    if recorded and recorded != installed:
        text = (
            f"this vocabulary was made with {recorded}, but {installed} is installed: "
            "some texts may be segmented differently"
        )
        warnings.warn(text, stacklevel=3)
