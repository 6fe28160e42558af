"""Checkpoints for every endpoint: those of the tiny run, and a tagger and a model for pairs with random weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, BertForSequenceClassification, BertForTokenClassification

from kobert_pipeline.publish.export import export


def checkpoints(run_dir: Path, place: Path) -> dict[str, str]:
    """{name: folder}; the untrained ones are written to `place`."""
    names = {name: str(run_dir / "publish" / name) for name in ("nsmc", "korquad", "mlm")}
    tags = ["O", "B-PS", "I-PS", "B-LC", "I-LC"]
    names["ner"] = made(BertForTokenClassification, run_dir, place / "ner", {"tagging": {"max_length": 32}}, tags)
    labels = ["different", "same"]
    names["pairs"] = made(BertForSequenceClassification, run_dir, place / "pairs", {"pair": {"max_length": 32}}, labels)
    return names


def made(model: Callable[..., Any], run_dir: Path, out: Path, task: dict[str, Any], labels: list[str]) -> str:
    """A published folder with a model of random weights, so large that every token changes the outputs."""
    config = AutoConfig.from_pretrained(run_dir / "publish" / "mlm")
    config.initializer_range, config.task_specific_params = 0.5, task
    config.id2label, config.label2id = dict(enumerate(labels)), {label: i for i, label in enumerate(labels)}
    torch.manual_seed(0)
    model(config).save_pretrained(out / "model")
    out.mkdir(exist_ok=True)
    export(out / "model", run_dir / "tokenizer", out)
    return str(out)
