"""Every objective on every architecture that fits it: losses equal HF's own on padded rows, and packed sequences never
see each other."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rows import SMALL, VOCAB_SIZE, prepared, rows
from synthetic_shards import articles, reviews, shards_of
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from kobert_pipeline.config import plugins
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.model import CPU_MULTIPLE, LossModule, batches
from kobert_pipeline.pretrain.objectives.rtd import auc, sample
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.tokenizer.special_tokens import PAD_ID
from kobert_pipeline.training.plan import Plan


def padded(batch: Any, name: str, values: np.ndarray, filler: int) -> torch.Tensor:
    """Packed values (T,) as rows (n, L)."""
    rows = np.split(values, np.cumsum(batch.lengths)[:-1])
    out = np.full((len(rows), int(batch.lengths.max())), filler)
    for number, row in enumerate(rows):
        out[number, : len(row)] = row
    return torch.from_numpy(out)


def inputs(batch: Any, architecture: str, ids: np.ndarray) -> dict[str, torch.Tensor]:
    found = {"input_ids": padded(batch, "input_ids", ids, PAD_ID)}
    found["attention_mask"] = padded(batch, "attention_mask", np.ones(len(ids), int), 0)
    if architecture not in ("modernbert", "gpt2"):
        found["token_type_ids"] = padded(batch, "token_type_ids", batch.token_type_ids, 0)
    return found


def labels(batch: Any) -> torch.Tensor:
    found = np.full(len(batch.input_ids), -100)
    found[batch.masked_positions] = batch.labels
    return padded(batch, "labels", found, -100)


def test_the_loss_and_its_gradients_equal_hf_on_padded_rows() -> None:
    for objective, architecture in rows():
        module, loader = prepared(objective, architecture)
        batch = loader.batch(0)
        module.eval()
        torch.manual_seed(5)
        loss, _ = module(to_device(batch, "cpu"))
        loss.backward()
        model, name = module.model, architecture["name"]
        gradients = {
            key: parameter.grad.clone() for key, parameter in model.named_parameters() if parameter.grad is not None
        }
        model.zero_grad()
        for part in model.modules():
            if hasattr(part, "set_attn_implementation"):
                part.set_attn_implementation("eager")
        expected = reference(module, batch, name)
        expected.backward()
        assert loss.item() == pytest.approx(expected.item(), rel=2e-5), (objective, architecture)
        for key, parameter in model.named_parameters():
            if parameter.grad is not None and parameter.grad.abs().max() > 1e-7:
                assert torch.allclose(gradients[key], parameter.grad, rtol=2e-3, atol=2e-6), key


def reference(module: LossModule, batch: Any, name: str) -> torch.Tensor:
    """The outputs of HF's own model for the padded batch."""
    model, kind = module.model, module.objective.name
    if kind == "clm":
        given = inputs(batch, name, batch.input_ids)
        return model(**given, labels=given["input_ids"].masked_fill(given["attention_mask"] == 0, -100)).loss
    given = inputs(batch, name, batch.input_ids)
    if kind == "rtd":
        return reference_rtd(model, batch, given)
    pairs = torch.from_numpy(batch.next_sentence_label)
    if module.objective.head == "masked":
        return model(**given, labels=labels(batch)).loss
    if name == "albert":
        return model(**given, labels=labels(batch), sentence_order_label=pairs).loss
    return model(**given, labels=labels(batch), next_sentence_label=pairs).loss


def reference_rtd(model: Any, batch: Any, given: dict[str, torch.Tensor]) -> torch.Tensor:
    generated = model.generator(**given, labels=labels(batch))
    torch.manual_seed(5)
    wanted = labels(batch) != -100
    logits = generated.logits[wanted]
    shares = logits.detach().softmax(-1).cumsum(-1)
    sampled = (shares <= torch.rand(len(shares), 1) * shares[:, -1:]).sum(-1)
    ids = given["input_ids"].clone()
    ids[wanted] = sampled
    replaced = torch.zeros_like(ids)
    replaced[wanted] = (sampled != labels(batch)[wanted]).long()
    return generated.loss + 50 * model(**(given | {"input_ids": ids}), labels=replaced).loss


def test_the_generators_samples_follow_its_distribution() -> None:
    torch.manual_seed(3)
    logits = torch.tensor([0.0, 2.0, float("-inf"), 1.0, -1.0, -9.0])
    drawn = torch.bincount(sample(logits.expand(40_000, -1)), minlength=6).double()
    expected = 40_000 * logits.double().softmax(-1)
    assert drawn[2] == 0
    likely = expected > 5
    chi2 = ((drawn - expected)[likely].square() / expected[likely]).sum()
    assert chi2 < 21  # four degrees of freedom: one seed of 3,000 would exceed it


def test_a_sample_is_a_token_also_where_rounding_leaves_a_rest() -> None:
    torch.manual_seed(3)
    logits = torch.full((2_000, 3_001), -20.0)
    logits[:, 0] = 0.0
    drawn = sample(logits)
    assert drawn.min() >= 0
    assert drawn.max() <= 3_000


def test_a_changed_sequence_changes_no_other() -> None:
    for objective, architecture in rows():
        module, loader = prepared(objective, architecture)
        module.eval()
        batch = to_device(loader.batch(0), "cpu")
        if module.objective.causal:
            batch = replace(batch, layout=replace(batch.layout, causal=True))
        before = module.architecture.hidden(module.model, batch)
        start, end = int(batch.lengths[0]), int(batch.lengths[:2].sum())
        changed = batch.input_ids.clone()
        changed[start:end] = (changed[start:end] + 7) % VOCAB_SIZE
        after = module.architecture.hidden(module.model, replace(batch, input_ids=changed))
        assert torch.equal(before[:start], after[:start]), (objective, architecture)
        assert torch.equal(before[end:], after[end:]), (objective, architecture)
        assert not torch.allclose(before[start:end], after[start:end]), (objective, architecture)


def test_a_causal_model_sees_nothing_that_comes_after() -> None:
    module, loader = prepared("clm", {"name": "gpt2", **SMALL})
    batch = to_device(loader.batch(0), "cpu")
    batch = replace(batch, layout=replace(batch.layout, causal=True))
    before = module.architecture.hidden(module.model, batch)
    changed = batch.input_ids.clone()
    place = int(batch.lengths[0]) - 3
    changed[place] = (changed[place] + 1) % VOCAB_SIZE
    after = module.architecture.hidden(module.model, replace(batch, input_ids=changed))
    assert torch.equal(before[:place], after[:place])
    assert not torch.equal(before[place + 1], after[place + 1])


def test_every_pair_that_does_not_fit_is_refused_before_any_work(kobert, corpora) -> None:
    fits = {
        (objective["name"] if isinstance(objective, dict) else objective, architecture["name"])
        for objective, architecture in rows()
    }
    names = [
        (one, two)
        for one in plugins.contract("objectives").names()
        for two in plugins.contract("architectures").names()
    ]
    refused = [pair for pair in names if pair not in fits]
    assert len(refused) > 5
    for objective, architecture in refused:
        given = (
            "--set",
            f"pretrain.objective={objective}",
            "--set",
            f"pretrain.architecture={architecture}",
            "--set",
            f"data_dir={corpora}",
        )
        complaint = kobert("check", "tiny", *given).complaint
        assert objective in complaint and architecture in complaint
    with pytest.raises(ValueError, match="gpt2"):
        PretrainOptions(objective="mlm", architecture="gpt2")


BASE = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}


def counted(name: str, vocab_size: int, **more: int) -> dict[str, int]:
    return Architecture.choose({"name": name, **BASE, **more}).parameters(vocab_size)


def test_parameters_are_those_that_the_papers_models_have() -> None:
    assert {"embeddings": 23_837_184, "encoder": 85_054_464}.items() <= counted("bert", 30_522).items()
    albert = counted("albert", 30_000)
    mapping = 128 * 768 + 768
    assert albert["embeddings"] + mapping == 4_005_120
    assert albert["encoder"] == 7_186_944
    assert albert["encoder"] - mapping == 7_087_872
    assert counted("gpt2", 50_257, max_position_embeddings=1024)["total"] == 124_439_808
    assert counted("roberta", 50_265)["encoder"] == 85_054_464
    assert counted("electra", 30_522, embedding_size=768)["total"] == 108_891_648


def test_the_generator_shares_the_embeddings_and_is_saved_with_the_discriminator(tmp_path) -> None:
    module, _ = prepared("rtd", {"name": "electra", **SMALL})
    model = module.model
    assert model.generator.electra.embeddings.word_embeddings is model.electra.embeddings.word_embeddings
    assert model.generator.generator_lm_head.weight is model.electra.embeddings.word_embeddings.weight
    module.architecture.save(model, tmp_path)
    assert model.generator is not None
    loaded = ElectraForPreTraining.from_pretrained(tmp_path)
    ids = torch.tensor([[2, 7, 8, 3]])
    model.set_attn_implementation("eager")
    assert torch.allclose(loaded(ids).logits, ElectraForPreTraining.forward(model, ids).logits, atol=1e-6)
    assert not [key for key in loaded.state_dict() if key.startswith("generator")]
    assert torch.equal(
        ElectraForMaskedLM.from_pretrained(tmp_path / "generator").generator_lm_head.weight,
        model.electra.embeddings.word_embeddings.weight,
    )


def test_a_tied_generator_is_the_discriminator_but_for_its_head(tmp_path) -> None:
    how = {"name": "electra", **SMALL, "embedding_size": SMALL["hidden_size"], "generator_share": 1, "tied": "encoder"}
    module, loader = prepared("rtd", how)
    model = module.model
    assert model.generator.electra is model.electra
    loss, _ = module(to_device(loader.batch(0)))
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    module.architecture.save(model, tmp_path)
    alone = ElectraForMaskedLM.from_pretrained(tmp_path / "generator")
    for name, value in ElectraForPreTraining.from_pretrained(tmp_path).electra.state_dict().items():
        assert torch.equal(value, alone.electra.state_dict()[name])
        assert torch.equal(value, model.electra.state_dict()[name])


def test_a_tied_generator_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"generator_share is 0\.25; set it to 1"):
        Architecture.choose({"name": "electra", "tied": "encoder"})


def test_the_area_under_the_curve_equals_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    chosen = torch.Generator().manual_seed(2)
    for decimals in (0, 1, 2, 5):  # few decimals make many scores equal
        scores, positive = torch.randn(300, generator=chosen), torch.rand(300, generator=chosen) < 0.2
        scores = scores.round(decimals=decimals)
        assert auc(scores, positive).item() == pytest.approx(roc_auc_score(positive, scores), abs=1e-5)
    assert auc(torch.randn(3), torch.zeros(3, dtype=torch.bool)).item() == 0.5
    assert auc(torch.zeros(4), torch.arange(4) < 1).item() == 0.5


def test_the_arithmetic_of_a_step_is_what_pytorch_counts() -> None:
    """All products of matrices going forward, but for what is done once a sequence: poolers and heads for pairs."""
    for objective, architecture in rows():
        module, loader = prepared(objective, architecture)
        module.eval()  # in training the output layer's gradient is computed on the way forward, too
        batch = loader.batch(0)
        tensors = to_device(batch, "cpu")
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            module(tensors)
        counted = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
        products = sum(count for op, count in counted.items() if op in ("aten.mm", "aten.addmm"))
        generator = module.architecture.generator_share if module.objective.head == "discriminator" else 0
        squares = (
            4 * (1 + generator) * SMALL["num_hidden_layers"] * SMALL["hidden_size"] * int((batch.lengths**2).sum())
        )
        expected = (float(module.flops(tensors, torch.tensor(len(batch.input_ids)))) - 3 * squares) / 3
        squared = SMALL["hidden_size"] ** 2
        has_pairs = module.objective.head == "pretraining"
        once = has_pairs * 2 * len(batch.lengths) * (squared + 2 * SMALL["hidden_size"])
        assert products == pytest.approx(expected + once, rel=0.01), (objective, architecture)
        assert counted["aten.bmm"] >= squares, (objective, architecture)


def test_what_fills_a_batch_up_is_no_work() -> None:
    module, loader = prepared("mlm_nsp", {"name": "bert", **SMALL})
    batch = loader.batch(0)
    plain, padded_batch = (module(to_device(one))[1] for one in (batch, batch.pad_to(1024, 48)))
    assert padded_batch["tokens"] == plain["tokens"] == len(batch.input_ids)
    assert float(padded_batch["flops"]) == pytest.approx(float(plain["flops"]), rel=1e-6)


def test_batches_have_few_shapes_in_bf16_on_a_cpu_and_the_same_loss() -> None:
    options = PretrainOptions(
        objective="mlm_nsp", architecture={"name": "bert", **SMALL}, max_length=48, batch_tokens=400, total_tokens=2000
    )
    schedule = PhaseSchedule(shards_of(articles(8), reviews(3)), options.parts(), VOCAB_SIZE, seed=1)
    module, _ = prepared("mlm_nsp", {"name": "bert", **SMALL})
    plain, rounded = (batches(schedule, Plan(mixed_precision=precision)) for precision in ("no", "bf16"))
    for step in range(3):
        one, other = plain(step, 0, 1), rounded(step, 0, 1)
        assert {len(tensor) % CPU_MULTIPLE for tensor in (other.input_ids, other.labels, other.lengths)} == {0}
        assert len(one.input_ids) < len(other.input_ids) <= len(one.input_ids) + CPU_MULTIPLE
        found, expected = (module(batch)[0].item() for batch in (other, one))
        assert found == pytest.approx(expected, rel=1e-5)
