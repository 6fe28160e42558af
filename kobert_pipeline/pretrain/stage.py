"""Shards -> a pretrained model, resumable at any step."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from kobert_pipeline.checkpoint.source import CONFIG, base_model_of, commit_of, local_folder, locate
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.files import read_json, remove_files, remove_if_empty
from kobert_pipeline.pretrain.architecture import switch_off_dropout
from kobert_pipeline.pretrain.base_config import architecture_of, lacking_heads, read_config
from kobert_pipeline.pretrain.continued import load as load_checkpoint
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.pretrain.starting import base_files, start_from
from kobert_pipeline.pretrain.word_vectors import start_from_counts
from kobert_pipeline.progress import current_display, new_head_text, report
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.loading import vocabulary_in
from kobert_pipeline.training.plan import TRAINING_WRITES
from kobert_pipeline.training.trackers import Tracking

if TYPE_CHECKING:
    from kobert_pipeline.pretrain.held_out import HeldOutEvaluator
    from kobert_pipeline.training.evaluations import Evaluations

VERSION = 3
EVALUATIONS, FEWEST_STEPS = 10, 50
"""How often a training is evaluated by default, and the steps between two evaluations of a short one, since one costs
as much as five steps."""
MODEL, BEST = "model", "best"
"""Folders inside the stage's: of the final model, and of the one with the lowest held-out loss where that is not the
final one."""
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "generator/config.json",
    "generator/model.safetensors",
)
WRITES = (*(f"{folder}/{name}" for folder in (MODEL, BEST) for name in MODEL_FILES), *TRAINING_WRITES)
"""Patterns of all files that the stage writes to its folder."""


def raw_files(options: PretrainOptions) -> list[Path]:
    """The user's files that the stage reads: the files of the base to start from, none for a base on the Hub. Raises
    UserError for a base that is neither."""
    if options.base and local_folder(options.base) is None:
        locate(options.base, weights=None)
        return []
    return base_files(locate(options.base)) if options.base else []


def run(
    options: PretrainOptions, shards: Path, tokenizer: Path, out: Path, checkpoint: Path | None = None,
    tracking: Tracking | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train a new model, or the model in the folder `checkpoint`, whose own tokenizer is then in `tokenizer`. Save it
    to `out/model`, and the one with the lowest held-out loss to `out/best` where it is another. Returns counts."""
    # torch only from here on: `kobert check` reads the options above without it
    from kobert_pipeline.pretrain.held_out import HeldOutEvaluator
    from kobert_pipeline.pretrain.model import LossModule, attention_kernel, batches
    from kobert_pipeline.training.device import adapt_to_device, device
    from kobert_pipeline.training.fsdp import full_params
    from kobert_pipeline.training.loop import train

    plan, (vocabulary, special) = adapt_to_device(options.plan), vocabulary_in(tokenizer)
    train_shards, held_out = (Shards.open(shards, split, special) for split in ("train", "held_out"))
    options, model, started = initial_model(options, train_shards, vocabulary, tokenizer, checkpoint)
    # moved here and not by accelerate, because the initial model is evaluated first
    module = LossModule(model, options.objective, options.architecture, plan.fp32_residual_connection).to(device())
    schedule = PhaseSchedule(train_shards, options.parts(), vocabulary.get_vocab_size(), plan.seed)
    evaluator = HeldOutEvaluator(module, options, plan.mixed_precision, held_out, vocabulary, out)
    started = evaluate_start(started, evaluator)
    kernel = attention_kernel(device(), plan, module)  # before the training, since it warns of a slow one
    every = plan.evaluate_every or max(FEWEST_STEPS, schedule.steps // EVALUATIONS)
    plan = plan.model_copy(update={"evaluate_every": every})
    batch_at, parts_at = batches(schedule, plan, module), schedule.parts_at
    trained = train(module, batch_at, plan, schedule.steps, out, evaluator, tracking=tracking, parts_at=parts_at)
    with full_params(module):
        if is_main_process():
            options.architecture.save(model, out / MODEL)
    _settle_best(evaluator.evaluations, last_is_best=evaluator.best == schedule.steps, folder=out / BEST)
    return {
        "steps": schedule.steps,
        "tokens_seen": schedule.tokens(),
        **started,
        "attention_kernel": kernel,
        "mixed_precision": plan.mixed_precision,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train_loss": round(trained.loss, 4),
        **evaluator.summary(schedule.steps),
    }


def initial_model(
    options: PretrainOptions, shards: Shards, vocabulary: Tokenizer, tokenizer: Path, checkpoint: Path | None
) -> tuple[PretrainOptions, Any, dict[str, Any]]:
    """The model of `checkpoint`, or one for the vocabulary, from scratch, with word vectors of `shards`, or from
    `base`; with it the options, with that architecture, and what was taken over and what starts at random."""
    import torch

    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    # right before the model is made, so that its initial weights depend on the seed alone
    torch.manual_seed(options.plan.seed)
    if checkpoint:
        architecture, model, started = load_checkpoint(options.objective, options.longest, checkpoint)
        options = options.model_copy(update={"architecture": architecture})
        return options, model, started | new_head(options, checkpoint)
    architecture, head, vocab_size = options.architecture, options.objective.head, vocabulary.get_vocab_size()
    if options.base:
        folder = locate(options.base)
        # again, since a base on the Hub may not have been there when the recipe was read
        architecture = architecture_of(options.base, architecture)
        config = architecture.config_like(read_config(folder), vocab_size)
        dropouts = switch_off_dropout(config)
        model = architecture.model(config, head)
        started = start_from(model, folder, tokenizer)
        # only the training goes without dropout: the saved config has the base's, for fine-tuning
        model.config.update(dropouts)
        known = {"commit": commit_of(options.base, folder), "base_model": base_model_of(options.base, folder)}
        options = options.model_copy(update={"architecture": architecture})
        started |= {key: text for key, text in known.items() if text}
        return options, model, started | new_head(options, folder)
    model = architecture.model(architecture.config(vocab_size), head)
    vectors = options.word_vectors
    started = start_from_counts(model, shards.of_sources(options.sources), vectors) if vectors else {}
    return options, model, started


def new_head(options: PretrainOptions, folder: Path) -> dict[str, Any]:
    """The heads that the objective needs and that the model in a folder lacks, as an entry of counts; {} for none."""
    heads = lacking_heads(read_json(folder / CONFIG), options.objective.head)
    return {"new_head": {"heads": " and ".join(heads)}} if heads else {}


def evaluate_start(started: dict[str, Any], evaluator: "HeldOutEvaluator") -> dict[str, Any]:
    """Evaluate the initial model; returns its counts `started`, with the loss of a new head beside a uniform
    guess's."""
    report("evaluating")
    evaluator.evaluate_start()
    if "new_head" not in started:
        return started
    before, uniform = evaluator.evaluations[0], math.log(len(evaluator.characters))
    losses = {"loss": before.get("mlm_loss", before.get("clm_loss")), "uniform_loss": round(uniform, 6)}
    started |= {"new_head": started["new_head"] | losses}
    if is_main_process():
        current_display().say(f"note     {new_head_text(started)}")
    return started


def _settle_best(evaluations: "Evaluations", last_is_best: bool, folder: Path) -> None:
    """Verify the model with the lowest held-out loss in `folder`, or delete it where the final model is that one. Rank
    0 alone does so, as it alone writes."""
    if not is_main_process():
        return
    if last_is_best:
        remove_files(folder, MODEL_FILES)
        remove_if_empty(folder)
    else:
        evaluations.verify_best(folder)
