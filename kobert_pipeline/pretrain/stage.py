"""Shards -> a pretrained model, resumable at any step."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator
from tokenizers import Tokenizer

from kobert_pipeline.config.options import Options
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.files import remove_files, remove_if_empty
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.objective import Masking, Objective
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.phases import Phase, PhaseSchedule
from kobert_pipeline.pretrain.starting import base_files, start_from
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.training.plan import TRAINING_WRITES, Plan

if TYPE_CHECKING:
    from kobert_pipeline.training.evaluations import Evaluations

VERSION = 1
MODEL, BEST = "model", "best"
"""Folders below the stage's: of the finished model, and of the one with the lowest held-out loss where that is not the
last."""
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "generator/config.json",
    "generator/model.safetensors",
)
WRITES = (*(f"{folder}/{name}" for folder in (MODEL, BEST) for name in MODEL_FILES), *TRAINING_WRITES)
"""Patterns of every file that the stage writes to its folder."""


class PretrainOptions(Options):
    """Objective, architecture and budget."""

    objective: Objective = MlmNsp()
    """What is learned."""
    architecture: Architecture = Bert()
    """What learns it."""
    max_length: int = Field(128, ge=16)
    """Tokens in a sequence, special tokens included."""
    batch_tokens: int = Field(8192, ge=64)
    """Tokens in a step."""
    total_tokens: int = Field(16_000_000, gt=0)
    """Tokens seen in all: the budget."""
    phases: tuple[Phase, ...] = ()
    """Parts of the budget with their own length or batch, in order: [{share: 0.9, max_length: 128}, {share: 0.1,
    max_length: 512}]."""
    base: str | None = None
    """Checkpoint (published folder, or a BERT in transformers' form, below data_dir) whose weights to start from.
    Tokens that its vocabulary lacks start as the mean of those that spell them."""
    base_license: str | None = Field(None, exclude=True)
    """Licence of that checkpoint. What is published is held against it."""
    plan: Plan = Plan()
    """Optimizer, schedule, checkpoints."""

    def parts(self) -> list[tuple[int, "PretrainOptions"]]:
        """The tokens of each phase, and these options with its own."""
        return [
            (round(self.total_tokens * phase.share), self.of_phase(phase)) for phase in self.phases or (Phase(share=1),)
        ]

    def of_phase(self, phase: Phase) -> "PretrainOptions":
        """These options with a phase's own."""
        own = {name: value for name in ("max_length", "batch_tokens") if (value := getattr(phase, name)) is not None}
        return self.model_copy(update=own)

    def with_whole_word_masking(self) -> "PretrainOptions":
        """These options where whole eojeols are hidden together: seen parts of a word would tell the rest of it."""
        if not isinstance(self.objective, Masking):
            return self
        return self.model_copy(update={"objective": self.objective.model_copy(update={"mask_unit": "eojeol"})})

    @model_validator(mode="after")
    def _lengths(self) -> "PretrainOptions":
        if self.phases and abs(sum(phase.share for phase in self.phases) - 1) > 1e-6:
            raise ValueError(
                f"the shares of phases make {sum(phase.share for phase in self.phases):g}; they must make 1"
            )
        for one in (self, *(self.of_phase(phase) for phase in self.phases)):
            if one.max_length > self.architecture.max_position_embeddings:
                raise ValueError(
                    f"max_length {one.max_length} is beyond the architecture's max_position_embeddings "
                    f"{self.architecture.max_position_embeddings}; lower the one or raise the other"
                )
            if one.batch_tokens < one.max_length:
                raise ValueError(
                    f"batch_tokens {one.batch_tokens} holds no sequence of max_length {one.max_length}; raise it"
                )
        return self

    @model_validator(mode="after")
    def _fits(self) -> "PretrainOptions":
        if self.architecture.hidden_size % self.architecture.num_attention_heads:
            raise ValueError(
                f"num_attention_heads {self.architecture.num_attention_heads} must divide hidden_size "
                f"{self.architecture.hidden_size}"
            )
        if self.objective.head not in self.architecture.heads:
            raise ValueError(
                f"objective {self.objective.name} needs a model of kind '{self.objective.head}', "
                f"which {self.architecture.name} has not{did_you_mean(self.objective.head, self.architecture.heads)}"
            )
        return self


def raw_files(options: PretrainOptions, data_dir: Path) -> list[Path]:
    """The user's files that the stage reads."""
    return base_files(data_dir / options.base) if options.base else []


def run(options: PretrainOptions, shards: Path, tokenizer: Path, data_dir: Path, out: Path) -> dict[str, Any]:
    """Train and save the model to `out/model`, and to `out/best` that of the lowest held-out loss where it is not the
    last."""
    # torch only from here on: `kobert check` reads the options above without it
    import torch

    from kobert_pipeline.pretrain.held_out import HeldOutEvaluator
    from kobert_pipeline.pretrain.model import LossModule, batches
    from kobert_pipeline.training.device import device
    from kobert_pipeline.training.fsdp import full_params
    from kobert_pipeline.training.log import quiet_transformers
    from kobert_pipeline.training.loop import train

    plan = options.plan
    quiet_transformers()
    torch.manual_seed(plan.seed)
    vocabulary = Tokenizer.from_file(str(tokenizer / VOCABULARY_FILE))
    model = options.architecture.model(options.architecture.config(vocabulary.get_vocab_size()), options.objective.head)
    started = start_from(model, data_dir / options.base, tokenizer) if options.base else {}
    module = LossModule(model, options.objective, options.architecture).to(device())
    course = PhaseSchedule(Shards.open(shards, "train"), options.parts(), vocabulary.get_vocab_size(), plan.seed)
    measure = HeldOutEvaluator(
        module,
        options,
        options.with_whole_word_masking(),
        plan.mixed_precision,
        Shards.open(shards, "held_out"),
        vocabulary,
        out,
    )
    if 0 not in measure.found:
        measure(0)
    plan = plan.model_copy(update={"evaluate_every": plan.evaluate_every or max(1, course.steps // 10)})
    trained = train(module, batches(course, plan), plan, course.steps, out, measure, name="pretrain")
    with full_params(module):
        if is_main_process():
            options.architecture.save(model, out / MODEL)
    if is_main_process():
        _settle_best(measure.found, last_is_best=measure.best == course.steps, folder=out / BEST)
    return {
        "steps": course.steps,
        "tokens_seen": course.tokens(),
        **started,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train_loss": round(trained.loss, 4),
        "held_out_before": measure.found[0],
        "held_out_after": measure.found[course.steps],
        "best_step": measure.best,
    }


def _settle_best(found: "Evaluations", last_is_best: bool, folder: Path) -> None:
    """Keep the model of the lowest held-out loss, verified, where that is not the last one."""
    if last_is_best:
        remove_files(folder, MODEL_FILES)
        remove_if_empty(folder)
    else:
        found.verify_kept(folder)
