"""Logits computed in chunks equal the logits of all rows."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from rows import SMALL, VOCAB_SIZE, assert_same, gradients, prepared, rows, sample_the_likeliest

from kobert_pipeline.pretrain import linear_cross_entropy, losses
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.tensor_batch import to_device

BERT = {"name": "bert", **SMALL}
ROWS = {
    "clm": ("clm", {"name": "gpt2", **SMALL}),
    "mlm": ("mlm_nsp", BERT),
    "rtd": ("rtd", {"name": "electra", **SMALL}),
}


def outcome(
    module: LossModule, batch: Batch, chunk_logits: int | None = None
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Loss and logged values, and gradients, with at most so many logits at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "CHUNK_LOGITS", chunk_logits or losses.CHUNK_LOGITS)
        loss, values = module(to_device(batch))
        loss.backward()
    return {"loss": loss.detach(), **values}, gradients(module)


def test_loss_gradients_and_values_are_those_of_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, training in product(ROWS, [True, False]):
        with monkeypatch.context() as patch:
            sample_the_likeliest(patch)
            module, loader = prepared(*ROWS[kind])
            module.train(training)
            batch = loader.batch(0)
            values, whole = outcome(module, batch)
            count = len(batch.labels)
            for size in (1, 7, count - 1, count, count + 1, 10_000):
                found, slopes = outcome(module, batch, size * VOCAB_SIZE)
                assert_same(found, values, rtol=1e-5)
                assert_same(slopes, whole, atol=1e-5)


def test_in_bf16_they_are_about_as_near_to_fp32_as_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of the output layer are rounded to bf16 in each chunk, and there are up to fifty here."""
    for kind in ROWS:
        with monkeypatch.context() as patch:
            sample_the_likeliest(patch)
            module, loader = prepared(*ROWS[kind])
            batch = loader.batch(0)
            _, exact = outcome(module, batch)
            with torch.autocast("cpu", torch.bfloat16):
                values, whole = outcome(module, batch)
                found, chunked = outcome(module, batch, 7 * VOCAB_SIZE)
            assert_same(found, values, rtol=1e-5)
            flat = [torch.cat([one[name].flatten() for name in exact]) for one in (exact, whole, chunked)]
            assert (flat[2] - flat[0]).norm() <= 4 * (flat[1] - flat[0]).norm(), kind
            assert (flat[2] - flat[0]).norm() < 0.05 * flat[0].norm(), kind


def test_logits_are_never_more_than_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for objective, architecture in rows():
        with monkeypatch.context() as patch:
            passes_hold_so_many_rows(objective, architecture, patch)


def passes_hold_so_many_rows(objective: Any, architecture: Any, patch: pytest.MonkeyPatch) -> None:
    module, loader = prepared(objective, architecture)
    batch, seen = loader.batch(0), rows_of_logits(module, patch)
    for training in (True, False):
        module.train(training)
        outcome(module, batch, 16 * VOCAB_SIZE)
        assert max(seen) == 16 and sum(seen) == len(batch.labels), (objective, architecture, training)
        seen.clear()


def rows_of_logits(module: LossModule, patch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of rows of every matrix of logits from now on, of training and of evaluation."""
    kind, seen = type(module.architecture), list[int]()
    in_training, in_evaluation = linear_cross_entropy._turn_into_gradient, kind.token_logits

    def counted(logits: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append(len(logits))
        return in_training(logits, *rest)

    def counted_too(self: Any, model: Any, hidden: torch.Tensor) -> torch.Tensor:
        seen.append(len(hidden))
        return in_evaluation(self, model, hidden)

    patch.setattr(linear_cross_entropy, "_turn_into_gradient", counted)
    patch.setattr(kind, "token_logits", counted_too)
    return seen


def test_a_chunk_has_a_limited_number_of_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows of logits, and one row where not even that is within the limit; equal to all rows at once."""
    for kind, training, (limit, largest) in product(ROWS, [True, False], [(8 * VOCAB_SIZE - 1, 7), (1, 1)]):
        with monkeypatch.context() as patch:
            sample_the_likeliest(patch)
            module, loader = prepared(*ROWS[kind])
            module.train(training)
            batch, seen = loader.batch(0), rows_of_logits(module, patch)
            values, whole = outcome(module, batch)
            seen.clear()
            found, slopes = outcome(module, batch, limit)
            assert max(seen) == largest
            assert_same(found, values, rtol=1e-5)
            assert_same(slopes, whole, atol=1e-5)


def test_a_batch_with_nothing_to_predict_has_a_finite_loss() -> None:
    for kind, chunk_logits, training in product(ROWS, [None, 5 * VOCAB_SIZE], [True, False]):
        module, loader = prepared(*ROWS[kind])
        module.train(training)
        none = np.empty(0, np.int64)
        values, slopes = outcome(module, replace(loader.batch(0), masked_positions=none, labels=none), chunk_logits)
        assert torch.isfinite(values["loss"]), (training, chunk_logits, kind)
        assert values["clm_loss" if kind == "clm" else "mlm_loss"] == 0, (training, chunk_logits, kind)
        assert all(torch.isfinite(slope).all() for slope in slopes.values()), (training, chunk_logits, kind)
