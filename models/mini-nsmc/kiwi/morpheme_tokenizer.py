# SPDX-License-Identifier: Apache-2.0
"""The tokenizer that `publish` ships: an analyzer segments the raw text into morphemes, a subword model splits those
into tokens, and offsets stay exact.

It is a `transformers` fast tokenizer whose backend gets pre-tokenized words instead of text, so truncation, `stride`,
pairs and padding are the backend's own, and ids equal those of the shards by construction. The vocabulary is in
`morphemes.json`, not in `tokenizer.json`: a loader that does not run this code must fail, not return a tokenizer with
other ids.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from transformers import BatchEncoding, TokenizersBackend

from .added_tokens import AddedTokens
from .analyzer_loader import ship
from .call_arguments import (
    are_fast,
    flag,
    replace_surrogates_in_side,
    requested_columns,
    row_shape,
    samples_of,
    silence_tagging_warning,
    truncates,
)
from .encoding import LocatedEncoding
from .fast_encoding import CachedEncoder, EncodedText, LazyEncodings, build_rows, gc_disabled
from .morpheme import WORD_MARK
from .normalization import replace_surrogates
from .pretokenization import pretokenize
from .raw_text_backend import add_pipeline, backend_json, remove_pipeline
from .segmenter import Segmenter
from .settings import VOCABULARY_FILE as VOCABULARY_FILE
from .settings import prefixed, read_settings, read_vocabulary, single_value_error, warn_if_version_differs, write_guard

Sample = tuple[EncodedText, ...]
"""One text, or the two of a pair."""


class MorphemeTokenizer(TokenizersBackend):
    """A fast tokenizer over morphemes.

    Args:
        vocab_file: `morphemes.json`, a serialised `tokenizers.Tokenizer`, whose own pipeline is for raw text.
        analyzer: "kiwi", "mecab" or "whitespace".
        analyzer_version: the version the vocabulary was trained with; a warning names both if another is installed.
        style: how morphemes are spelled, one of "surface", "form", "lemma", "tagged", "none".
        user_words: the analyzer's user dictionary, rows of form, tag and score.

    Offsets count characters of the text as given, also in decomposed text (NFD) and around tabs. Raises ImportError
    where the analyzer's library is missing.
    """

    vocab_files_names = {"vocab_file": VOCABULARY_FILE}
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side = "right"
    # makes saving copy this code; `register_for_auto_class` would set the same but import torch
    _auto_class = "AutoTokenizer"

    # caches; outside `__dict__`, which is the state that `datasets` hashes and that a call must not change
    __slots__ = ("_encoder", "_token_finders")

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | None = None,
        analyzer: str = "kiwi",
        analyzer_version: str | None = None,
        style: str = "surface",
        user_words: Iterable[Iterable[Any]] = (),
        pad_token: str = "[PAD]",
        unk_token: str = "[UNK]",
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        mask_token: str = "[MASK]",
        **kwargs: Any,
    ) -> None:
        tokenizer_object: Tokenizer | None = kwargs.pop("tokenizer_object", None)
        if tokenizer_object is None:
            tokenizer_object = read_vocabulary(vocab_file, (pad_token, unk_token, cls_token, sep_token, mask_token))
        words = tuple((str(form), str(tag), float(score)) for form, tag, score in user_words)
        segmenter = Segmenter(analyzer, style, words)
        warn_if_version_differs(analyzer_version, segmenter.version)
        for key in ("vocab", "merges", "tokenizer_file", "backend"):
            kwargs.pop(key, None)
        # before `super().__init__`, which adds tokens and so clears it
        self._token_finders: dict[tuple[Any, ...], AddedTokens] = {}
        super().__init__(
            tokenizer_object=tokenizer_object,
            pad_token=pad_token,
            unk_token=unk_token,
            cls_token=cls_token,
            sep_token=sep_token,
            mask_token=mask_token,
            analyzer=analyzer,
            analyzer_version=analyzer_version or segmenter.version,
            style=style,
            user_words=[list(word) for word in segmenter.user_words],
            **kwargs,
        )
        add_pipeline(self._tokenizer)
        self.segmenter = segmenter
        self._encoder = CachedEncoder(self._tokenizer.model)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """As in `transformers`. Raises ValueError, which names the folder in one sentence, for files that make no
        tokenizer."""
        with single_value_error(pretrained_model_name_or_path):
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @classmethod
    def _from_pretrained(
        cls, resolved_vocab_files: dict[str, Any], folder: str, settings: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        # `transformers` would read the file itself, but report a wrong value by a traceback from somewhere inside
        path = resolved_vocab_files.pop("tokenizer_config_file", None)
        if path is not None:
            settings = read_settings(path, cls)
        return super()._from_pretrained(resolved_vocab_files, folder, settings, *args, **kwargs)

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Nothing to convert: `__init__` reads `morphemes.json` itself."""
        return kwargs

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write `morphemes.json`."""
        path = Path(save_directory, prefixed(VOCABULARY_FILE, filename_prefix))
        vocabulary = json.loads(backend_json(self._tokenizer))
        path.write_text(json.dumps(vocabulary, ensure_ascii=False, indent=0), encoding="utf-8")
        return (str(path),)

    def _save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        return (*file_names, *self.save_vocabulary(os.fspath(save_directory), filename_prefix))

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> tuple[str, ...]:
        """Save everything that loading needs, including the code and the analyzer's file."""
        files = super().save_pretrained(save_directory, legacy_format, filename_prefix, push_to_hub, **kwargs)
        ship(self.segmenter.analyzer, Path(save_directory))
        write_guard(Path(save_directory, prefixed("tokenizer_config.json", filename_prefix)))
        return files

    def __reduce__(self) -> tuple[Any, ...]:
        kwargs = {key: value for key, value in self.init_kwargs.items() if key != "tokenizer_object"}
        settings = {key: getattr(self, key) for key in ("model_max_length", "padding_side", "truncation_side")}
        return _unpickle, (type(self), backend_json(self._tokenizer), kwargs | settings)

    def train_new_from_iterator(self, *args: Any, **kwargs: Any) -> Any:
        """Not supported: a vocabulary over morphemes is trained by the pipeline."""
        raise NotImplementedError("train a vocabulary with `kobert tokenizer`; its option base extends an existing one")

    def _encode_plus(self, *args: Any, **kwargs: Any) -> Any:
        with gc_disabled():
            return self._encode(*args, **kwargs)

    def _encode(self, text: Any, text_pair: Any = None, return_tensors: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("sanitize_control_tokens"):
            # a rendered chat, which comes back text by text through `_encode_without_added_tokens`
            return super()._encode_plus(text, text_pair, return_tensors=return_tensors, **kwargs)
        silence_tagging_warning(kwargs)
        inputs, batched = samples_of(text, text_pair, bool(kwargs.pop("is_split_into_words", False)))
        if not inputs:
            columns = self._encode_plus("", **kwargs)
            return BatchEncoding({key: [] for key in columns}, [], tensor_type=return_tensors)
        sides = [replace_surrogates_in_side(side) for sample in inputs for side in sample]
        added = self._added_tokens(flag(kwargs, "split_special_tokens", self.split_special_tokens))
        encoded_sides = iter(self._encode_sides(sides, added))
        samples = [tuple(next(encoded_sides) for _ in sample) for sample in inputs]
        encode = self._encode_fast if self._can_encode_fast(samples, kwargs) else self._encode_with_backend
        encoded = encode(samples, **kwargs)
        if batched or kwargs.get("return_overflowing_tokens"):
            return encoded.convert_to_tensors(return_tensors)
        row = {key: column[0] for key, column in encoded.items()}
        single = BatchEncoding(row, encoded.encodings, n_sequences=len(samples[0]))
        return single.convert_to_tensors(return_tensors, prepend_batch_axis=True)

    def _encode_sides(self, sides: list[Any], added: AddedTokens | None) -> list[EncodedText]:
        """All sides of a call in tokens, segmented as one batch."""
        pretokens = pretokenize(sides, self.segmenter, added)
        contents = {side.spellings[index] for side in pretokens for index in side.added}
        ids = {content: self._tokenizer.token_to_id(content) for content in contents}
        return [self._encoder.encode(side, ids) for side in pretokens]

    def _encode_without_added_tokens(self, text: str) -> list[int]:
        return self._encode_sides([replace_surrogates(text)], None)[0].ids

    def _encode_with_backend(self, samples: list[Sample], **kwargs: Any) -> BatchEncoding:
        """Rows whose truncation, windows, pairs and padding are the backend's own; one per window with overflow."""
        ids = {id_ for sides in samples for side in sides for id_ in side.ids}
        names = {id_: self._tokenizer.id_to_token(id_) for id_ in ids.union(self.all_special_ids)}
        first = [[names[id_] for id_ in sides[0].ids] for sides in samples]
        second = [[names[id_] for id_ in sides[1].ids] for sides in samples] if len(samples[0]) > 1 else None
        encoded = TokenizersBackend._encode_plus(
            self._over_tokens(names), first, text_pair=second, is_split_into_words=True, **kwargs
        )
        sample_of_row = encoded.get("overflow_to_sample_mapping") or range(len(samples))
        encodings = [
            LocatedEncoding(encoding, samples[sample])
            for encoding, sample in zip(encoded.encodings, sample_of_row, strict=True)
        ]
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [encoding.offsets for encoding in encodings]
        return BatchEncoding(dict(encoded), encodings)

    def _over_tokens(self, names: dict[int, str]) -> "MorphemeTokenizer":
        """A copy of this tokenizer over a backend whose words are the tokens `names`, by id."""
        # A call sets truncation and padding on its backend, so each gets its own: a shared one would need a lock, and a
        # process forked while another thread holds the lock would wait for ever.
        backend = Tokenizer(WordLevel({name: id_ for id_, name in names.items()}))
        backend.post_processor = self._tokenizer.post_processor
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _tokenizer=backend)
        return copy

    def _can_encode_fast(self, samples: list[Sample], kwargs: dict[str, Any]) -> bool:
        """Whether `fast_encoding` can build the rows."""
        return len(samples[0]) == 1 and are_fast(kwargs)

    def _encode_fast(self, samples: list[Sample], **kwargs: Any) -> BatchEncoding:
        """The result of `_encode_with_backend` without the backend, which only builds `encodings` if they are used."""
        special_ids = self._special_ids_around_text() if kwargs.get("add_special_tokens", True) else ([], [])
        rows = build_rows(
            [sides[0] for sides in samples],
            special_ids,
            row_shape(kwargs, self.truncation_side, self.padding_side),
            (self.pad_token_id, self.pad_token_type_id),
            with_offsets=bool(kwargs.get("return_offsets_mapping")),
        )
        if not truncates(kwargs):
            longest = max(rows["input_ids"], key=len)
            self._eventual_warn_about_too_long_sequence(longest, kwargs.get("max_length"), kwargs.get("verbose", True))
        columns = requested_columns(rows, kwargs, self.model_input_names)
        encodings = LazyEncodings(len(samples), lambda: self._encode_with_backend(samples, **kwargs).encodings)
        return BatchEncoding(columns, encodings, n_sequences=1)

    def _special_ids_around_text(self) -> tuple[list[int], list[int]]:
        """The ids that the post-processor puts before and after a text."""
        sample = self._over_tokens({0: "text"})._tokenizer.encode(["text"], is_pretokenized=True)
        place = sample.special_tokens_mask.index(0)
        return sample.ids[:place], sample.ids[place + 1 :]

    def _added_tokens(self, split_special_tokens: bool) -> AddedTokens:
        """The finder of added and special tokens; cached, since building one takes a backend."""
        key = (len(self), self.mask_token, self.unk_token, split_special_tokens)
        if key not in self._token_finders:
            placeholders = {self.mask_token, self.unk_token}
            self._token_finders[key] = AddedTokens(
                self.added_tokens_decoder.values(), placeholders, split_special_tokens
            )
        return self._token_finders[key]

    def _add_tokens(self, new_tokens: list[str | AddedToken], special_tokens: bool = False) -> int:
        self._token_finders.clear()
        return int(super()._add_tokens(new_tokens, special_tokens))

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **kwargs: Any,
    ) -> str:
        """The text of `token_ids`. Ids do not say whether white space was before an added token; as in BERT's decoding,
        it always gets one."""
        ids = token_ids["input_ids"] if isinstance(token_ids, dict) else token_ids
        if isinstance(ids, int):
            ids = [ids]
        added = self.added_tokens_decoder
        kept = [int(id_) for id_ in ids if not (skip_special_tokens and int(id_) in added and added[int(id_)].special)]
        names = [WORD_MARK * (id_ in added) + (self._tokenizer.id_to_token(id_) or "") for id_ in kept]
        text = str(self._tokenizer.decoder.decode(names))
        clean_up = clean_up_tokenization_spaces
        if clean_up is None:
            clean_up = self.clean_up_tokenization_spaces
        return str(self.clean_up_tokenization(text)) if clean_up else text


def _unpickle(cls: type["MorphemeTokenizer"], backend: str, kwargs: dict[str, Any]) -> "MorphemeTokenizer":
    """Build the tokenizer anew, so that the analyzer is loaded in the process that unpickles it."""
    return cls(tokenizer_object=remove_pipeline(Tokenizer.from_str(backend)), **kwargs)
