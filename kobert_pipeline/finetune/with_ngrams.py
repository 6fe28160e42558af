"""A fine-tuned encoder and a linear classifier over n-grams as one model, for few labels: the two err elsewhere, and
which of them is better is hard to tell before. The logarithms of their probabilities are added with two weights, which
also correct how sure each of them is (stacking: Wolpert 1992, "Stacked Generalization"; products of experts: Hinton
2002)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.rows import Logits
from kobert_pipeline.features.sequence import labels_single_texts
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.ngrams import (
    BESIDE_ENCODER,
    CONFIG,
    NgramClassifier,
    NgramModel,
    config_of,
    training_texts,
)
from kobert_pipeline.training.hf_config import ConfigValues
from kobert_pipeline.training.weight_files import NGRAMS, NGRAMS_FOLDER

WRITES = tuple(f"{NGRAMS_FOLDER}/{name}" for name in (NGRAMS, CONFIG))
"""Its files, inside the folder of the encoder's model."""
FEW = 5_000
"""Training texts below which an encoder gets n-grams by default: on NSMC they still add 0.7 points with 2,000."""
WEIGHTS = "weights"
# the encoder's weight is lower because after many epochs on few texts it is far too sure of itself. Chosen on three
# draws of reviews and two of judgments, and seen to hold on others (docs/results/finetune)
USUAL = (0.4, 1.0)
"""The weights of encoder and n-grams before dev has been seen."""
SPREAD = 1.0
"""Standard deviation of the logarithm of each weight around the usual one, in the prior of `fitted_weights`."""


@dataclass(frozen=True)
class WithNgrams:
    """The classifier over n-grams that goes with an encoder, and the weights of the encoder's and of its own logarithms
    of probabilities."""

    ngrams: NgramModel
    weights: tuple[float, float]

    @classmethod
    def load(cls, folder: Path, backend: Any) -> "WithNgrams | None":
        """What goes with the encoder in a folder, for texts that the tokenizer with this backend reads; None where the
        encoder is alone."""
        inside = folder / NGRAMS_FOLDER
        if not (inside / NGRAMS).is_file():
            return None
        first, second = read_json(inside / CONFIG)[WEIGHTS]
        return cls(NgramModel.load(inside, backend), (first, second))

    def add_to(self, encoder: Predicted) -> Predicted:
        """The predictions of both, with those of the encoder alone as a part."""
        task, features = encoder.task, encoder.features
        both = mixed(encoder.logits, self.ngrams.predict(task, features).logits, self.weights)
        return Predicted.of(task, features, both, encoder)


def with_ngrams(encoder: Predicted, folder: Path, backend: Any) -> Predicted:
    """The predictions of an encoder with those of the n-grams that go with it in a folder, if any do."""
    added = WithNgrams.load(folder, backend)
    return added.add_to(encoder) if added else encoder


def train(encoder: Predicted, train_set: Features, max_length: int, backend: Any, seed: int, out: Path) -> WithNgrams:
    """Train n-grams on the training set, weigh them by dev, for which the `encoder` has predictions, and write them to
    the encoder's folder `out`. `backend`: of the tokenizer that made the features, of at most `max_length` tokens."""
    task, dev = encoder.task, encoder.features
    config = config_of(task, max_length, backend)
    texts, labels = training_texts(BESIDE_ENCODER, train_set, backend, max_length)
    classifier = NgramClassifier.fit(BESIDE_ENCODER, texts, labels, config["num_labels"], seed)
    ngrams = NgramModel(classifier, ConfigValues(config), backend)
    weights = fitted_weights(encoder.logits, ngrams.predict(task, dev).logits, task.targets(dev)["labels"])
    classifier.save(out / NGRAMS_FOLDER, config | {WEIGHTS: list(weights)})
    return WithNgrams(ngrams, weights)


def fits(task: Task, examples: int, wanted: bool | None) -> bool:
    """Whether n-grams go with an encoder that is trained for a task on so many texts; `wanted` is None where that
    depends on how few they are."""
    return labels_single_texts(task) and (examples < FEW if wanted is None else wanted)


def fitted_weights(encoder: Logits, ngrams: Logits, labels: np.ndarray) -> tuple[float, float]:
    """The likeliest weights by the labels (n,) of dev, with a normal prior on their logarithms around the usual ones,
    since a dev split of a few texts says little."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    of_encoder, of_ngrams = log_probabilities(encoder), log_probabilities(ngrams)
    usual = np.log(USUAL)

    # a function of logarithms, so that no weight becomes negative
    def loss(logarithms: np.ndarray) -> float:
        first, second = np.exp(logarithms)
        chosen = log_softmax(first * of_encoder + second * of_ngrams, axis=1)[np.arange(len(labels)), labels]
        # minus the logarithm of prior times likelihood, without its constants
        return float(((logarithms - usual) ** 2).sum() / (2 * SPREAD**2) - chosen.sum())

    first, second = np.exp(minimize(loss, usual, method="L-BFGS-B").x).tolist()
    return round(first, 4), round(second, 4)


def mixed(encoder: Logits, ngrams: Logits, weights: tuple[float, float]) -> Logits:
    """The logits of both: the logarithms of their probabilities, weighted and added."""
    both = weights[0] * log_probabilities(encoder) + weights[1] * log_probabilities(ngrams)
    return {"logits": list(log_probabilities({"logits": list(both)}).astype(np.float32))}


def log_probabilities(logits: Logits) -> np.ndarray:
    """The logarithms of the probabilities of the classes, (n, classes) float64."""
    from scipy.special import log_softmax

    logarithms: np.ndarray = log_softmax(np.stack(logits["logits"]).astype(np.float64), axis=1)
    return logarithms
