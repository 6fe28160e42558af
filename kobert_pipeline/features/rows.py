"""Rows of `Features` in batches of similar length, as padded arrays, and what a model gives for them, row by row.

Without torch: predictions by ONNX Runtime need nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX, PAD_ID

MODEL_INPUTS = ("input_ids", "token_type_ids")
"""The arrays of `Features` that are model inputs."""
PREDICT_BATCH_SIZE = 64
"""Rows per batch in every prediction on a CPU, at most. Another size rounds differently, and a close decision could
change."""
MAX_PADDING_CPU = 64
"""Tokens of padding above which the rows of a prediction get another batch on a CPU, where one more forward pass costs
less."""
Logits = dict[str, list[np.ndarray]]
"""Each output of a model, one array per row."""


def pad_id_of(model: Any) -> int:
    """The token that pads a model's inputs; 0 where its config does not say, since padding is masked anyway."""
    pad_id = getattr(model.config, "pad_token_id", None)
    return pad_id if isinstance(pad_id, int) else PAD_ID


def by_length(features: Features, batch_size: int, max_padding: float = inf) -> list[np.ndarray]:
    """The numbers of all rows in batches, shortest first, with little padding: for prediction."""
    # stable, since the order in which NumPy's default leaves equal lengths depends on the CPU (AVX2, AVX-512), and rows
    # in other batches round differently
    order = np.argsort(features.lengths, kind="stable")
    parts = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return [batch for part in parts for batch in split_at_padding(part, features.lengths, max_padding)]


def split_at_padding(rows: np.ndarray, lengths: np.ndarray, max_padding: float) -> Iterator[np.ndarray]:
    """Rows in the order of their length, split into batches of at most `max_padding` tokens of padding."""
    first = tokens = 0
    for last, row in enumerate(rows):
        length = int(lengths[row])
        # the rows are sorted, so the others of the batch would be padded to this one
        if (last - first) * length - tokens > max_padding:
            yield rows[first:last]
            first, tokens = last, 0
        tokens += length
    if len(rows):
        yield rows[first:]


def by_tokens(lengths: np.ndarray, limit: int, max_padding: float = inf) -> Iterator[np.ndarray]:
    """The numbers of all rows that have tokens, shortest first, in batches of at most `limit` tokens with padding, but
    at least one row, and of at most `max_padding` tokens of padding."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    first = 0
    for last, row in enumerate(order):
        if last > first and (last + 1 - first) * lengths[row] > limit:
            yield from split_at_padding(order[first:last], lengths, max_padding)
            first = last
    yield from split_at_padding(order[first:], lengths, max_padding)


def padded_arrays(
    features: Features,
    rows: np.ndarray,
    width: int | None = None,
    labels: dict[str, np.ndarray] | None = None,
    pad_id: int = PAD_ID,
) -> dict[str, np.ndarray]:
    """`input_ids`, `token_type_ids`, `attention_mask` and per-token `labels` of `rows`: (n, L) int64 each, or
    (n, choices, L). L is `width`, by default the length of the longest row."""
    index, real = cells(features, rows, width or int(features.lengths[rows].max()))
    # RoBERTa numbers positions by counting what is not padding, so padding must be the model's own token
    pads = dict.fromkeys(MODEL_INPUTS, 0) | {"input_ids": pad_id}
    arrays = {name: np.where(real, features.arrays[name][index], pad) for name, pad in pads.items()}
    arrays |= {"attention_mask": real}
    arrays |= {name: np.where(real, array[index], IGNORE_INDEX) for name, array in (labels or {}).items()}
    return {name: array.astype(np.int64) for name, array in arrays.items()}


def cells(features: Features, rows: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """For each cell of a padded batch the number of its token, and whether it has one: (n, width) each, or
    (n, choices, width)."""
    windows = rows[:, None] * features.choices + np.arange(features.choices)  # (n, C)
    begins, ends = features.arrays["windows"][windows, None], features.arrays["windows"][windows + 1, None]
    index = begins + np.arange(width)  # (n, C, L)
    real = index < ends
    choices = slice(None) if features.choices > 1 else 0  # without choices the dimension C is dropped
    # 0 is any token that exists: what is there is replaced by padding
    return np.where(real, index, 0)[:, choices], real[:, choices]


def outputs_by_row(
    features: Features, batches: Iterable[np.ndarray], outputs_of: Callable[[np.ndarray], dict[str, np.ndarray]]
) -> Logits:
    """What `outputs_of` gives for the rows of each batch, in the order of the rows. Outputs per token are as long as
    the window, without padding."""
    by_row: dict[str, dict[int, np.ndarray]] = {}
    for rows in batches:
        for name, array in outputs_of(rows).items():
            # spans give start_logits and end_logits (n, L), tags logits (n, L, C); other logits are (n, C)
            per_token = name.endswith("_logits") or (name == "logits" and array.ndim == 3)
            for row, values in zip(rows, array, strict=True):
                by_row.setdefault(name, {})[int(row)] = values[: features.lengths[row]] if per_token else values
    return {name: [arrays[i] for i in range(len(features))] for name, arrays in by_row.items()}


def refuse_not_finite(name: str, outputs: Logits, kind: str = "scores") -> None:
    """Raise UserError where a number of an output of the model `name` is NaN or infinite; a prediction from it would be
    meaningless."""
    if not all(np.isfinite(row).all() for rows in outputs.values() for row in rows):
        raise UserError(
            f"{name or 'the model'} gives {kind} that are not finite (NaN or infinite): its weights are damaged; copy "
            "or train it again"
        )
