"""The tokenizer that `publish` ships: an analyzer cuts the raw text, a subword model spells the morphemes, offsets stay
exact.

It is a `transformers` fast tokenizer that hands the backend morphemes instead of text, as words that are split already,
so truncation, `stride`, pairs and padding are the backend's own, and ids equal those of the shards by construction. The
vocabulary lies in `morphemes.json`, not in `tokenizer.json`: a plain loader that does not run this file must fail, not
hand out a tokenizer with other ids.
"""

import json
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from transformers import BatchEncoding, TokenizersBackend
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from .added_tokens import AddedTokens
from .analyzer_loader import ship
from .call_arguments import DIRECT, given, quiet_tagging_pipeline, replace_surrogates_in_side, samples_of
from .encoding import LocatedEncoding
from .fast_encoding import CachedEncoder, EncodedText, LazyEncodings, RowShape, rows
from .morpheme import WORD_MARK
from .normalization import replace_surrogates
from .pause import gc_disabled
from .pretokenization import pretokenize
from .raw_text_backend import add_pipeline, remove_pipeline
from .segmenter import Segmenter
from .settings import VOCABULARY_FILE as VOCABULARY_FILE
from .settings import guard, one_sentence, read_settings, read_vocabulary, warn_of_another


class MorphemeTokenizer(TokenizersBackend):
    """A fast tokenizer over morphemes.

    Args:
        vocab_file: `morphemes.json`, a serialised `tokenizers.Tokenizer`, whose own pipeline is for raw text.
        analyzer: "kiwi", "mecab" or "whitespace".
        analyzer_version: the version the vocabulary was trained with; another one at hand gives a warning that names both.
        style: how morphemes are spelled, one of "surface", "form", "lemma", "tagged", "none".
        user_words: the analyzer's user dictionary, rows of form, tag and score.

    Offsets count characters of the text as given, NFD and tabs included. Raises ImportError where the analyzer's
    library is missing.
    """

    vocab_files_names = {"vocab_file": VOCABULARY_FILE}
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side = "right"
    _auto_class = "AutoTokenizer"
    """So that saving ships this code; what `register_for_auto_class` sets, which would import torch."""

    __slots__ = ("_finders", "_spellings")
    """Caches. They are not in `__dict__`, which is the state that `datasets` hashes: a call must not change it."""

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
        cutter = Segmenter(
            analyzer, style, tuple((str(form), str(tag), float(score)) for form, tag, score in user_words)
        )
        warn_of_another(analyzer_version, cutter.version)
        for key in ("vocab", "merges", "tokenizer_file", "backend"):
            kwargs.pop(key, None)
        self._finders: dict[tuple[Any, ...], AddedTokens] = {}
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
        add_pipeline(self._tokenizer)
        self.cutter = cutter
        self._spellings = CachedEncoder(self._tokenizer.model)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """As everywhere in `transformers`, but settings and a vocabulary that make no tokenizer are one ValueError."""
        with one_sentence(pretrained_model_name_or_path):
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @classmethod
    def _from_pretrained(
        cls, resolved_vocab_files: dict[str, Any], folder: str, settings: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        path = resolved_vocab_files.pop("tokenizer_config_file", None)
        return super()._from_pretrained(
            resolved_vocab_files, folder, settings if path is None else read_settings(path, cls), *args, **kwargs
        )

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Nothing to convert: `__init__` reads `morphemes.json` itself."""
        return kwargs

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write `morphemes.json`."""
        path = Path(save_directory, _prefix(filename_prefix) + VOCABULARY_FILE)
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

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> tuple[str, ...]:
        """Save everything that loading needs, the code and the analyzer's file included."""
        files = super().save_pretrained(save_directory, legacy_format, filename_prefix, push_to_hub, **kwargs)
        ship(self.cutter.analyzer, Path(save_directory))
        guard(Path(save_directory, _prefix(filename_prefix) + "tokenizer_config.json"))
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
        raise NotImplementedError(
            "a new vocabulary of morphemes is trained by `kobert tokenizer`, see tokenizer.base for a grown one"
        )

    def _encode_plus(self, *args: Any, **kwargs: Any) -> Any:
        with gc_disabled():
            return self._encode(*args, **kwargs)

    def _encode(self, text: Any, text_pair: Any = None, return_tensors: Any = None, **kwargs: Any) -> Any:
        if kwargs.get(
            "sanitize_control_tokens"
        ):  # a rendered chat in parts, whose texts come back through `_encode_without_added_tokens`
            return super()._encode_plus(text, text_pair, return_tensors=return_tensors, **kwargs)
        if kwargs.get("return_offsets_mapping") and kwargs.get("return_special_tokens_mask"):
            quiet_tagging_pipeline()
        samples, batched = samples_of(text, text_pair, bool(kwargs.pop("is_split_into_words", False)))
        sides = [replace_surrogates_in_side(side) for sample in samples for side in sample]
        if not samples:
            empty = self._encode_plus("", **kwargs)
            return BatchEncoding({key: [] for key in empty}, [], tensor_type=return_tensors)
        spelled = iter(
            self._spelled(sides, self._added_tokens(given(kwargs, "split_special_tokens", self.split_special_tokens)))
        )
        located = [tuple(next(spelled) for _ in sample) for sample in samples]
        encoded = (self._encode_directly if self._is_plain(located, kwargs) else self._encode_pieces)(located, **kwargs)
        if batched or kwargs.get("return_overflowing_tokens"):
            return encoded.convert_to_tensors(return_tensors)
        first = {key: row[0] for key, row in encoded.items()}
        found = BatchEncoding(first, encoded.encodings, n_sequences=len(located[0]))
        return found.convert_to_tensors(return_tensors, prepend_batch_axis=True)

    def _spelled(self, sides: list[Any], added: AddedTokens | None) -> list[EncodedText]:
        """The sides in tokens."""
        found = pretokenize(sides, self.cutter, added)
        contents = {pieces.spellings[number] for pieces in found for number in pieces.added}
        ids = {content: self._tokenizer.token_to_id(content) for content in contents}
        return [self._spellings.encode(pieces, ids) for pieces in found]

    def _encode_without_added_tokens(self, text: str) -> list[int]:
        return self._spelled([replace_surrogates(text)], None)[0].ids

    def _encode_pieces(self, located: list[tuple[EncodedText, ...]], **kwargs: Any) -> BatchEncoding:
        """Rows for every sample, overflow included. Truncation, windows, pairs and padding are the backend's own."""
        ids = {id_ for sides in located for side in sides for id_ in side.ids}
        names = {id_: self._tokenizer.id_to_token(id_) for id_ in ids.union(self.all_special_ids)}
        first = [[names[id_] for id_ in sides[0].ids] for sides in located]
        second = [[names[id_] for id_ in sides[1].ids] for sides in located] if len(located[0]) > 1 else None
        encoded = TokenizersBackend._encode_plus(
            self._arranging(names), first, text_pair=second, is_split_into_words=True, **kwargs
        )
        samples = encoded.get("overflow_to_sample_mapping") or range(len(located))
        encodings = [
            LocatedEncoding(one, located[sample]) for one, sample in zip(encoded.encodings, samples, strict=True)
        ]
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [one.offsets for one in encodings]
        return BatchEncoding(dict(encoded), encodings)

    def _arranging(self, names: dict[int, str]) -> "MorphemeTokenizer":
        """This tokenizer over a backend of its own, whose words are tokens, {id: name}. A call sets truncation and
        padding on its backend: a shared one would need a lock, which a fork can leave locked for ever."""
        backend = Tokenizer(WordLevel({name: id_ for id_, name in names.items()}))
        backend.post_processor = self._tokenizer.post_processor
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _tokenizer=backend)
        return made

    def _is_plain(self, located: list[tuple[EncodedText, ...]], kwargs: dict[str, Any]) -> bool:
        """Whether `direct` serves: single texts, without what was cut off."""
        second = kwargs.get("truncation_strategy") == TruncationStrategy.ONLY_SECOND
        return (
            len(located[0]) == 1
            and not second
            and not kwargs.get("return_overflowing_tokens")
            and kwargs.keys() <= DIRECT
        )

    def _encode_directly(self, located: list[tuple[EncodedText, ...]], **kwargs: Any) -> BatchEncoding:
        """What `_encode_pieces` gives, by the short way; the encodings themselves only if they are asked for."""
        truncates = (
            kwargs.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE) != TruncationStrategy.DO_NOT_TRUNCATE
        )
        padding = kwargs.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
        lengths = {
            PaddingStrategy.DO_NOT_PAD: 0,
            PaddingStrategy.LONGEST: None,
            PaddingStrategy.MAX_LENGTH: kwargs.get("max_length"),
        }
        shape = RowShape(
            longest=kwargs.get("max_length") if truncates else None,
            truncation_side=self.truncation_side,
            length=lengths[padding],
            multiple=kwargs.get("pad_to_multiple_of"),
            padding_side=kwargs.get("padding_side") or self.padding_side,
        )
        wanted = {
            "token_type_ids": given(kwargs, "return_token_type_ids", "token_type_ids" in self.model_input_names),
            "attention_mask": given(kwargs, "return_attention_mask", "attention_mask" in self.model_input_names),
            "special_tokens_mask": kwargs.get("return_special_tokens_mask"),
            "offset_mapping": kwargs.get("return_offsets_mapping"),
        }
        frame = self._frame() if kwargs.get("add_special_tokens", True) else ([], [])
        pad_ids = (self.pad_token_id, self.pad_token_type_id)
        found = rows([sides[0] for sides in located], frame, shape, pad_ids, bool(wanted["offset_mapping"]))
        if not truncates:
            longest = max(found["input_ids"], key=len)
            self._eventual_warn_about_too_long_sequence(longest, kwargs.get("max_length"), kwargs.get("verbose", True))
        kept = {"input_ids": found["input_ids"]} | {name: found[name] for name, asked in wanted.items() if asked}
        if kwargs.get("return_length"):
            kept["length"] = [len(row) for row in found["input_ids"]]
        return BatchEncoding(
            kept, LazyEncodings(len(located), partial(self._encodings, located, kwargs)), n_sequences=1
        )

    def _encodings(self, located: list[tuple[EncodedText, ...]], kwargs: dict[str, Any]) -> list[Any]:
        return list(self._encode_pieces(located, **kwargs).encodings)

    def _frame(self) -> tuple[list[int], list[int]]:
        """The ids that go before and after a text."""
        sample = self._arranging({0: "text"})._tokenizer.encode(["text"], is_pretokenized=True)
        place = sample.special_tokens_mask.index(0)
        return sample.ids[:place], sample.ids[place + 1 :]

    def _added_tokens(self, split_special_tokens: bool) -> AddedTokens:
        """Finds what users added or the model reserves."""
        key = (len(self), self.mask_token, self.unk_token, split_special_tokens)
        if key not in self._finders:
            placeholders = {self.mask_token, self.unk_token}
            self._finders[key] = AddedTokens(self.added_tokens_decoder.values(), placeholders, split_special_tokens)
        return self._finders[key]

    def _add_tokens(self, new_tokens: list[str | AddedToken], special_tokens: bool = False) -> int:
        self._finders.clear()
        return int(super()._add_tokens(new_tokens, special_tokens))

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **kwargs: Any,
    ) -> str:
        """Text again. Ids do not say whether white space stood before an added token; there is always one here, as in
        BERT's decoding."""
        ids = (
            [token_ids]
            if isinstance(token_ids, int)
            else token_ids["input_ids"]
            if isinstance(token_ids, dict)
            else token_ids
        )
        added = self.added_tokens_decoder
        kept = [int(id_) for id_ in ids if not (skip_special_tokens and int(id_) in added and added[int(id_)].special)]
        names = [WORD_MARK * (id_ in added) + (self._tokenizer.id_to_token(id_) or "") for id_ in kept]
        text = str(self._tokenizer.decoder.decode(names))
        cleans = (
            self.clean_up_tokenization_spaces if clean_up_tokenization_spaces is None else clean_up_tokenization_spaces
        )
        return str(self.clean_up_tokenization(text)) if cleans else text


def _prefix(filename_prefix: str | None) -> str:
    return f"{filename_prefix}-" if filename_prefix else ""


def _rebuilt(cls: type["MorphemeTokenizer"], backend: str, kwargs: dict[str, Any]) -> "MorphemeTokenizer":
    """Unpickle: the analyzer is looked up anew in the process that needs it."""
    return cls(tokenizer_object=remove_pipeline(Tokenizer.from_str(backend)), **kwargs)
