"""A tokenizer in `tokenizer.json` by the library `tokenizers` alone, since `transformers` takes seconds to import.

It is what predictions use of a fast tokenizer of `transformers`, under the same names; the ids, offsets and windows are
equal (tests/tokenizer/test_tokenizers_only.py).
"""

import sys
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tokenizers import Encoding, Tokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.tokenizer.loading import compose_hangul

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")
"""Tokenizer classes of `transformers` that add nothing to what tokenizer.json says."""
INPUTS = ["input_ids", "attention_mask"]
"""The inputs of a model that the settings of such a class have where they name none."""
NO_LIMIT = int(1e30)
"""`model_max_length` of a tokenizer without one, as in `transformers`."""

SIDES = ("left", "right")
"""Where a long text may lose tokens."""


def is_enough(folder: Path) -> bool:
    """Whether the tokenizer in a folder needs nothing but `tokenizers`."""
    if not all((folder / name).is_file() for name in (TOKENIZER, SETTINGS)):
        return False
    settings = read_json(folder / SETTINGS)
    return isinstance(settings, dict) and settings.get("tokenizer_class") in CLASSES


def length_limit(value: Any) -> int:
    """The number of tokens that a `model_max_length` allows; none or a number below 1, such as -1, is no limit."""
    limit = int(value or 0)
    return limit if limit >= 1 else NO_LIMIT


class Encoded(dict[str, Any]):
    """Lists by name, as `transformers` gives them, and the encodings that they are from."""

    def __init__(self, encodings: list[Encoding], values: dict[str, Any]) -> None:
        super().__init__(values)
        self.encodings = encodings

    def sequence_ids(self, row: int) -> list[int | None]:
        """The number of the text that each token is from, None for a special token."""
        return self.encodings[row].sequence_ids

    def tokens(self, row: int) -> list[str]:
        """The tokens of a row."""
        return self.encodings[row].tokens


class TokenizersOnly:
    """The tokenizer in a folder."""

    def __init__(self, backend: Tokenizer, settings: dict[str, Any]) -> None:
        self.backend_tokenizer, self.settings = backend, settings
        self.model_max_length = length_limit(settings.get("model_max_length"))
        self.model_input_names: list[str] = settings.get("model_input_names") or INPUTS
        self.truncation_side = settings.get("truncation_side") or "right"
        if self.truncation_side not in SIDES:
            raise UserError(f"{SETTINGS}: truncation_side is {self.truncation_side!r:.40}; left or right was expected")
        # tokenizer.json may hold those of a call before it was saved
        backend.no_padding()
        backend.no_truncation()

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Read the two files."""
        tokenizer = cls(Tokenizer.from_file(str(folder / TOKENIZER)), read_json(folder / SETTINGS))
        compose_hangul(tokenizer.backend_tokenizer, tokenizer.id_of("unk_token"))
        return tokenizer

    def __len__(self) -> int:
        """Number of tokens, added ones included."""
        return self.backend_tokenizer.get_vocab_size()

    def get_vocab(self) -> dict[str, int]:
        """The vocabulary as {token: id}."""
        return self.backend_tokenizer.get_vocab()

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str | None]:
        """The tokens of ids."""
        return [self.backend_tokenizer.id_to_token(id_) for id_ in ids]

    @property
    def mask_token(self) -> str | None:
        """The token that is to be filled."""
        return self._special("mask_token")

    @cached_property
    def mask_token_id(self) -> int | None:
        """The id of `mask_token`."""
        return self.id_of("mask_token")

    def id_of(self, name: str) -> int | None:
        """The id of the special token that the settings call `name`."""
        token = self._special(name)
        return self.backend_tokenizer.token_to_id(token) if token else None

    def _special(self, name: str) -> str | None:
        token = self.settings.get(name)
        return token["content"] if isinstance(token, dict) else token

    def __call__(
        self,
        text: str | list[str],
        text_pair: str | list[str] | None = None,
        *,
        add_special_tokens: bool = True,
        truncation: bool | str = False,
        max_length: int | None = None,
        stride: int = 0,
        return_overflowing_tokens: bool = False,
        return_token_type_ids: bool = False,
        return_offsets_mapping: bool = False,
        verbose: bool = True,
    ) -> Encoded:
        """The tokens of a text or of several, with the arguments of `transformers`."""
        texts = [text] if isinstance(text, str) else text
        pairs = [text_pair] if isinstance(text_pair, str) else text_pair
        inputs = texts if pairs is None else list(zip(texts, pairs, strict=True))
        if truncation:
            self._truncate(truncation, max_length, stride)
        try:
            firsts = self.backend_tokenizer.encode_batch(inputs, add_special_tokens=add_special_tokens)
        finally:
            # the backend keeps the setting, and would truncate the texts of later calls without a limit
            self.backend_tokenizer.no_truncation()
        windows = [[first, *(first.overflowing if return_overflowing_tokens else [])] for first in firsts]
        encodings = [encoding for of_text in windows for encoding in of_text]
        values: dict[str, Any] = {"input_ids": [encoding.ids for encoding in encodings]}
        if return_token_type_ids:
            values["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        values["attention_mask"] = [encoding.attention_mask for encoding in encodings]
        if return_offsets_mapping:
            values["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if return_overflowing_tokens:
            values["overflow_to_sample_mapping"] = [row for row, of_text in enumerate(windows) for _ in of_text]
        if isinstance(text, str) and not return_overflowing_tokens:
            values = {name: rows[0] for name, rows in values.items()}
        return Encoded(encodings, values)

    def _truncate(self, strategy: bool | str, max_length: int | None, stride: int) -> None:
        """Let the next texts be truncated, on the side that the settings name; without a limit none is."""
        limit = self.model_max_length if max_length is None else max_length
        # `tokenizers` takes a usize, for which NO_LIMIT is too large
        if limit > sys.maxsize:
            return
        self.backend_tokenizer.enable_truncation(
            limit,
            stride=stride,
            strategy="longest_first" if strategy is True else strategy,
            direction=self.truncation_side,
        )
