"""Sentence encoders: the loss against loops, batches in chunks, every architecture, and a training that learns."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.config import plugins
from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.contrastive import ContrastiveModule, info_nce, text_numbers
from kobert_pipeline.finetune.encoder_layers import layerwise_lr_decay
from kobert_pipeline.finetune.inference_state import trained_pooling
from kobert_pipeline.finetune.model import build, load, predict
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.finetune.train import train_and_select
from kobert_pipeline.training.evaluations import EVALUATIONS, read_evaluations

ARCHITECTURES = plugins.contract("architectures")
VOCAB_SIZE, CLS, SEP = 120, 2, 3
SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def plain_loss(vectors: list[list[list[float]]], texts: list[list[int]], temperature: float) -> float:
    """InfoNCE with loops: every row's own pair against the pairs and negatives of all rows, copies left out."""
    total = 0.0
    for row, (query, own, *_) in enumerate(texts):
        right = math.exp(cosine(vectors[row][0], vectors[row][1]) / temperature)
        wrong = 0.0
        for other, numbers in enumerate(texts):
            for place in range(1, len(numbers)):
                is_right = other == row and place == 1
                if not is_right and numbers[place] not in (query, own):
                    wrong += math.exp(cosine(vectors[row][0], vectors[other][place]) / temperature)
        total -= math.log(right / (right + wrong))
    return total / len(texts)


@given(st.integers(1, 6), st.integers(2, 4), st.sampled_from([0.05, 0.3, 1.0]), st.integers(0, 2**32 - 1))
def test_the_loss_equals_loops(rows: int, choices: int, temperature: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = rng.integers(0, 8, (rows, choices))  # many are equal
    vectors = rng.normal(size=(8, 5))[texts]
    found = info_nce(torch.tensor(vectors), torch.tensor(texts), temperature).item()
    assert found == pytest.approx(plain_loss(vectors.tolist(), texts.tolist(), temperature), abs=1e-6)


def test_texts_are_equal_where_all_their_tokens_are() -> None:
    ids = torch.tensor([[[2, 5, 3, 0], [2, 6, 3, 0]], [[2, 6, 3, 0], [2, 6, 6, 3]], [[2, 5, 3, 0], [2, 5, 3, 0]]])
    numbers = text_numbers(ids).tolist()
    expected = [[0, 1], [1, 2], [0, 0]]
    places = [(row, side) for row in range(3) for side in range(2)]
    for a, b in ((a, b) for a in places for b in places):
        assert (numbers[a[0]][a[1]] == numbers[b[0]][b[1]]) == (expected[a[0]][a[1]] == expected[b[0]][b[1]])


def pairs(count: int, seed: int = 0, negatives: int = 0) -> Features:
    """Texts of random tokens. Of three tokens of a text its pair has the translations, the number plus 50; they have no
    token in common, so that only training makes their vectors similar. A negative has one of the translations."""
    rng = np.random.default_rng(seed)
    rows, examples = [], []
    for number in range(count):
        words = rng.choice(np.arange(10, 60), 3, replace=False)
        texts = [[*words.tolist(), *[9] * int(rng.integers(3))], rng.permutation(words + 50).tolist()]
        texts += [[int(words[0]) + 50, *rng.integers(60, 110, 2).tolist()] for _ in range(negatives)]
        rows += [[CLS, *text, SEP] for text in texts]
        names = [" ".join(map(str, text)) for text in texts]
        examples.append({"id": str(number), "text": names[0], "text_pair": names[1], "negatives": names[2:]})
    tokens = flatten(rows, np.int32)
    arrays = {"windows": row_starts(rows), "input_ids": tokens, "token_type_ids": np.zeros_like(tokens)}
    return Features(arrays | {"choices": np.array(2 + negatives)}, examples)


def encoder(name: str, folder: Path, task: Contrastive, dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    sizes = ARCHITECTURES.choose({"name": name, **SMALL})
    sizes.save(sizes.model(sizes.config(VOCAB_SIZE), next(iter(sizes.heads))), folder)
    torch.manual_seed(5)
    return build(task, folder, False, FinetunePlan(dropout=dropout), max_length=64)


def gradients(module: ContrastiveModule, batch: dict[str, torch.Tensor]) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and its gradients, with the same random numbers each time."""
    torch.manual_seed(3)
    module.zero_grad()
    loss, _ = module.train()(batch)
    loss.backward()
    return loss.item(), {name: each.grad.clone() for name, each in module.named_parameters() if each.grad is not None}


@pytest.fixture(params=["bert", "modernbert"])
def dropping(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return encoder(request.param, tmp_path / "pretrained", Contrastive(), dropout=0.3)


def test_a_batch_in_chunks_has_the_gradients_of_the_same_chunks_in_one_graph(
    dropping: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, whose random numbers are drawn chunk by chunk in both."""
    batch = Batches(pairs(10, negatives=1), {}, 10, seed=1).batch(0, 0, 1)
    module = ContrastiveModule(dropping, Contrastive(), max_tokens=3 * batch["input_ids"][0].numel())
    loss, cached = gradients(module, batch)
    monkeypatch.setattr(
        "kobert_pipeline.finetune.contrastive.checkpoint", lambda function, use_reentrant, **inputs: function(**inputs)
    )
    plain_loss, plain = gradients(module, batch)
    assert loss == plain_loss
    assert cached.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(cached[name], gradient, msg=name)
    other_loss, _ = gradients(ContrastiveModule(dropping, Contrastive(), max_tokens=1), batch)
    assert other_loss != pytest.approx(loss, abs=1e-4)  # dropout has an effect


def test_a_batch_in_chunks_has_the_gradients_of_the_batch_and_keeps_less_in_memory(tmp_path: Path) -> None:
    batch = Batches(pairs(12), {}, 12, seed=1).batch(0, 0, 1)
    model = encoder("bert", tmp_path / "pretrained", Contrastive())

    def kept(module: ContrastiveModule) -> int:
        """Numbers that the forward pass keeps for the backward pass."""
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: (sizes.append(x.numel()), x)[1], lambda x: x):
            module.train()(batch)
        return sum(sizes)

    whole = ContrastiveModule(model, Contrastive())
    expected, plain = gradients(whole, batch)
    for rows in (1, 5):
        chunked = ContrastiveModule(model, Contrastive(), max_tokens=rows * batch["input_ids"][0].numel())
        loss, found = gradients(chunked, batch)
        assert loss == pytest.approx(expected, abs=1e-5)
        for name, gradient in plain.items():
            torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-4, msg=name)
        assert kept(chunked) < kept(whole) / 3


@pytest.mark.parametrize("name", ARCHITECTURES.names())
def test_every_architecture_trains_and_loads_as_an_encoder(name: str, tmp_path: Path) -> None:
    task, features = Contrastive(pooling="max"), pairs(6)
    model = encoder(name, tmp_path / "pretrained", task)
    _, found = gradients(ContrastiveModule(model, task), Batches(features, {}, 6, seed=1).batch(0, 0, 1))
    trained = {f"vectors.encoder.{key}" for key, value in model.named_parameters() if value.requires_grad}
    assert found.keys() == trained  # DDP requires that all have a gradient
    assert all(
        "pooler" in key or "embed_positions" in key
        for key, value in model.named_parameters()
        if not value.requires_grad
    )
    assert min(layerwise_lr_decay(model, 0.5).values()) == 0.25
    model.save_pretrained(tmp_path / "tuned")
    loaded = load(tmp_path / "tuned")
    assert trained_pooling(loaded.config.to_dict()) == "max"
    rows = [predict(each, task, features, "cpu").logits["vectors"] for each in (model, loaded)]
    np.testing.assert_allclose(*rows, atol=1e-6)


def test_training_raises_the_mrr_of_dev_far_above_chance(tmp_path: Path) -> None:
    task, dev = Contrastive(), pairs(100, seed=1)
    model = encoder("bert", tmp_path / "pretrained", task, dropout=0.1)
    chance = 100 * sum(1 / rank for rank in range(1, 11)) / 100
    assert predict(model, task, dev, "cpu").scores["mrr@10"] < 5 * chance
    plan = FinetunePlan(batch_size=50, epochs=2, learning_rate=5e-3, seed=1, max_tokens_per_device=300)
    result = train_and_select(
        model, task, pairs(500), dev, plan, tmp_path / "run", best_folder=tmp_path / "run" / "model"
    )
    assert result["steps"] == 20
    assert result["dev"]["mrr@10"] > 15 * chance
    assert predict(load(tmp_path / "run" / "model"), task, dev, "cpu").scores == pytest.approx(result["dev"], abs=1e-3)


def test_a_dev_set_with_scores_selects_by_spearman(tmp_path: Path) -> None:
    """Pairs with the score 1, and the same texts with the pair of another, with the score 0."""
    task, plain = Contrastive(), pairs(40, seed=1)
    others = Features(plain.arrays, [{**example, "score": number % 2} for number, example in enumerate(plain.examples)])
    starts, ids = plain.arrays["windows"], plain.arrays["input_ids"]
    texts = [ids[start:end].tolist() for start, end in pairwise(starts)]
    for number in range(0, 80, 4):  # rows 0, 2, ... get the second text of the row after them
        texts[number + 1] = texts[number + 3]
    tokens = flatten(texts, np.int32)
    arrays = plain.arrays | {"windows": row_starts(texts), "input_ids": tokens, "token_type_ids": 0 * tokens}
    dev = Features(arrays, others.examples)
    model = encoder("bert", tmp_path / "pretrained", task, dropout=0.1)
    plan = FinetunePlan(batch_size=50, epochs=2, learning_rate=5e-3, seed=1)
    run = tmp_path / "run"
    result = train_and_select(model, task, pairs(500), dev, plan, run, best_folder=run / "model")
    assert set(result["dev"]) == {"spearman", "pearson"}
    evaluations = read_evaluations(run / EVALUATIONS).values()
    assert result["dev"]["spearman"] == max(scores["spearman"] for scores in evaluations)
    assert result["dev"]["spearman"] > 50
    assert predict(load(run / "model"), task, dev, "cpu").scores == pytest.approx(result["dev"], abs=1e-3)
