"""Features + a pretrained model -> a fine-tuned model for one seed. The model is selected on dev; the test set is read
once, at the end."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from kobert_pipeline.config.options import Options, Seed
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import Postponed, UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, read_json_with_digest, write_json_with_digest
from kobert_pipeline.finetune import distill, with_ngrams
from kobert_pipeline.finetune.class_weights import ClassWeights, label_weights
from kobert_pipeline.finetune.distill import Distillation
from kobert_pipeline.finetune.inference_state import fine_tuned_for
from kobert_pipeline.finetune.ngrams import Ngrams
from kobert_pipeline.finetune.plan import FinetunePlan, Plans
from kobert_pipeline.finetune.results import PREDICTIONS, record_test, rounded_ablation, rounded_scores, split_details
from kobert_pipeline.tokenizer.loading import backend_in
from kobert_pipeline.training.evaluations import EVALUATIONS, Evaluations, read_evaluations
from kobert_pipeline.training.hf_config import max_input_length
from kobert_pipeline.training.plan import TRAINING_WRITES
from kobert_pipeline.training.trackers import Tracking

VERSION = 1
MODEL = "model"
"""Folder of the best model, inside the run's."""
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "feature_based.json")
SOFT_LABELS_FOLDER = "soft-labels"
"""Folder of the texts and soft labels of a distillation, beside the folders of the seeds."""
TRAINED = "logs/trained.json"
"""What the training of a run returned that was postponed before its test set was read."""
PRETRAINED, SCRATCH = "pretrained", "scratch"
"""Where weights come from if not from another fine-tuning."""
WRITES = (
    *(f"{MODEL}/{name}" for name in (*MODEL_FILES, *with_ngrams.WRITES)), PREDICTIONS, TRAINED, *TRAINING_WRITES,
)  # fmt: skip
"""Patterns of all files that the stage writes to its folder."""


class FinetuneOptions(Options):
    """Options of one fine-tuning."""

    features: str | None = None
    """Name of the features to train on; default: the name of this fine-tuning."""
    init: str = PRETRAINED
    """`pretrained`: start from the pretrained weights; `scratch`: the same architecture with random weights, as a
    control; the name of an earlier fine-tuning: train its model further, from the same seed or else from its first
    (intermediate-task training, Phang et al. 2018). A head for other labels is made anew."""
    seeds: list[Seed] = Field([1], min_length=1)
    """Random seeds, one run each."""
    # options younger than the first runs are in the fingerprint only where they are used, so that those runs stay valid
    encoder: Literal["tuned", "frozen"] = Field("tuned", exclude_if=lambda value: value == "tuned")
    """`tuned`: train all weights; `frozen`: the feature-based approach (Devlin et al. 2019, section 5.3) for tagging
    and labels of single texts, in which a BiLSTM is trained over the last four layers of an unchanged encoder. Such a
    model cannot be published."""
    ngrams: Ngrams | None = Field(None, exclude_if=lambda value: value is None)
    """Train a linear classifier over character n-grams instead, as a baseline or a teacher (`{}`: with its defaults);
    null: train the encoder."""
    baseline: Literal["ngrams", "none"] = Field("ngrams", exclude_if=lambda value: value == "ngrams")
    """`ngrams`: where single texts get a label, also train a linear classifier over n-grams on the same features, in
    the fine-tuning `FEATURES-ngrams`, so that its scores stand beside the encoder's; `none`: do not."""
    with_ngrams: bool | None = Field(None, exclude_if=lambda value: value is None)
    """Whether a linear classifier over n-grams becomes a part of the model, where single texts get a label: dev chooses
    the weights of encoder and n-grams. null: where there are fewer than 5,000 training texts, except with a `baseline`
    of none, `class_weights` or `distill`. `kobert` predicts with both, other programs with the encoder alone."""
    class_weights: ClassWeights | None = Field(None, exclude_if=lambda value: value is None)
    """Weights of the labels in the loss, for labels of texts, pairs and tokens: `balanced` lets each label count the
    same, however rare, and {LABEL: WEIGHT} gives the weights of some, the others have 1; null: every example counts the
    same."""
    distill: Distillation | None = Field(None, exclude_if=lambda value: value is None)
    """Learn from soft labels of unlabelled texts first; null: from the training set alone."""
    test: bool = Field(True, exclude_if=lambda value: value)
    """Whether the test set is read at the end. `false` is for a teacher, whose test score nobody reports: it has its
    scores on dev."""
    plan: Plans = Plans()
    """Optimizer, schedule, epochs; lists of learning rates or epochs form a grid search."""

    @property
    def may_add_ngrams(self) -> bool:
        """Whether n-grams may become a part of the model: for labels of single texts, which the options do not know."""
        if self.with_ngrams is not None or self.ngrams is not None:
            return bool(self.with_ngrams)
        alone = self.baseline == "none" or self.class_weights or self.distill
        return self.encoder == "tuned" and not alone

    @property
    def earlier(self) -> str | None:
        """The name of the fine-tuning whose model this one trains further, if there is one."""
        return None if self.init in (PRETRAINED, SCRATCH) else self.init

    @property
    def origins(self) -> list[str]:
        """The names of the fine-tunings whose models this one starts from or learns from."""
        names = [*filter(None, [self.earlier]), *(self.distill.teachers if self.distill else ())]
        return list(dict.fromkeys(names))

    @field_validator("class_weights", mode="before")
    @classmethod
    def _names_are_text(cls, weights: Any) -> Any:
        # YAML reads labels such as 0 and 1 as numbers
        return {str(name): weight for name, weight in weights.items()} if isinstance(weights, dict) else weights

    @field_validator("class_weights")
    @classmethod
    def _are_positive(cls, weights: ClassWeights | None) -> ClassWeights | None:
        wrong = [name for name, weight in weights.items() if not 0 < weight < inf] if isinstance(weights, dict) else []
        if wrong:
            raise ValueError(f"the weight of '{wrong[0]}' must be a number above 0")
        return weights

    @model_validator(mode="after")
    def _check_ngrams(self) -> "FinetuneOptions":
        if self.ngrams is not None:
            for name in ("init", "encoder", "class_weights", "distill", "plan", "with_ngrams"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} is for encoders, but ngrams trains none; leave one of the two out")
        return self

    @model_validator(mode="after")
    def _check_epochs(self) -> "FinetuneOptions":
        if self.distill is None and any(plan.epochs == 0 for plan in self.plan.settings().values()):
            raise ValueError("plan.epochs is 0, which is for learning soft labels alone; set distill, or train longer")
        return self

    @model_validator(mode="after")
    def _check_frozen(self) -> "FinetuneOptions":
        if self.encoder == "frozen" and self.plan.layerwise_lr_decay < 1:
            raise ValueError(
                f"encoder is 'frozen' and plan.layerwise_lr_decay {self.plan.layerwise_lr_decay:g}, but the layers of "
                "a frozen encoder are not trained; leave one out"
            )
        return self


def run(
    options: FinetuneOptions,
    seed: int,
    features: Path,
    pretrained: Path,
    out: Path,
    trials: Mapping[str, Path] | None = None,
    tracking: Tracking | None = None,
    soft_labels: Path | None = None,
    before_test: bool = False,
    tokenizer: Path | None = None,
) -> dict[str, Any]:
    """Train with `seed`, keep the model of the best evaluation in `out/model`, and, unless `options.test` is False,
    write `predictions.jsonl` for the test set. `trials`: {setting: folder} of a grid search, whose best setting is
    used; `soft_labels`: the folder that `options.distill` needs; `tokenizer`: the folder of the tokenizer that made the
    features, where n-grams may become a part of the model. Returns the counts and scores for the manifest.

    Raises Postponed where `before_test` is true and a test set is to be read; when called again with `before_test`
    false, it only evaluates the test set."""
    task = Task.of_features(features)
    plan = chosen_plan(options, task, trials or {})
    selected = {name: getattr(plan, name) for name in options.plan.varied}
    if (out / TRAINED).is_file():
        trained = read_json_with_digest(out / TRAINED)["trained"]
        Evaluations(out / EVALUATIONS).verify_best(out / MODEL)
    else:
        trained = _train_seed(options, plan, seed, features, pretrained, out, MODEL, tracking, soft_labels)
        if tokenizer and is_main_process():
            trained |= _add_ngrams(options, task, seed, features, tokenizer, out / MODEL)
    if not is_main_process():
        return {}  # rank 0 alone evaluates the test set and writes
    if before_test and options.test and (features / "test").is_dir():
        write_json_with_digest(out / TRAINED, {"trained": trained})
        raise Postponed("the test set")
    counts = selected | trained
    return counts | (final_evaluation(task, features, out, tokenizer) if options.test else {})


def trial(
    options: FinetuneOptions,
    plan: FinetunePlan,
    seed: int,
    features: Path,
    pretrained: Path,
    out: Path,
    tracking: Tracking | None = None,
    soft_labels: Path | None = None,
) -> dict[str, Any]:
    """Train with one setting of a grid search, as `run` does, but keep only the scores on dev, and no model. The test
    set is not opened."""
    from kobert_pipeline.training.loop import NotFinite

    try:
        return _train_seed(options, plan, seed, features, pretrained, out, None, tracking, soft_labels)
    except NotFinite as error:
        # as happens when a learning rate is too high: this setting is not selected, but the search continues. Without
        # its evaluations `best_of` leaves it out
        (out / EVALUATIONS).unlink(missing_ok=True)
        return {"not_finite": str(error).partition(";")[0]}


def chosen_setting(options: FinetuneOptions, features: Path, trials: Mapping[str, Path]) -> dict[str, str]:
    """The part of a run's fingerprint that comes from the grid search: only the selected setting, so that a longer list
    which selects the same one leaves the run valid."""
    return {"setting that is best on dev": best_of(trials, Task.of_features(features))} if trials else {}


def chosen_plan(options: FinetuneOptions, task: Task, trials: Mapping[str, Path]) -> FinetunePlan:
    """The plan of the best setting, or the only plan where there are no lists."""
    settings = options.plan.settings()
    return settings[best_of(trials, task)] if options.plan.varied else next(iter(settings.values()))


def best_of(trials: Mapping[str, Path], task: Task) -> str:
    """The setting whose best step has the best score on dev, the first of equals. Raises UserError where no setting
    reached an evaluation."""
    scores = {}
    for name, folder in trials.items():
        if evaluations := read_evaluations(folder / EVALUATIONS):
            scores[name] = max(task.selection_score(values) for values in evaluations.values())
    if not scores:
        raise UserError(
            f"none of the settings {', '.join(trials)} reached an evaluation on dev, because their losses were not "
            "finite; give lower learning rates"
        )
    return max(scores, key=lambda name: scores[name])


def _train_seed(
    options: FinetuneOptions,
    plan: FinetunePlan,
    seed: int,
    features: Path,
    pretrained: Path,
    out: Path,
    model_folder: str | None,
    tracking: Tracking | None,
    soft_labels: Path | None,
) -> dict[str, Any]:
    """Train on train and select on dev; the test split is not opened. The best model is saved in `out/model_folder`, if
    that is given."""
    # torch only from here on: `kobert check` reads the options above without it
    import torch

    from kobert_pipeline.finetune.model import build
    from kobert_pipeline.finetune.train import train_and_select
    from kobert_pipeline.training.device import adapt_to_device, device
    from kobert_pipeline.training.log import quiet_transformers

    task, settings = Task.of_features(features), read_json(features / "task.json")
    max_length, vocab_size = settings["max_length"], settings.get("vocab_size", 0)
    positions = max_input_length(read_json(pretrained / "config.json"))
    if max_length > positions:
        raise UserError(
            f"{features} was made with max_length {max_length}, but the model has {positions} positions; lower "
            "max_length of these features"
        )
    train, dev = (Features.load(features / split) for split in ("train", "dev"))
    plan = adapt_to_device(plan.model_copy(update={"seed": seed}))
    quiet_transformers()
    # right before the model is built, so that a new head depends on the seed alone
    torch.manual_seed(seed)
    model = build(task, pretrained, options.init == SCRATCH, plan, max_length, options.encoder == "frozen", vocab_size)
    weights, counts = _class_weights(options, task, train)
    best_folder = out / model_folder if model_folder else None
    soft = distill.load(soft_labels, options.distill) if soft_labels and options.distill else None
    trained = train_and_select(model.to(device()), task, train, dev, plan, out, best_folder, tracking, soft, weights)
    return trained | counts | {"mixed_precision": plan.mixed_precision}


def _class_weights(
    options: FinetuneOptions, task: Task, train: Features
) -> tuple[np.ndarray | None, dict[str, dict[str, float]]]:
    """The weights of the labels in the loss, (labels,), and the manifest's entry for them; None for null."""
    if not options.class_weights:
        return None, {}
    names = list(task.config()["id2label"].values())
    weights = label_weights(options.class_weights, task.targets(train)["labels"], names)
    return weights, {
        "class_weights": {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)}
    }


def _add_ngrams(
    options: FinetuneOptions, task: Task, seed: int, features: Path, tokenizer: Path, model: Path
) -> dict[str, Any]:
    """Add n-grams to the best model, where they go with it. Returns the counts that change: the scores on dev of both
    together, and their weights; {} where the encoder stays alone."""
    train = Features.load(features / "train")
    if not (options.may_add_ngrams and with_ngrams.fits(task, len(train), options.with_ngrams)):
        return {}
    backend, max_length = backend_in(tokenizer), read_json(features / "task.json")["max_length"]
    encoder = _encoder_predictions(task, features, "dev", model)
    added = with_ngrams.train(encoder, train, max_length, backend, seed, model)
    both = added.add_to(encoder)
    return {
        "dev": rounded_scores(both), "dev_prior_ablation": rounded_ablation(both), "ngrams_weights": list(added.weights)
    }  # fmt: skip


def _encoder_predictions(task: Task, features: Path, split: str, folder: Path) -> Predicted:
    """What the model in a folder predicts for a split."""
    from kobert_pipeline.finetune.model import load, predict
    from kobert_pipeline.training.device import device

    model = load(folder).to(device())
    _, state = fine_tuned_for(model.config.to_dict())
    examples = Features.load(features / split)
    return predict(model, task.with_inference_state(state), examples, device(), activity=f"predicting {split}")


def final_evaluation(task: Task, features: Path, out: Path, tokenizer: Path | None = None) -> dict[str, Any]:
    """Evaluate `out/model` on the test set and write its predictions to `out/predictions.jsonl`. Without a test set,
    dev is predicted once more, with the weights that were kept, for its `split_details`; its scores are known."""
    split = "test" if (features / "test").is_dir() else "dev"
    has_classes = bool(task.label_counts([]))
    if split == "dev" and not (has_classes or task.ablate_priors()):
        return {}  # nothing to add to its scores
    predicted = _encoder_predictions(task, features, split, out / MODEL)
    if tokenizer:
        predicted = with_ngrams.with_ngrams(predicted, out / MODEL, backend_in(tokenizer))
    return (record_test(out, predicted) if split == "test" else {}) | split_details(predicted, split)
