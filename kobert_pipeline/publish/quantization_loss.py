"""What fewer bits cost a published model: two files of weights against each other on the dev set or, where there is no
task, on held-out documents of the pretraining."""

from itertools import pairwise
from pathlib import Path

import numpy as np

from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.inference_state import fine_tuned_for, inference_length
from kobert_pipeline.publish.card_facts import RoundingCost, WeightFile
from kobert_pipeline.training.weight_files import WEIGHTS

MAX_DOCUMENTS, MAX_TOKENS, BATCH_SIZE = 1000, 128, 64
"""Held-out documents that are compared, the tokens of each, and how many are computed together."""


def cost_on_dev(features: Path, exact: WeightFile, rounded: WeightFile) -> RoundingCost:
    """The predictions of a model from two files of weights for the dev split in `features`. N-grams that go with it are
    left out: ONNX Runtime and `transformers` compute none, and they would hide what the weights lose."""
    _, state = fine_tuned_for(read_json(exact.folder / "config.json"))
    task, dev = Task.of_features(features).with_inference_state(state), Features.load(features / "dev")
    return difference(*(predictions(weights, task, dev) for weights in (exact, rounded)))


def difference(ours: Predicted, theirs: Predicted) -> RoundingCost:
    """How far other predictions for the same examples are from ours."""
    differ = sum(a != b for a, b in zip(ours.predictions, theirs.predictions, strict=True))
    # numbers, such as a regression's, nearly all differ a little
    are_numbers = any(isinstance(prediction, float) for prediction in ours.predictions)
    metric = ours.task.selection_metric(ours.scores)
    scores = tuple(round(predicted.scores[metric], 4) for predicted in (ours, theirs))
    return RoundingCost(len(ours.predictions), metric, scores, None if are_numbers else differ)


def cost_on_held_out(shards: Path, exact: WeightFile, rounded: WeightFile) -> RoundingCost:
    """The vectors of a model from two files of weights for the start of held-out documents."""
    from kobert_pipeline.shards.format import Shards

    length = min(MAX_TOKENS, inference_length(read_json(exact.folder / "config.json")))
    texts = [
        shard.ids[start : min(start + length, end)].tolist()
        for _, shard in Shards.open(shards, "held_out")
        # (D + 1,) boundaries -pairwise-> D documents
        for start, end in pairwise(shard.documents.tolist())
    ]
    features = features_of_ids([text for text in texts if text][:MAX_DOCUMENTS])
    ours, theirs = (unit_vectors(weights, features) for weights in (exact, rounded))
    cosines = (ours * theirs).sum(1)
    return RoundingCost(len(cosines), cosine=(float(cosines.mean()), float(cosines.min())))


def predictions(weights: WeightFile, task: Task, features: Features) -> Predicted:
    """The predictions of the model of a file of weights, by torch or by ONNX Runtime."""
    from kobert_pipeline.finetune import model, onnx_model
    from kobert_pipeline.training.device import device

    folder, file = weights
    if file != WEIGHTS:
        return onnx_model.load(folder, file).predict(task, features)
    return model.predict(model.load(folder).to(device()), task, features, device(), activity=f"predicting by {file}")


def unit_vectors(weights: WeightFile, features: Features) -> np.ndarray:
    """The mean of each text's last hidden states, with length 1: (n, H)."""
    from kobert_pipeline.finetune import model, onnx_model
    from kobert_pipeline.finetune.pooling import SentenceVectors
    from kobert_pipeline.training.device import device

    folder, file = weights
    if file == WEIGHTS:
        encoder = SentenceVectors(model.load(folder).to(device()), "mean")
        of_rows = model.logits(encoder, features, BATCH_SIZE, device(), activity=f"computing vectors by {file}")
    else:
        of_rows = onnx_model.load(folder, file).vectors(features, "mean")
    vectors = np.stack(of_rows["vectors"])
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
