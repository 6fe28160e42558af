"""Attention weights of one text or pair: by layer and head, between tokens, morphemes or characters.

Attention is not an explanation of what a model predicts (Jain and Wallace, NAACL 2019; Wiegreffe and Pinter, EMNLP
2019), and every picture says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.rows import refuse_not_finite
from kobert_pipeline.finetune.inference_state import fine_tuned_for
from kobert_pipeline.finetune.model import drop_unsupported_inputs
from kobert_pipeline.finetune.pooling import encoder_of
from kobert_pipeline.inference.loading import load_encoder
from kobert_pipeline.inference.task_of_checkpoint import texts_as_read
from kobert_pipeline.questions.exact_match import match_types
from kobert_pipeline.questions.pos_feature import classes_of, with_parts_of_speech
from kobert_pipeline.tokenizer.loading import is_morpheme_tokenizer
from kobert_pipeline.training.attention import use_attention
from kobert_pipeline.training.device import device
from kobert_pipeline.visualize.page import label_of
from kobert_pipeline.visualize.tokens import Tokens

MAX_TOKENS = 512
"""Longer texts are truncated: the weights grow with the square, to 300 MB of memory for 12 layers of 12 heads here."""
UNITS = ("tokens", "morphemes", "characters")
CAVEAT = (
    "Attention shows where a layer reads from. It is no explanation of what the model predicts (Jain and Wallace 2019; "
    "Wiegreffe and Pinter 2019)."
)


@dataclass(frozen=True)
class Unit:
    """A row and column of the picture: the numbers of its `tokens`, and the `side` of a pair that it is in, None for a
    token that is in neither text."""

    label: str
    detail: str
    side: int | None
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Attention:
    """Attention `weights` (layers, heads, S, S) of S tokens; the weights of a row, a token that reads, add up to 1.

    `units` has the rows and columns by each of `UNITS`. With `by_morpheme` False, the morphemes are the words of the
    tokenizer's own pre-tokenization.
    """

    name: str
    texts: list[str]
    weights: np.ndarray
    units: dict[str, list[Unit]]
    by_morpheme: bool
    truncated: bool

    @classmethod
    def load(cls, folder: Path, texts: Sequence[str], tokenizer: str | None = None) -> "Attention":
        """The attention of a checkpoint, loaded as `kobert predict` loads it, for a text or a pair."""
        loaded = load_encoder(folder, tokenizer)
        return cls.of(label_of(folder), loaded.model, loaded.tokenizer, texts)

    @classmethod
    def of(
        cls, name: str, model: Any, tokenizer: Any, texts: Sequence[str], max_tokens: int | None = None
    ) -> "Attention":
        """The attention of a model in one forward pass over a text, or over two as a pair. `name` is the model's, for
        titles; longer texts are truncated to `max_tokens`. Raises UserError for a text without tokens, or a model whose
        attention cannot be read."""
        longest = min(tokenizer.model_max_length, max_tokens or MAX_TOKENS)
        tokens = Tokens.of(tokenizer, texts_as_read(model.config.to_dict(), tokenizer, texts, longest), longest)
        if not tokens.tokens:
            raise UserError("the text has no tokens; give one with at least a word")
        weights = attention_weights(model, tokens)
        units = {
            "tokens": [_unit(tokens, token.label, [i]) for i, token in enumerate(tokens.tokens)],
            "morphemes": words(tokens),
            "characters": characters(tokens),
        }
        return cls(name, tokens.texts, weights, units, is_morpheme_tokenizer(tokenizer), tokens.truncated)

    @property
    def notice(self) -> str | None:
        """What a reader must know of a text that was truncated."""
        return f"The text is longer, and was truncated to {self.weights.shape[-1]} tokens." if self.truncated else None

    @property
    def title(self) -> str:
        """The text or texts, in one line."""
        return " / ".join(" ".join(text.split()) for text in self.texts)

    def choose(self, layer: int, head: int | None) -> tuple[int, int | None]:
        """The indices of a layer (from 1, or -1 for the last) and a head (from 1, None for the mean). Raises UserError
        where the model has no such layer or head."""
        layers, heads = self.weights.shape[:2]
        if not (1 <= layer <= layers or -layers <= layer <= -1):
            raise UserError(f"layer {layer}: the model has the layers 1 to {layers}, -1 is the last one")
        if head is not None and not 1 <= head <= heads:
            raise UserError(f"head {head}: the model has the heads 1 to {heads}; without one it is their mean")
        return layer - 1 if layer > 0 else layers + layer, None if head is None else head - 1

    def matrix(self, layer: int, head: int | None, unit: str) -> np.ndarray:
        """The weights (U, U) of one layer and head, by their indices; of the mean of all heads with None."""
        weights = self.weights[layer].mean(0) if head is None else self.weights[layer, head]
        return sum_to_units(weights, self.units[unit])


def token_types(model: Any, tokens: Tokens) -> list[int]:
    """The token types that a model reads a sequence with: as in its fine-tuning for a question and a context
    with `exact_match_feature` or `pos_feature`, else as the tokenizer gives them."""
    options = fine_tuned_for(model.config.to_dict())[1]
    if len(tokens.texts) == 1 or not options.get("exact_match_feature"):
        return tokens.type_ids
    sides = [token.side for token in tokens.tokens]
    type_ids: list[int] = match_types([token.id for token in tokens.tokens], sides).tolist()
    if not options.get("pos_feature"):
        return type_ids
    # parts of speech are the context's alone, and negative offsets are outside it
    offsets = [(token.start, token.end) if token.side == 1 else (-1, -1) for token in tokens.tokens]
    return with_parts_of_speech(type_ids, offsets, classes_of(tokens.texts[1]))


def attention_weights(model: Any, tokens: Tokens) -> np.ndarray:
    """The weights (layers, heads, S, S) float32 of one sequence. Raises UserError for a model that does not give
    them."""
    encoder = encoder_of(model)
    ids = torch.tensor([[token.id for token in tokens.tokens]])
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.tensor([token_types(model, tokens)]),
    }
    best = device()
    encoder.to(best)
    before = encoder.config._attn_implementation
    use_attention(encoder, "eager")  # the other implementations never have the weights in memory
    try:
        with torch.no_grad():
            outputs = encoder(
                **drop_unsupported_inputs(encoder, {name: tensor.to(best) for name, tensor in batch.items()}),
                output_attentions=True,
            )
    finally:
        # `kobert serve` keeps predicting with this model
        use_attention(encoder, before)
    layers = [layer for layer in getattr(outputs, "attentions", None) or () if layer is not None]
    size = ids.shape[1]
    if not layers or any(layer.shape != (1, layers[0].shape[1], size, size) for layer in layers):
        raise UserError(
            f"{type(encoder).__name__} has no attention from every token to every other that could be read; choose a "
            "checkpoint such as a BERT, RoBERTa, ELECTRA or GPT-2"
        )
    # L x (1, A, S, S) -cat-> (L, A, S, S); in float32, since NumPy has no bfloat16
    weights = torch.cat(layers).float().cpu().numpy()
    refuse_not_finite(str(getattr(model, "name_or_path", "")), {"attention": [weights]}, "attention weights")
    return weights


def words(tokens: Tokens) -> list[Unit]:
    """The words of tokens, which are the morphemes of a tokenizer over them; added tokens are words of their own."""
    groups: list[list[int]] = []
    for i, token in enumerate(tokens.tokens):
        before = tokens.tokens[groups[-1][0]] if groups else None
        if before and token.word is not None and (token.side, token.word) == (before.side, before.word):
            groups[-1].append(i)
        else:
            groups.append([i])
    return [_word(tokens, group) for group in groups]


def _word(tokens: Tokens, group: Sequence[int]) -> Unit:
    members = [tokens.tokens[i] for i in group]
    side = members[0].side
    start, end = min(token.start for token in members), max(token.end for token in members)
    text = "" if side is None else tokens.texts[side][start:end].strip()
    return _unit(tokens, text or "".join(token.token for token in members), group)


def characters(tokens: Tokens) -> list[Unit]:
    """The characters that tokens are made of, without white space. A token without a character, such as an added one,
    is a unit of its own."""
    labels: dict[tuple[int | None, int], str] = {}
    groups: dict[tuple[int | None, int], list[int]] = {}
    for i, token in enumerate(tokens.tokens):
        side, text = token.side, "" if token.side is None else tokens.texts[token.side]
        visible = {(side, c): text[c] for c in range(token.start, min(token.end, len(text))) if not text[c].isspace()}
        for position, label in (visible or {(None, i): token.label}).items():
            labels[position] = label
            groups.setdefault(position, []).append(i)
    return [_unit(tokens, labels[position], group) for position, group in groups.items()]


def _unit(tokens: Tokens, label: str, group: Sequence[int]) -> Unit:
    members = [tokens.tokens[i] for i in group]
    return Unit(label, "; ".join(token.detail for token in members), members[0].side, tuple(group))


def shares_of(size: int, units: Iterable[Unit]) -> np.ndarray:
    """How much of each of `size` tokens belongs to each unit, (S, U): a token of several units is split evenly, so that
    rows add up to 1."""
    # (U, S) -T-> (S, U); no row is all zeros, since every token is in a unit
    members = np.array([[i in unit.tokens for i in range(size)] for unit in units], np.float64).T
    return members / members.sum(1, keepdims=True)


def sum_to_units(weights: np.ndarray, units: Sequence[Unit]) -> np.ndarray:
    """Weights between units (..., U, U) from those between tokens (..., S, S): the columns of a unit's tokens are
    summed and their rows averaged, as Clark et al. (BlackboxNLP 2019) do for words. Rows still add up to 1."""
    shares = shares_of(weights.shape[-1], units)
    averages = (shares / shares.sum(0)).T  # (S, U) -> (U, S)
    # (U, S) @ (..., S, S) @ (S, U) -> (..., U, U)
    return averages @ weights @ shares
