"""A pretrained model of every architecture can be published and fine-tuned; it loads in a fresh process with a fitting
tokenizer and gives the same outputs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from kobert_pipeline.config import plugins
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.model import TaskModule, build, logits
from kobert_pipeline.finetune.stage import FinetuneOptions
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.publish import stage
from kobert_pipeline.publish.card_facts import CardFacts
from kobert_pipeline.publish.model_card import PIPELINES, auto_class_of
from kobert_pipeline.publish.snippets import USES

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}
AUTO = {
    "albert": "AutoModelForPreTraining", "bert": "AutoModelForPreTraining", "electra": "AutoModel",
    "gpt2": "AutoModelForCausalLM",
    "modernbert": "AutoModelForMaskedLM", "roberta": "AutoModelForMaskedLM", "roformer": "AutoModelForMaskedLM",
}  # fmt: skip


@pytest.fixture(params=plugins.contract("architectures").names())
def model(request, tiny, tmp_path) -> Path:
    """A model folder as the pretrain stage writes it."""
    torch.manual_seed(0)
    chosen = plugins.contract("architectures").choose({"name": request.param, **SMALL})
    chosen.save(chosen.model(chosen.config(1500), next(iter(chosen.heads))), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_it_is_published_and_a_task_learned_from_it(model, tiny, tmp_path) -> None:
    config = json.loads((model / "config.json").read_text())
    auto = auto_class_of(config)
    assert auto == AUTO[config["model_type"]]
    assert auto in PIPELINES and auto in USES
    facts = CardFacts("x", "x", "x", "apache-2.0", auto, [], {}, "kiwi", "surface", "kiwipiepy")
    counts = stage.run(stage.PublishOptions(), facts, {}, model, tiny.run_dir / "tokenizer", tmp_path / "out")
    assert counts["max_logit_difference"] < 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert tokenizer.model_max_length == 64
    plain = transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "plain")
    for one in (tokenizer, plain):
        assert ("token_type_ids" in one("글")) == (config["model_type"] not in ("gpt2", "modernbert"))
    longest = tokenizer("글 " * 100, truncation=True, return_tensors="pt")
    assert longest["input_ids"].shape[1] == 64
    transformers.AutoModel.from_pretrained(tmp_path / "out")(**longest)
    learned(model, tiny)


def learned(model: Path, tiny) -> None:
    """One step of fine-tuning and a prediction."""
    task = Task.choose("nsmc")
    examples = Features.load(tiny.run_dir / "features" / "nsmc" / "dev").examples[:20]
    features = Features(task.featurize(examples, load_tokenizer(tiny.run_dir / "tokenizer"), 64), examples)
    tuned = build(task, model, False, FinetuneOptions().plan, 64)
    found = logits(tuned, features, 8, "cpu")["logits"]
    assert len(found) == len(features) and all(np.isfinite(row).all() for row in found)
    ids = torch.tensor([[2, 9, 3]])
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.tensor([1]),
    }
    loss, _ = TaskModule(tuned)(batch)
    loss.backward()
    assert torch.isfinite(loss)
