"""What int8 costs a published model: its file against torch on the dev set or, where there is no task, on held-out
documents of the pretraining."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import kobert_pipeline.finetune.stage as finetune_stage
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.files import read_json
from kobert_pipeline.publish.card_facts import Int8Cost
from kobert_pipeline.training.hf_config import fine_tuned_for, inference_length
from kobert_pipeline.training.weight_files import ONNX_INT8

MAX_DOCUMENTS, MAX_TOKENS, BATCH_SIZE = 1000, 128, 64
"""Held-out documents that are compared, the tokens of each, and how many are computed together."""


def cost_on_dev(features: Path, published: Path) -> Int8Cost:
    """The predictions of torch and of the int8 file for the dev split in `features`."""
    from kobert_pipeline.finetune import model, onnx_model
    from kobert_pipeline.training.device import device_for

    _, state = fine_tuned_for(read_json(published / "config.json"))
    task, dev = finetune_stage.task_of(features).with_inference_state(state), Features.load(features / "dev")
    ours, theirs = (
        model.predict(one.to(device_for(one)), task, dev, device_for(one))
        for one in (model.load(published), onnx_model.load(published, ONNX_INT8))
    )
    differ = sum(one != other for one, other in zip(ours.predictions, theirs.predictions, strict=True))
    # numbers, such as those of a regression, nearly all differ a little
    are_numbers = any(isinstance(one, float) for one in ours.predictions)
    metric = task.selection_metric(ours.scores)
    scores = tuple(round(one.scores[metric], 4) for one in (ours, theirs))
    return Int8Cost(len(dev.examples), metric, scores, None if are_numbers else differ)


def cost_on_held_out(shards: Path, published: Path) -> Int8Cost:
    """The vectors of torch and of the int8 file for the start of held-out documents."""
    from kobert_pipeline.finetune import model, onnx_model
    from kobert_pipeline.shards.format import Shards

    length = min(MAX_TOKENS, inference_length(read_json(published / "config.json")))
    texts = [
        shard.ids[start : min(start + length, end)].tolist()
        for _, shard in Shards.open(shards, "held_out")
        for start, end in pairwise(shard.documents.tolist())
    ]
    features = features_of_ids([text for text in texts if text][:MAX_DOCUMENTS])
    ours, theirs = (
        unit_vectors(one, features) for one in (model.load(published), onnx_model.load(published, ONNX_INT8))
    )
    cosines = (ours * theirs).sum(1)
    return Int8Cost(len(cosines), cosine=(float(cosines.mean()), float(cosines.min())))


def unit_vectors(model: Any, features: Features) -> np.ndarray:
    """The mean of each text's last hidden states, with length 1: (n, H), shortest texts first."""
    import torch

    from kobert_pipeline.finetune.batching import by_length, padded
    from kobert_pipeline.finetune.model import drop_unsupported_inputs, pad_id_of
    from kobert_pipeline.finetune.pooling import encoder_of, weighted_mean
    from kobert_pipeline.training.device import device_for

    device, encoder, found = device_for(model), encoder_of(model.to(device_for(model))), []
    for rows in by_length(features, BATCH_SIZE):
        batch = padded(features, rows, device, pad_id=pad_id_of(encoder))
        with torch.no_grad():
            states = encoder(**drop_unsupported_inputs(encoder, batch)).last_hidden_state
        vectors = weighted_mean(states.float(), batch["attention_mask"].float())
        found.append(torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy())
    return np.concatenate(found)
