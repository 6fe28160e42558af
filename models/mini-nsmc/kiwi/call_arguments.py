# SPDX-License-Identifier: Apache-2.0
"""The forms that a call of a tokenizer can take, and what follows from its arguments."""

import warnings
from typing import Any

from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from .fast_encoding import RowShape
from .normalization import replace_surrogates

FAST_ARGUMENTS = {
    "add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "stride", "pad_to_multiple_of",
    "padding_side",
    "return_token_type_ids", "return_attention_mask", "return_overflowing_tokens", "return_special_tokens_mask",
    "return_offsets_mapping",
    "return_length", "verbose", "split_special_tokens",
}  # fmt: skip
"""Arguments of a call that `fast_encoding` can serve; any other one goes to the backend."""

NO_REAL_WORDS = "Tokenizer does not support real words"
WRONG_TEXT = "text must be `str`, or lists of it for batches, pairs and split words, not {}"


def flag(kwargs: dict[str, Any], name: str, default: bool) -> bool:
    """A boolean argument of a call, where None means the tokenizer's own setting."""
    return default if kwargs.get(name) is None else bool(kwargs[name])


def are_fast(kwargs: dict[str, Any]) -> bool:
    """Whether `fast_encoding` can serve a call for single texts: not for windows, nor for a second side to truncate."""
    only_second = kwargs.get("truncation_strategy") == TruncationStrategy.ONLY_SECOND
    return not only_second and not kwargs.get("return_overflowing_tokens") and kwargs.keys() <= FAST_ARGUMENTS


def truncates(kwargs: dict[str, Any]) -> bool:
    """Whether a call asks for truncation."""
    strategy = kwargs.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE)
    return bool(strategy != TruncationStrategy.DO_NOT_TRUNCATE)


def row_shape(kwargs: dict[str, Any], truncation_side: str, padding_side: str) -> RowShape:
    """Truncation and padding as a call asks for them; the sides are the tokenizer's own."""
    lengths = {
        PaddingStrategy.DO_NOT_PAD: 0,
        PaddingStrategy.LONGEST: None,
        PaddingStrategy.MAX_LENGTH: kwargs.get("max_length"),
    }
    return RowShape(
        max_length=kwargs.get("max_length") if truncates(kwargs) else None,
        truncation_side=truncation_side,
        length=lengths[kwargs.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)],
        multiple=kwargs.get("pad_to_multiple_of"),
        padding_side=kwargs.get("padding_side") or padding_side,
    )


def requested_columns(rows: dict[str, list[Any]], kwargs: dict[str, Any], input_names: list[str]) -> dict[str, Any]:
    """The columns of `rows` that a call asks for; by default those in `input_names`."""
    requested = {
        "token_type_ids": flag(kwargs, "return_token_type_ids", "token_type_ids" in input_names),
        "attention_mask": flag(kwargs, "return_attention_mask", "attention_mask" in input_names),
        "special_tokens_mask": kwargs.get("return_special_tokens_mask"),
        "offset_mapping": kwargs.get("return_offsets_mapping"),
    }
    columns = {"input_ids": rows["input_ids"]} | {name: rows[name] for name, asked in requested.items() if asked}
    if kwargs.get("return_length"):
        columns["length"] = [len(row) for row in rows["input_ids"]]
    return columns


def samples_of(text: Any, text_pair: Any, split: bool) -> tuple[list[tuple[Any, ...]], bool]:
    """One or two sides for each sample, and whether the call was a batch.

    A pair can come as two arguments or as a tuple in the batch. With `split`, a side is a list of words. Raises
    TypeError or ValueError, as `transformers` does, for arguments that do not fit together.
    """
    depth = 1 if split else 0  # how deep a side is nested in lists
    if _depth(text) == depth or (split and not text):
        return [(text,) if not text_pair else (text, text_pair)], False
    if text_pair is not None:
        if _depth(text_pair) <= depth and len(text_pair):
            raise TypeError(
                "when tokenizing batches of text, `text_pair` must be a list or tuple with the same length as `text`"
            )
        if len(text) != len(text_pair):
            raise ValueError(
                f"batch length of `text`: {len(text)} does not match batch length of `text_pair`: {len(text_pair)}"
            )
        return list(zip(text, text_pair, strict=True)), True
    samples = [(sample,) if _depth(sample) <= depth else tuple(sample) for sample in text]
    if len({len(sample) for sample in samples}) > 1:
        raise ValueError("a batch holds single texts or pairs, not both")
    return samples, True


def _depth(text: Any) -> int:
    """How deep strings are nested in lists; an empty list counts as one of strings."""
    if isinstance(text, str):
        return 0
    if isinstance(text, (list, tuple)):
        return 1 + (_depth(text[0]) if text else 0)
    raise ValueError(WRONG_TEXT.format(type(text).__name__))


def replace_surrogates_in_side(side: Any) -> Any:
    """A side, or each of its words, without lone surrogates."""
    if isinstance(side, str):
        return replace_surrogates(side)
    if isinstance(side, (list, tuple)):
        return [replace_surrogates_in_side(word) for word in side]
    raise ValueError(WRONG_TEXT.format(type(side).__name__))


def silence_tagging_warning(kwargs: dict[str, Any]) -> None:
    """Suppress a wrong warning, where the call is one of the token classification pipeline.

    For every token of a vocabulary without ## that pipeline warns that it takes white space for the boundary of words,
    which is right for this tokenizer.
    """
    # the pipeline asks for both; checked at each call, since somebody may have changed the filters in between
    if not (kwargs.get("return_offsets_mapping") and kwargs.get("return_special_tokens_mask")):
        return
    if not warnings.filters or getattr(warnings.filters[0][1], "pattern", None) != NO_REAL_WORDS:
        warnings.filterwarnings("ignore", message=NO_REAL_WORDS, category=UserWarning)
