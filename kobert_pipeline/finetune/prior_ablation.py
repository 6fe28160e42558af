"""What a network has learned and what else adds to it: scores of the network alone, with its priors, and of the priors
alone; for an encoder with n-grams, of the network alone and of both.

Priors are options of a task that change its predictions without having been learned, such as the `answer_priors` of
`SpanTask`. Rules can answer a large part of the questions without any network, so a score with priors says nothing of
the network unless these three stand side by side.
"""

import numpy as np

from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.rows import Logits
from kobert_pipeline.features.task import Task

NETWORK, BOTH, PRIORS = "network_alone", "network_and_priors", "priors_alone"
WITH_NGRAMS = "network_and_n-grams"
WHOLE = (BOTH, WITH_NGRAMS)
"""The parts that are a model as it is used."""
TIE_SEEDS = (1, 2, 3)
"""Seeds that break the ties between answers to which the priors give the same score."""
TIE_NOISE = 1e-6
"""The largest logit of a network that says nothing: far below any difference between two priors."""


def prior_ablation(predicted: Predicted) -> dict[str, dict[str, float]]:
    """The scores in percent of the network alone, with its priors, and of the priors alone (the mean over `TIE_SEEDS`),
    or of the network alone and with n-grams; {} where nothing is added to it. The model is not run again."""
    if predicted.network:
        return {NETWORK: predicted.network.scores, WITH_NGRAMS: predicted.scores}
    if (ablated := predicted.task.ablate_priors()) is None:
        return {}
    network, priors = ablated
    by_seed = [_score(priors, constant_logits(predicted.logits, seed), predicted) for seed in TIE_SEEDS]
    return {
        NETWORK: _score(network, predicted.logits, predicted),
        BOTH: predicted.scores,
        PRIORS: {name: float(np.mean([scores[name] for scores in by_seed])) for name in by_seed[0]},
    }


def constant_logits(logits: Logits, seed: int) -> Logits:
    """Equal logits of the same shapes, with noise that only breaks ties between answers with equal priors."""
    rng = np.random.default_rng(seed)
    # float64: in float32 the noise would be lost beside the priors
    return {name: [rng.uniform(0, TIE_NOISE, row.shape) for row in rows] for name, rows in logits.items()}


def _score(task: Task, logits: Logits, predicted: Predicted) -> dict[str, float]:
    return task.score(task.predict(logits, predicted.features), predicted.features.examples)
