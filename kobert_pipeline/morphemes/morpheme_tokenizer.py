"""The tokenizer that `publish` ships: an analyzer cuts the raw text, a subword model spells the morphemes, offsets stay exact.

It is a `transformers` fast tokenizer that hands the backend morphemes instead of text, as words that are split already, so truncation,
`stride`, pairs and padding are the backend's own, and ids equal those of the shards by construction. The vocabulary lies in
`morphemes.json`, not in `tokenizer.json`: a plain loader that does not run this file must fail, not hand out a tokenizer with other ids.
"""

import json
import os
import re
import threading
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import BatchEncoding, TokenizersBackend
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from .analyzer_at_hand import ship
from .composing import sound
from .cutter import Cutter
from .direct import Direct, OnDemand, Shape
from .located import LocatedEncoding
from .pause import no_collection
from .sequence import Pieces, pieces_of

VOCABULARY_FILE = "morphemes.json"
NOT_A_VOCABULARY = "see morphemes.json; load with AutoTokenizer.from_pretrained(folder, trust_remote_code=True)"
"""Saved as `vocab`, which this class does not read: classes that do (`BertTokenizer`, ...) would otherwise come up with no vocabulary at
all and spell every text [UNK]. With it they raise."""
SETTINGS_OF_A_LOADING = ("is_local", "local_files_only")
"""What `transformers` saves of how a tokenizer was loaded."""


DIRECT = {
    "add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "stride", "pad_to_multiple_of", "padding_side",
    "return_token_type_ids", "return_attention_mask", "return_overflowing_tokens", "return_special_tokens_mask", "return_offsets_mapping",
    "return_length", "verbose", "split_special_tokens",
}  # fmt: skip
"""Arguments of a call that `direct` knows."""


class MorphemeTokenizer(TokenizersBackend):
    """A fast tokenizer over morphemes.

    Args:
        vocab_file: `morphemes.json`, a serialised `tokenizers.Tokenizer` without pre-tokenizer.
        analyzer: "kiwi", "mecab" or "whitespace".
        analyzer_version: the version the vocabulary was trained with; another one at hand gives a warning that names both.
        style: how morphemes are spelled, one of "surface", "form", "lemma", "tagged", "none".
        user_words: the analyzer's user dictionary, rows of form, tag and score.

    Offsets count characters of the text as given, NFD and tabs included. Raises ImportError where the analyzer's library is missing.
    """

    vocab_files_names = {"vocab_file": VOCABULARY_FILE}
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side = "right"
    _auto_class = "AutoTokenizer"
    """So that saving ships this code; what `register_for_auto_class` sets, which would import torch."""

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | None = None,
        analyzer: str = "kiwi",
        analyzer_version: str | None = None,
        style: str = "surface",
        user_words: Iterable[Iterable[Any]] = (),
        tokenizer_object: Tokenizer | None = None,
        pad_token: str = "[PAD]",
        unk_token: str = "[UNK]",
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        mask_token: str = "[MASK]",
        **kwargs: Any,
    ) -> None:
        if tokenizer_object is None:
            if vocab_file is None or not Path(vocab_file).is_file():
                raise ValueError(f"no {VOCABULARY_FILE} to load the vocabulary from (given: {vocab_file})")
            tokenizer_object = Tokenizer.from_file(os.fspath(vocab_file))
        cutter = Cutter(analyzer, style, tuple((str(form), str(tag), float(score)) for form, tag, score in user_words))
        _warn_of_another(analyzer_version, cutter.version)
        for key in ("vocab", "merges", "tokenizer_file", "backend"):
            kwargs.pop(key, None)
        super().__init__(
            tokenizer_object=tokenizer_object,
            pad_token=pad_token,
            unk_token=unk_token,
            cls_token=cls_token,
            sep_token=sep_token,
            mask_token=mask_token,
            analyzer=analyzer,
            analyzer_version=analyzer_version or cutter.version,
            style=style,
            user_words=[list(word) for word in cutter.user_words],
            **kwargs,
        )
        self.cutter = cutter
        self._locks: dict[int, threading.RLock] = {}
        self._directs: dict[tuple[bool, bool, int], Direct] = {}

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Nothing to convert: `__init__` reads `morphemes.json` itself."""
        return kwargs

    @property
    def _lock(self) -> "threading.RLock":
        """One per process: a lock that another thread held during a fork would never be free in the child."""
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write `morphemes.json`."""
        path = Path(save_directory, (filename_prefix + "-" if filename_prefix else "") + VOCABULARY_FILE)
        path.write_text(json.dumps(json.loads(self._backend_json()), ensure_ascii=False, indent=0), encoding="utf-8")
        return (str(path),)

    def _save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        return (*file_names, *self.save_vocabulary(os.fspath(save_directory), filename_prefix))

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> tuple[str, ...]:
        """Save everything that loading needs, the code and the analyzer's file included."""
        files = super().save_pretrained(save_directory, *args, **kwargs)
        ship(self.cutter.analyzer, Path(save_directory))
        _guard(Path(save_directory, "tokenizer_config.json"))
        return files

    def _backend_json(self) -> str:
        """The backend without the settings of the last call."""
        plain = Tokenizer.from_str(self._tokenizer.to_str())
        plain.no_truncation()
        plain.no_padding()
        return plain.to_str()

    def __reduce__(self) -> tuple[Any, ...]:
        kwargs = {key: value for key, value in self.init_kwargs.items() if key != "tokenizer_object"}
        settings = {key: getattr(self, key) for key in ("model_max_length", "padding_side", "truncation_side")}
        return _rebuilt, (type(self), self._backend_json(), kwargs | settings)

    def train_new_from_iterator(self, *args: Any, **kwargs: Any) -> Any:
        """Not here: a vocabulary of morphemes is trained by the pipeline."""
        raise NotImplementedError("a new vocabulary of morphemes is trained by `kobert tokenizer`, see tokenizer.base for a grown one")

    def _encode_plus(self, *args: Any, **kwargs: Any) -> Any:
        with no_collection():
            return self._encode(*args, **kwargs)

    def _encode(self, text: Any, text_pair: Any = None, return_tensors: Any = None, **kwargs: Any) -> Any:
        samples, batched = _samples(text, text_pair, bool(kwargs.pop("is_split_into_words", False)))
        whole = kwargs.get("split_special_tokens") or (kwargs.get("split_special_tokens") is None and self.split_special_tokens)
        sides = [_sound(side) for sample in samples for side in sample]
        if not samples:
            empty = self._encode_plus("", **kwargs)
            return BatchEncoding({key: [] for key in empty}, [], tensor_type=return_tensors)
        pieces = iter(pieces_of(sides, self.cutter, None if whole else self._special_tokens()))
        located = [tuple(next(pieces) for _ in sample) for sample in samples]
        with self._lock:  # a call sets truncation and padding on the shared backend
            encode = self._encode_directly if self._is_plain(located, kwargs) else self._encode_pieces
            encoded = encode(located, **kwargs)
        if batched or kwargs.get("return_overflowing_tokens"):
            return encoded.convert_to_tensors(return_tensors)
        rows = {key: row[0] for key, row in encoded.items()}
        found = BatchEncoding(rows, encoded.encodings, n_sequences=len(located[0]))
        return found.convert_to_tensors(return_tensors, prepend_batch_axis=True)

    def _encode_pieces(self, located: list[tuple[Pieces, ...]], **kwargs: Any) -> BatchEncoding:
        """Rows for every sample, overflow included."""
        first = [sides[0].spellings for sides in located]
        second = [sides[1].spellings for sides in located] if len(located[0]) > 1 else None
        encoded = super()._encode_plus(first, text_pair=second, is_split_into_words=True, **kwargs)
        samples = encoded.get("overflow_to_sample_mapping") or range(len(located))
        encodings = [LocatedEncoding(one, located[sample]) for one, sample in zip(encoded.encodings, samples, strict=True)]
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [one.offsets for one in encodings]
        return BatchEncoding(dict(encoded), encodings)

    def _is_plain(self, located: list[tuple[Pieces, ...]], kwargs: dict[str, Any]) -> bool:
        """Whether `direct` serves: single texts, without what was cut off."""
        second = kwargs.get("truncation_strategy") == TruncationStrategy.ONLY_SECOND
        return len(located[0]) == 1 and not second and not kwargs.get("return_overflowing_tokens") and kwargs.keys() <= DIRECT

    def _encode_directly(self, located: list[tuple[Pieces, ...]], **kwargs: Any) -> BatchEncoding:
        """What `_encode_pieces` gives, by the short way; the encodings themselves only if they are asked for."""
        truncates = kwargs.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE) != TruncationStrategy.DO_NOT_TRUNCATE
        padding = kwargs.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
        lengths = {PaddingStrategy.DO_NOT_PAD: 0, PaddingStrategy.LONGEST: None, PaddingStrategy.MAX_LENGTH: kwargs.get("max_length")}
        shape = Shape(
            longest=kwargs.get("max_length") if truncates else None,
            truncation_side=self.truncation_side,
            length=lengths[padding],
            multiple=kwargs.get("pad_to_multiple_of"),
            padding_side=kwargs.get("padding_side") or self.padding_side,
        )
        wanted = {
            "token_type_ids": _given(kwargs, "return_token_type_ids", "token_type_ids" in self.model_input_names),
            "attention_mask": _given(kwargs, "return_attention_mask", "attention_mask" in self.model_input_names),
            "special_tokens_mask": kwargs.get("return_special_tokens_mask"),
            "offset_mapping": kwargs.get("return_offsets_mapping"),
        }
        direct = self._direct(kwargs.get("add_special_tokens", True), _given(kwargs, "split_special_tokens", self.split_special_tokens))
        rows = direct.rows(
            [sides[0] for sides in located], shape, self.pad_token_id, self.pad_token_type_id, bool(wanted["offset_mapping"])
        )
        if not truncates:
            longest = max(rows["input_ids"], key=len)
            self._eventual_warn_about_too_long_sequence(longest, kwargs.get("max_length"), kwargs.get("verbose", True))
        found = {"input_ids": rows["input_ids"]} | {name: rows[name] for name, asked in wanted.items() if asked}
        if kwargs.get("return_length"):
            found["length"] = [len(row) for row in rows["input_ids"]]  # type: ignore[misc]
        return BatchEncoding(found, OnDemand(len(located), partial(self._encodings, located, kwargs)), n_sequences=1)

    def _encodings(self, located: list[tuple[Pieces, ...]], kwargs: dict[str, Any]) -> list[Any]:
        with self._lock:
            return list(self._encode_pieces(located, **kwargs).encodings)

    def _direct(self, add_special_tokens: bool, split_special_tokens: bool) -> Direct:
        """The short way for the backend as it stands."""
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = split_special_tokens
        key = (add_special_tokens, split_special_tokens, len(self._tokenizer.get_added_tokens_decoder()))
        if key not in self._directs:
            self._directs[key] = Direct(self._tokenizer, add_special_tokens)
        return self._directs[key]

    def _special_tokens(self) -> re.Pattern[str] | None:
        """Matches what users added or the model reserves: it is never cut."""
        tokens = sorted(self.added_tokens_decoder.values(), key=lambda token: len(token.content), reverse=True)
        forms = [rf"\b{re.escape(token.content)}\b" if token.single_word else re.escape(token.content) for token in tokens]
        return re.compile("|".join(forms)) if forms else None


def _guard(path: Path) -> None:
    """Say in the saved settings that other classes find no vocabulary here, and nothing of how this one was loaded."""
    settings = json.loads(path.read_text(encoding="utf-8")) | {"vocab": NOT_A_VOCABULARY}
    settings = {name: value for name, value in settings.items() if name not in SETTINGS_OF_A_LOADING}
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _given(kwargs: dict[str, Any], name: str, otherwise: bool) -> bool:
    """A flag of a call, where None means the tokenizer's own."""
    return otherwise if kwargs.get(name) is None else bool(kwargs[name])


def _samples(text: Any, text_pair: Any, split: bool) -> tuple[list[tuple[Any, ...]], bool]:
    """One or two sides for each sample, and whether it was a batch. A pair can come as two arguments or as a tuple in the batch."""
    depth = 1 if split else 0  # how deep a side is nested
    if _depth(text) == depth or (split and not text):
        return [(text,) if not text_pair else (text, text_pair)], False
    if text_pair is not None:
        if _depth(text_pair) <= depth and len(text_pair):
            raise TypeError("when tokenizing batches of text, `text_pair` must be a list or tuple with the same length as `text`")
        if len(text) != len(text_pair):
            raise ValueError(f"batch length of `text`: {len(text)} does not match batch length of `text_pair`: {len(text_pair)}")
        return list(zip(text, text_pair, strict=True)), True
    samples = [(one,) if _depth(one) <= depth else tuple(one) for one in text]
    if len({len(sample) for sample in samples}) > 1:
        raise ValueError("a batch holds single texts or pairs, not both")
    return samples, True


def _depth(text: Any) -> int:
    """How deep strings lie in lists; an empty list counts as one of strings."""
    if isinstance(text, str):
        return 0
    if isinstance(text, (list, tuple)):
        return 1 + (_depth(text[0]) if text else 0)
    raise ValueError(f"text must be `str`, or lists of it for batches, pairs and split words, not {type(text).__name__}")


def _sound(side: Any) -> Any:
    if isinstance(side, str):
        return sound(side)
    if isinstance(side, (list, tuple)):
        return [_sound(one) for one in side]
    raise ValueError(f"text must be `str`, or lists of it for batches, pairs and split words, not {type(side).__name__}")


def _warn_of_another(made_with: str | None, at_hand: str) -> None:
    if made_with and made_with != at_hand:
        text = f"this vocabulary was made with {made_with}, here is {at_hand}: some texts may be cut otherwise"
        warnings.warn(text, stacklevel=3)


def _rebuilt(cls: type["MorphemeTokenizer"], backend: str, kwargs: dict[str, Any]) -> "MorphemeTokenizer":
    """Unpickle: the analyzer is looked up anew in the process that needs it."""
    return cls(tokenizer_object=Tokenizer.from_str(backend), **kwargs)
