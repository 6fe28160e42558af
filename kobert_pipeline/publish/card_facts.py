"""What a model card tells of a model, as data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kobert_pipeline.publish.costs import Cost

NO_NETWORK = "no network"
"""What stands in place of the initial weights of a classifier over n-grams, which has none."""
Scores = dict[str, list[float]]
"""{metric: [value per seed]}"""


@dataclass(frozen=True)
class Results:
    """The scores of a fine-tuning over all its seeds."""

    name: str
    task: str
    split: str
    """`dev` or `test`, the split that the scores are of."""
    scores: Scores
    controls: dict[str, Scores] = field(default_factory=dict)
    """Scores of the same network trained from scratch on the same data, by fine-tuning, the best on dev first."""
    seed: str = ""
    """The seed of the published weights."""
    seed_scores: dict[str, float] = field(default_factory=dict)
    """The scores of that seed alone."""
    class_report: dict[str, Any] = field(default_factory=dict)
    """That seed's scores by class and its confusion matrix; {} for tasks without classes."""
    from_scratch: bool = False
    """Whether the fine-tuning started from random weights."""
    made_for_dev: int = 0
    """The number of dev examples that were made from the corpus."""
    initial_weights: str = "pretrained"
    """What the fine-tuning started from, if not random weights; `no network` for a classifier over n-grams."""
    dataset: str = ""
    """The data set that was evaluated, or the name of its file; "" where no more than `split` is known."""
    dataset_split: str = ""
    """What the data set itself calls the part that was evaluated: a public dev set that is read as test set stays one.
    """
    dataset_id: str | None = None
    """Name of the data set on the Hub."""
    examples: int = 0
    """The number of examples that the scores are of; 0 where it is not known."""
    ablation: dict[str, Scores] = field(default_factory=dict)
    """Scores of the network alone, with its priors, and of the priors alone; {} for a task without priors."""
    seed_ablation: dict[str, dict[str, float]] = field(default_factory=dict)
    """The scores of `ablation` for the published seed alone."""
    ablation_as_stored: bool = False
    """Whether the two ablations were measured with the weights as they are stored, not as they were trained."""
    baselines: dict[str, Scores] = field(default_factory=dict)
    """Scores of classifiers over n-grams on the same data, by fine-tuning, the best on dev first."""

    @property
    def title(self) -> str:
        """The name of the set in tables."""
        return f"{self.dataset} ({self.dataset_split})" if self.dataset else f"{self.name} ({self.split})"


class WeightFile(NamedTuple):
    """A model's folder and the file of its weights there, for torch or for ONNX Runtime."""

    folder: Path
    file: str


@dataclass(frozen=True)
class RoundingCost:
    """How far a model with weights of fewer bits is from the exact one: on the dev set, or by the vectors of held-out
    texts."""

    texts: int
    metric: str = ""
    scores: tuple[float, ...] = ()
    """The metric of the exact and of the rounded model; () for vectors."""
    different: int | None = None
    """The number of predictions that differ; None where they are numbers."""
    cosine: tuple[float, ...] = ()
    """The mean and the least cosine of the two models' vectors; () for predictions."""


Compare = Callable[[WeightFile, WeightFile], RoundingCost]
"""How far the second file of weights is from the first."""


@dataclass(frozen=True)
class CardFacts:
    """What the run knows about the model."""

    name: str
    recipe: str
    description: str
    license: str
    auto_class: str
    sources: list[dict[str, str]]
    """The training files: rows of `path`, `license` and `use`; of a known data set also `dataset`, `dataset_id` and
    `attribution`."""
    counts: dict[str, str]
    analyzer: str = ""
    """What cuts texts into morphemes for its tokenizer; "" for a tokenizer that is not of this package."""
    style: str = ""
    library: str = ""
    """The package to install for the analyzer, "" if it needs none."""
    base: str | None = None
    """The checkpoint that it was made from."""
    base_model: str | None = None
    """Name of that checkpoint on the Hub, or of the model that the checkpoint's card names as its base."""
    results: Results | None = None
    plain: bool = False
    """Whether the folder has a tokenizer without an analyzer in `plain/`, besides its own."""
    plain_is_own: bool = False
    """Whether that one is the folder's own, since the model was trained for it, and the one with the analyzer is in a
    folder of the analyzer's name."""
    plain_share: float = 0
    """The share of the training examples that were tokenized without the analyzer."""
    plain_agreement: float | None = None
    """The share of the corpus's eojeols that the tokenizer in `plain/` tokenizes alike; None without a corpus."""
    paired: bool = False
    """Whether it labels pairs of texts."""
    example: dict[str, Any] = field(default_factory=dict)
    """Texts of the task's own domain for the Python example, by their names in examples of the task."""
    inference_options: dict[str, Any] = field(default_factory=dict)
    """What its config says of its task: the options that it must be used with, and `max_length`."""
    gives_vectors: bool = False
    """Whether the folder has the files of `sentence-transformers`."""
    onnx_difference: float | None = None
    """The largest difference between the outputs of the ONNX file and of torch; None if there is no such file."""
    ngrams_weights: list[float] = field(default_factory=list)
    """Of an encoder with n-grams: the weights of the two; [] without n-grams."""
    int8_cost: RoundingCost | None = None
    """What the int8 file costs; None if there is no such file."""
    bfloat16_cost: RoundingCost | None = None
    """What storing the weights in bfloat16 costs; None if they are in float32."""
    permission: str | None = None
    evaluated: list[dict[str, str]] = field(default_factory=list)
    """The dev and test files, and other data on which options were chosen, in rows like `sources`."""
    noise: dict[str, Any] = field(default_factory=dict)
    """Scores with missing spaces and typing errors on the set `of`, as `evaluation.evaluate.under_noise` gives them; {}
    where they were not measured."""
    measured_again: bool = False
    """Whether these weights were measured on the final evaluation's data again, after the run."""
    author: str | None = None
    selection: str | None = None
    """How the values of the recipe's options were chosen, in its publisher's words."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the libraries that trained it, by name, and the `commit` of this package where it is known."""
    year: str = ""
    costs: list[Cost] = field(default_factory=list)
