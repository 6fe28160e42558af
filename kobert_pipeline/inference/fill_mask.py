"""The likeliest tokens for [MASK], by a checkpoint with an MLM head."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.features.rows import MAX_PADDING_CPU, by_tokens, pad_id_of, padded_arrays, refuse_not_finite
from kobert_pipeline.finetune.onnx_model import OnnxModel
from kobert_pipeline.inference.loading import head_of
from kobert_pipeline.morphemes.normalization import replace_surrogates

BATCH_TOKENS = 1024
"""Tokens per batch, with padding; each has a logit for the whole vocabulary: 130 MB for 32,000 tokens."""


def fills_masks(model: Any) -> bool:
    """Whether the model has an MLM head."""
    name = head_of(model)
    # an ELECTRA discriminator and a Splinter have none, although their classes have the suffix
    without = ("ElectraForPreTraining", "SplinterForPreTraining")
    return name.endswith(("ForPreTraining", "ForMaskedLM")) and name not in without


def fill_masks(model: Any, tokenizer: Any, texts: list[str], top_ks: Sequence[int]) -> list[dict[str, Any]]:
    """The `top_ks[i]` most likely tokens for each [MASK] of text i, with their probabilities. Raises UserError for a
    text without [MASK], or with one that would be truncated, and for a tokenizer that has none."""
    if tokenizer.mask_token_id is None:
        raise UserError(
            f"{model.name_or_path}: its model fills masks, but its tokenizer has no mask token; name it as mask_token "
            "in tokenizer_config.json"
        )
    for text in texts:
        if tokenizer.mask_token not in text:
            raise UserError(
                f"this checkpoint fills {tokenizer.mask_token}, but a text has none: {text[:40]!r}; write "
                f"{tokenizer.mask_token} where a token is missing"
            )
    # what is truncated is noticed by the number of [MASK] left
    read = [replace_surrogates(text) for text in texts]
    ids = tokenizer(read, truncation=True, max_length=tokenizer.model_max_length)["input_ids"] if texts else []
    for text, row in zip(texts, ids, strict=True):
        if row.count(tokenizer.mask_token_id) < text.count(tokenizer.mask_token):
            raise UserError(
                f"a {tokenizer.mask_token} is beyond the model's {tokenizer.model_max_length} tokens; shorten the text"
            )
    masks: list[list[dict[str, float]]] = [[] for _ in texts]
    for index, logits in mask_logits(model, ids, tokenizer.mask_token_id):
        masks[index] = [likeliest(tokenizer, row, top_ks[index]) for row in logits]
    return [{"text": text, "masks": probabilities} for text, probabilities in zip(texts, masks, strict=True)]


def mask_logits(model: Any, ids: list[list[int]], mask_id: int) -> Iterator[tuple[int, np.ndarray]]:
    """The index of each text and the logits of its masks, (masks, V) float32; the shortest texts first."""
    features = features_of_ids(ids)
    if isinstance(model, OnnxModel):
        logits_of, max_padding = _by_onnx, MAX_PADDING_CPU
    else:
        from kobert_pipeline.finetune.batching import max_padding_on
        from kobert_pipeline.training.device import device

        logits_of, max_padding = _by_torch, max_padding_on(device())
        model.to(device())
    for rows in by_tokens(features.lengths, BATCH_TOKENS, max_padding):
        for index, logits in zip(rows.tolist(), logits_of(model, features, rows, mask_id), strict=True):
            refuse_not_finite(model.name_or_path, {"logits": list(logits)})
            yield index, logits


def _by_torch(model: Any, features: Features, rows: np.ndarray, mask_id: int) -> list[np.ndarray]:
    """The logits of the masks of each row, by torch."""
    import torch

    from kobert_pipeline.finetune.batching import padded
    from kobert_pipeline.finetune.model import drop_unsupported_inputs
    from kobert_pipeline.training.device import device

    batch = padded(features, rows, device(), pad_id=pad_id_of(model))
    with torch.no_grad():
        outputs = model(**drop_unsupported_inputs(model, batch))
    # BertForPreTraining has two heads, and its MLM logits a name of their own
    logits = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    is_mask = batch["input_ids"] == mask_id
    return [values[chosen].float().cpu().numpy() for chosen, values in zip(is_mask, logits, strict=True)]


def _by_onnx(model: OnnxModel, features: Features, rows: np.ndarray, mask_id: int) -> list[np.ndarray]:
    """The logits of the masks of each row, by ONNX Runtime."""
    arrays = padded_arrays(features, rows, pad_id=model.pad_id)
    outputs = model.outputs(arrays)
    logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
    return [values[row == mask_id] for row, values in zip(arrays["input_ids"], logits, strict=True)]


def likeliest(tokenizer: Any, logits: np.ndarray, top_k: int) -> dict[str, float]:
    """The most likely tokens by (V,) logits, with their probabilities."""
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    # stable: of equal logits the lower id is first on every machine
    ranked = np.argsort(-logits, kind="stable")
    # models of others may have rows for more ids than there are tokens; such an id is the token None
    tokens = ((tokenizer.convert_ids_to_tokens([int(index)])[0], index) for index in ranked)
    likely = islice((pair for pair in tokens if pair[0] is not None), top_k)
    of_letters = dict[str, float]()
    for token, index in likely:
        letters = in_letters(tokenizer, token)
        # an added token may have the letters of another one
        of_letters[token if letters in of_letters else letters] = round(float(probabilities[index]), 4)
    return of_letters


def in_letters(tokenizer: Any, token: str) -> str:
    """A token as it is, or where a tokenizer's are over bytes (`ìĺģíĻĶ`) the letters that these bytes are, if whole."""
    decoder = tokenizer.backend_tokenizer.decoder
    text = decoder.decode([token]) if type(decoder).__name__ == "ByteLevel" else token
    return token if "\ufffd" in text else str(text)
