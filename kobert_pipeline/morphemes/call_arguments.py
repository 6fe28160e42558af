"""The forms that a call of a tokenizer can take, and what follows from its arguments."""

import warnings
from typing import Any

from .normalization import replace_surrogates

DIRECT = {
    "add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "stride", "pad_to_multiple_of",
    "padding_side",
    "return_token_type_ids", "return_attention_mask", "return_overflowing_tokens", "return_special_tokens_mask",
    "return_offsets_mapping",
    "return_length", "verbose", "split_special_tokens",
}  # fmt: skip
"""Arguments of a call that `direct` knows."""
NO_REAL_WORDS = "Tokenizer does not support real words"


def given(kwargs: dict[str, Any], name: str, otherwise: bool) -> bool:
    """A flag of a call, where None means the tokenizer's own."""
    return otherwise if kwargs.get(name) is None else bool(kwargs[name])


def samples_of(text: Any, text_pair: Any, split: bool) -> tuple[list[tuple[Any, ...]], bool]:
    """One or two sides for each sample, and whether it was a batch. A pair can come as two arguments or as a tuple in
    the batch."""
    depth = 1 if split else 0  # how deep a side is nested
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
    raise ValueError(
        f"text must be `str`, or lists of it for batches, pairs and split words, not {type(text).__name__}"
    )


def replace_surrogates_in_side(side: Any) -> Any:
    """A side, or the words of one, without lone surrogates."""
    if isinstance(side, str):
        return replace_surrogates(side)
    if isinstance(side, (list, tuple)):
        return [replace_surrogates_in_side(one) for one in side]
    raise ValueError(
        f"text must be `str`, or lists of it for batches, pairs and split words, not {type(side).__name__}"
    )


def quiet_tagging_pipeline() -> None:
    """The pipeline for tagging, which asks for offsets and special tokens, warns for every token of a vocabulary
    without ## that it takes white space for the border between words. That is right here. It is silenced when it asks,
    since filters may have changed before."""
    if not warnings.filters or getattr(warnings.filters[0][1], "pattern", None) != NO_REAL_WORDS:
        warnings.filterwarnings("ignore", message=NO_REAL_WORDS, category=UserWarning)
