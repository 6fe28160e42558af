"""The tokenizer that `publish` ships: an analyzer cuts the raw text, a subword model spells the morphemes, offsets stay exact.

It is a `transformers` fast tokenizer whose pre-tokenizer asks the analyzer, so truncation, `stride`, pairs, offsets, `word_ids` and
`char_to_token` are the backend's own. The vocabulary lies in `morphemes.json`, not in `tokenizer.json`: a plain loader that does not run
this file must fail, not hand out a tokenizer with other ids.
"""

import json
import os
import re
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Encoding, NormalizedString, PreTokenizedString, Tokenizer
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import BatchEncoding, TokenizersBackend

from .analysis import Borders, borders, cut_texts
from .composing import cluster_end, sound
from .morpheme import WORD_MARK, starts_eojeol

VOCABULARY_FILE = "morphemes.json"
Span = tuple[int, int]


class MorphemePreTokenizer:
    """Cuts each stretch of text between special tokens. `ahead` holds cuts of a batch that were made on the analyzer's threads."""

    def __init__(self, analyzer: Borders) -> None:
        self.analyzer = analyzer
        self.ahead: dict[str, list[Span]] = {}

    def cut_ahead(self, texts: list[str]) -> list[str]:
        """Analyse `texts` as one batch and remember the spans; returns the keys to forget them by."""
        composed = [unicodedata.normalize("NFC", text) for text in texts]
        for text, found in zip(composed, cut_texts(self.analyzer, composed), strict=True):
            self.ahead[text] = [(morpheme.start, morpheme.end) for morpheme in found]
        return composed

    def spans(self, text: str) -> list[Span]:
        """The morphemes of `text`, which is NFC."""
        found = self.ahead.get(text)
        return found if found is not None else [(start, end) for start, end, _ in next(cut_texts(self.analyzer, [text]))]

    def pre_tokenize(self, pretokenized: PreTokenizedString) -> None:
        """Called by the backend for every text."""
        pretokenized.split(self._split)

    def _split(self, index: int, stretch: NormalizedString) -> list[NormalizedString]:
        # the backend composes, so that it knows which characters of the given text each one came from
        if not unicodedata.is_normalized("NFC", stretch.normalized):
            stretch.nfc()
        text = stretch.normalized
        pieces = []
        begin = reach = 0
        for start, end in self.spans(text):
            if end > reach:  # slicing counts characters from the beginning: from a stretch's it would be quadratic
                begin, reach = start, max(end, start + 1000)
                near = stretch[begin : min(reach, len(text))]
            piece = near[start - begin : end - begin]
            # behind a special token (index > 0) a stretch that has no space of its own goes on with the same eojeol
            if starts_eojeol(text, start) and (start or index == 0):
                piece.prepend(WORD_MARK)
            pieces.append(piece)
        return pieces


class MorphemeTokenizer(TokenizersBackend):
    """A fast tokenizer over morphemes.

    Args:
        vocab_file: `morphemes.json`, a serialised `tokenizers.Tokenizer` without pre-tokenizer.
        analyzer: "kiwi" or "whitespace".
        analyzer_version: the version the vocabulary was trained with; another one at hand gives a warning that names both.

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
        at_hand = borders(analyzer)
        if analyzer_version and analyzer_version != at_hand.version:
            warnings.warn(
                f"this vocabulary was made with {analyzer_version}, here is {at_hand.version}: some texts may be cut otherwise",
                stacklevel=2,
            )
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
            analyzer_version=analyzer_version or at_hand.version,
            **kwargs,
        )
        self._attach(MorphemePreTokenizer(at_hand))

    def _attach(self, pre_tokenizer: MorphemePreTokenizer) -> None:
        self._cutter, self._lock = pre_tokenizer, threading.RLock()
        self._tokenizer.pre_tokenizer = PreTokenizer.custom(pre_tokenizer)

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Nothing to convert: `__init__` reads `morphemes.json` itself."""
        return kwargs

    def backend_json(self) -> str:
        """The backend as JSON. The pre-tokenizer is Python and cannot be serialised, so it is left out."""
        plain = Tokenizer(self._tokenizer.model)
        plain.normalizer = self._tokenizer.normalizer
        plain.post_processor = self._tokenizer.post_processor
        plain.decoder = self._tokenizer.decoder
        for _, token in sorted(self.added_tokens_decoder.items()):  # in order, since adding gives the next free id
            (plain.add_special_tokens if token.special else plain.add_tokens)([token])
        return plain.to_str(pretty=False)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write `morphemes.json`."""
        path = Path(save_directory, (filename_prefix + "-" if filename_prefix else "") + VOCABULARY_FILE)
        path.write_text(json.dumps(json.loads(self.backend_json()), ensure_ascii=False, indent=0), encoding="utf-8")
        return (str(path),)

    def _save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        return (*file_names, *self.save_vocabulary(os.fspath(save_directory), filename_prefix))

    def __reduce__(self) -> tuple[Any, ...]:
        kwargs = {key: value for key, value in self.init_kwargs.items() if key != "tokenizer_object"}
        settings = {key: getattr(self, key) for key in ("model_max_length", "padding_side", "truncation_side")}
        return _rebuilt, (type(self), self.backend_json(), kwargs | settings)

    def _encode_plus(self, text: Any, text_pair: Any = None, return_tensors: Any = None, **kwargs: Any) -> Any:
        with self._lock:  # a call sets truncation and padding on the shared backend
            return self._encode(_each(sound, text), _each(sound, text_pair), return_tensors, **kwargs)

    def _encode(self, text: Any, text_pair: Any, return_tensors: Any, **kwargs: Any) -> Any:
        words = kwargs.get("is_split_into_words")
        if isinstance(text, (list, tuple)) and not text and not words:
            return BatchEncoding({key: [] for key in self._encode("", None, None, **kwargs)}, [], tensor_type=return_tensors)
        whole = kwargs.get("split_special_tokens") or self.split_special_tokens
        texts = (*_strings(text), *_strings(text_pair))
        ahead = list(texts) if whole else [stretch for one in texts for stretch in self._stretches(one)]
        keys = self._cutter.cut_ahead(ahead)
        try:
            encoded = super()._encode_plus(text, text_pair=text_pair, **kwargs)
        finally:
            for key in keys:
                self._cutter.ahead.pop(key, None)
        flat = bool(encoded["input_ids"]) and not isinstance(encoded["input_ids"][0], list)
        if "offset_mapping" in encoded:
            single = isinstance(text, str) or (words and (not text or isinstance(text[0], str)))
            rows = self._offsets(encoded, [(text, text_pair)] if single else _paired(text, text_pair, words))
            encoded["offset_mapping"] = rows[0] if flat else rows
        return encoded.convert_to_tensors(return_tensors, prepend_batch_axis=flat)

    def _stretches(self, text: str) -> list[str]:
        """What the pre-tokenizer will be asked about: the text between special tokens."""
        if not any(token in text for token in self.added_tokens_encoder):
            return [text]
        specials = "|".join(re.escape(token) for token in sorted(self.added_tokens_encoder, key=len, reverse=True))
        return [stretch for stretch in re.split(specials, text) if stretch]

    def _offsets(self, encoded: Any, samples: list[tuple[Any, Any]]) -> list[list[Span]]:
        """The backend's offsets with two things mended that it cannot know: a word mark that is a piece of its own covers no
        character, and a piece of decomposed text reaches to the end of its last cluster."""
        mark = self.convert_tokens_to_ids(WORD_MARK)
        sample_of = encoded.get("overflow_to_sample_mapping") or range(len(samples))
        rows = []
        for encoding, sample in zip(encoded.encodings, sample_of, strict=True):
            given = samples[sample]
            decomposed = any(not unicodedata.is_normalized("NFC", one) for side in given for one in _strings(side))
            if decomposed or mark in encoding.ids:
                rows.append(list(_mended(encoding, given, mark)))
            else:
                rows.append(encoding.offsets)
        return rows


def _mended(encoding: Encoding, sample: tuple[Any, Any], mark: int) -> Iterator[Span]:
    before = None
    following = [*(start for start, _ in encoding.offsets[1:]), 0]
    rows = zip(encoding.ids, encoding.offsets, encoding.sequence_ids, encoding.word_ids, following, strict=True)
    for piece, (start, end), side, word, after in rows:
        if side is None or start == end:
            yield start, end
        else:
            text = sample[side] if isinstance(sample[side], str) else sample[side][word]
            if piece == mark and (side, word) != before and starts_eojeol(text, start):
                yield start, start
            else:
                reach = cluster_end(text, end - 1)
                # a cluster that does not compose may be cut inside
                yield start, after if end <= after < reach else reach
        before = (side, word)


def _each(change: Callable[[str], str], text: Any) -> Any:
    """`change` applied to every string of whatever nesting a tokenizer accepts."""
    if isinstance(text, str):
        return change(text)
    if isinstance(text, (list, tuple)):
        return type(text)(_each(change, one) for one in text)
    return text


def _strings(text: Any) -> Iterator[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, (list, tuple)):
        for one in text:
            yield from _strings(one)


def _paired(text: Any, text_pair: Any, words: Any) -> list[tuple[Any, Any]]:
    if text_pair is not None:
        return list(zip(text, text_pair, strict=True))
    if words:
        return [(one, None) if not one or isinstance(one[0], str) else tuple(one) for one in text]
    return [(one, None) if isinstance(one, str) else tuple(one) for one in text]


def _rebuilt(cls: type["MorphemeTokenizer"], backend: str, kwargs: dict[str, Any]) -> "MorphemeTokenizer":
    """Unpickle: the analyzer is looked up anew in the process that needs it."""
    return cls(tokenizer_object=Tokenizer.from_str(backend), **kwargs)
