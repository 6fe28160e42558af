"""The packed, masked-positions-only loss is HF's own loss on the same batch, padded."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from synthetic_shards import articles, reviews, shards_of
from transformers import BertForMaskedLM, BertForPreTraining

from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.held_out import evaluate
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

Build = Callable[..., BertForPreTraining]


def loader(paired: bool, unpaired: bool) -> Loader:
    shards = shards_of((articles(12) if paired else []) + (reviews(6) if unpaired else []))
    return Loader(shards, SimpleNamespace(objective=MlmNsp(), max_length=48, batch_tokens=400), 200, seed=1)


def batch_of(paired: bool, unpaired: bool) -> Batch:
    """The first batch that satisfies the condition."""
    reader = loader(paired, unpaired)
    for step in range(reader.steps_per_epoch()):
        batch = reader.batch(step)
        labelled = batch.next_sentence_label != IGNORE_INDEX
        if labelled.any() == paired and (~labelled).any() == unpaired:
            return batch
    raise AssertionError("no such batch")


def padded(batch: Batch) -> dict[str, torch.Tensor]:
    """The batch the HF way: a row per sequence, labels of -100 where nothing is predicted."""
    shape = (len(batch.lengths), int(batch.lengths.max()))
    rows = {name: np.zeros(shape, np.int64) for name in ("input_ids", "token_type_ids", "attention_mask")}
    flat_labels = np.full(len(batch.input_ids), IGNORE_INDEX)
    flat_labels[batch.masked_positions] = batch.labels
    rows["labels"] = np.full(shape, IGNORE_INDEX)
    for i, (start, length) in enumerate(zip(batch.starts, batch.lengths, strict=True)):
        part = slice(start, start + length)
        rows["input_ids"][i, :length] = batch.input_ids[part]
        rows["token_type_ids"][i, :length] = batch.token_type_ids[part]
        rows["attention_mask"][i, :length] = 1
        rows["labels"][i, :length] = flat_labels[part]
    return {name: torch.from_numpy(array) for name, array in rows.items()}


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def assert_same_gradients(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("unpaired", [False, True])
def test_loss_and_gradients_equal_hf_bert_for_pre_training(unpaired: Any, tiny_bert: Build) -> None:
    batch = batch_of(True, unpaired)
    module, reference = LossModule(tiny_bert(), MlmNsp(), Bert()), tiny_bert()
    loss, values = module(to_device(batch, "cpu"))
    loss.backward()
    expected = reference(**padded(batch), next_sentence_label=torch.from_numpy(batch.next_sentence_label))
    expected.loss.backward()
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-5), unpaired
    assert values["mlm_loss"].item() + values["nsp_loss"].item() == pytest.approx(loss.item(), abs=1e-5), unpaired
    assert_same_gradients(gradients(module.model), gradients(reference))


def test_loss_without_pairs_equals_hf_bert_for_masked_lm(tiny_bert: Build) -> None:
    batch = batch_of(False, True)
    module = LossModule(tiny_bert(), MlmNsp(), Bert())
    reference = BertForMaskedLM(tiny_bert().config)
    missing = reference.load_state_dict(module.model.state_dict(), strict=False).missing_keys
    assert not missing
    loss, values = module(to_device(batch, "cpu"))
    loss.backward()
    expected = reference(**padded(batch))
    expected.loss.backward()
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)
    assert values["nsp_loss"].isnan()
    assert_same_gradients(gradients(module.model), gradients(reference))


def test_accuracies_are_shares_of_right_predictions(tiny_bert: Build) -> None:
    batch = batch_of(True, True)
    model = tiny_bert().eval()
    with torch.no_grad():
        outputs = model(**{name: rows for name, rows in padded(batch).items() if name != "labels"})
        _, values = LossModule(tiny_bert(), MlmNsp(), Bert()).eval()(to_device(batch, "cpu"))
    labels = padded(batch)["labels"]
    wanted = labels != IGNORE_INDEX
    right = outputs.prediction_logits.argmax(-1)[wanted] == labels[wanted]
    assert values["mlm_accuracy"].item() == pytest.approx(right.float().mean().item())
    nsp = torch.from_numpy(batch.next_sentence_label)
    paired = nsp != IGNORE_INDEX
    right = outputs.seq_relationship_logits.argmax(-1)[paired] == nsp[paired]
    assert values["nsp_accuracy"].item() == pytest.approx(right.float().mean().item())


def test_a_fresh_model_is_near_the_logarithm_of_the_choices(tiny_bert: Build) -> None:
    _, values = LossModule(tiny_bert(), MlmNsp(), Bert())(to_device(batch_of(True, False), "cpu"))
    assert values["mlm_loss"].item() == pytest.approx(math.log(200), abs=0.15)
    assert values["nsp_loss"].item() == pytest.approx(math.log(2), abs=0.15)


def test_a_batch_without_a_masked_token_has_a_finite_loss(tiny_bert: Build) -> None:
    """The last batch of an epoch may be one sequence of three tokens, of which 15 % are mostly none."""
    batch = batch_of(True, False)
    none = np.empty(0, np.int64)
    bare = Batch(**{**vars(batch), "masked_positions": none, "labels": none})
    loss, _ = LossModule(tiny_bert(), MlmNsp(), Bert())(to_device(bare, "cpu"))
    assert torch.isfinite(loss)


def test_one_batch_is_learned_by_heart(tiny_bert: Build) -> None:
    module = LossModule(tiny_bert(), MlmNsp(), Bert())
    batch = to_device(batch_of(True, False), "cpu")
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(150):
        loss, _ = module(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert module(batch)[0].item() < 0.5


def test_the_held_out_loss_is_the_mean_over_the_first_batches_without_dropout(tiny_bert: Build) -> None:
    module, reader = LossModule(tiny_bert(hidden_dropout_prob=0.3), MlmNsp(), Bert()), loader(True, True)
    module.train()
    found = evaluate(module, reader, 3)
    with torch.no_grad():
        losses = [module.eval()(to_device(reader.batch(step), "cpu"))[0].item() for step in range(3)]
    assert found["loss"] == pytest.approx(float(np.mean(losses)), abs=1e-6)
    assert evaluate(module, reader, 3) == found
    assert evaluate(module, reader, 10_000)["loss"] != found["loss"]
