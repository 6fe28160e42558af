"""The options of pretraining, without torch, because `kobert check` reads them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.base_config import architecture_of
from kobert_pipeline.pretrain.objective import MaskedObjective, Objective
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.word_vectors import WordVectors
from kobert_pipeline.training.plan import Plan


class Phase(Options):
    """A part of the token budget with its own settings."""

    share: float = Field(gt=0, le=1)
    """Share of `total_tokens` that this phase sees; the shares of all phases must add up to 1."""
    max_length: int | None = Field(None, ge=16)
    """Tokens per sequence in this phase; null: pretrain.max_length."""
    batch_tokens: int | None = Field(None, ge=64)
    """Tokens per step in this phase; null: pretrain.batch_tokens."""
    sources: tuple[str, ...] | None = None
    """Names of the sources whose texts this phase sees, so that a training may end on the domain that matters
    (Gururangan et al. 2020); null: pretrain.sources."""


class PretrainOptions(Options):
    """Options of pretraining: objective, architecture and token budget."""

    objective: Objective = MlmNsp()
    """The pretraining objective."""
    architecture: Architecture = Bert()
    """The model architecture and its sizes. A recipe with a base or a checkpoint has that model's."""
    max_length: int = Field(128, ge=16)
    """Largest number of tokens in a sequence, including special tokens."""
    batch_tokens: int = Field(8192, ge=64)
    """Tokens per step, over all ranks and the parts that they compute."""
    total_tokens: int = Field(16_000_000, ge=0)
    """Token budget: how many tokens are seen in total. 0, for a recipe with a checkpoint: it is not pretrained further,
    and the corpus is for the examples that are made from it."""
    sources: tuple[str, ...] = ()
    """Names of the sources whose texts are trained on, such as [raw_reviews.jsonl, news-*]: a file without its folders,
    or the `path` of files that are a document each; none: all of the corpus. The held-out loss is always measured on
    all."""
    phases: tuple[Phase, ...] = ()
    """Parts of the budget with their own sequence length, batch size or sources, in order: [{share: 0.9, max_length:
    128}, {share: 0.1, max_length: 512}]."""
    base: str | None = None
    """Continue from the weights of this checkpoint, with its architecture but this recipe's vocabulary: a folder or a
    name as for `checkpoint`, of a model that kobert published or a BERT in the format of transformers. Tokens missing
    from its vocabulary start as the mean of the tokens that spell them."""
    # in the fingerprint only where it is set, so that runs from before it existed stay valid
    word_vectors: WordVectors | None = Field(None, exclude_if=lambda value: value is None)
    """Start the token embeddings as word vectors, computed from how often tokens of the corpus occur near each other;
    null: at random."""
    # not in the fingerprint, because no weight depends on it
    base_license: str | None = Field(None, exclude=True)
    """Licence of that checkpoint; default: what its card states. The licence of what is published must be compatible
    with it."""
    plan: Plan = Plan()
    """Optimizer, schedule, checkpoints."""

    def parts(self) -> list[tuple[int, "PretrainOptions"]]:
        """For each phase its number of tokens, and these options with the phase's own values."""
        phases = self.phases or (Phase(share=1),)
        return [(round(self.total_tokens * phase.share), self.of_phase(phase)) for phase in phases]

    @property
    def longest(self) -> int:
        """The largest `max_length` of all phases, and of the evaluations, which have that outside of phases."""
        return max(self.max_length, *(options.max_length for _, options in self.parts()))

    def of_phase(self, phase: Phase) -> "PretrainOptions":
        """These options with the values that a phase sets."""
        names = ("max_length", "batch_tokens", "sources")
        return self.model_copy(update={name: value for name in names if (value := getattr(phase, name)) is not None})

    def with_whole_word_masking(self) -> "PretrainOptions":
        """These options with whole eojeols masked together, because visible parts of a word would give away the
        rest."""
        if not isinstance(self.objective, MaskedObjective):
            return self
        return self.model_copy(update={"objective": self.objective.model_copy(update={"mask_unit": "eojeol"})})

    @model_validator(mode="before")
    @classmethod
    def _architecture_of_base(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and isinstance(base := values.get("base"), str):
            architecture = architecture_of(base, values.get("architecture"))
            return {**values, **({"architecture": architecture} if architecture else {})}
        return values

    @model_validator(mode="after")
    def _lengths(self) -> "PretrainOptions":
        # floating-point numbers such as 0.7, 0.2 and 0.1 do not add up to exactly 1
        if self.phases and abs(sum(phase.share for phase in self.phases) - 1) > 1e-6:
            raise ValueError(
                f"the shares of phases add up to {sum(phase.share for phase in self.phases):g}; they must add up to 1"
            )
        for options in (self, *(self.of_phase(phase) for phase in self.phases)):
            if options.batch_tokens < options.max_length:
                raise ValueError(
                    f"batch_tokens {options.batch_tokens} is less than max_length {options.max_length}; raise it"
                )
        max_tokens = self.plan.max_tokens_per_device
        if max_tokens is not None and max_tokens < self.longest:
            raise ValueError(
                f"plan.max_tokens_per_device {max_tokens} is less than max_length {self.longest}; raise it"
            )
        return self

    def refuse_beyond_positions(self) -> None:
        """Raise ValueError for sequences longer than the architecture takes."""
        positions = self.architecture.max_position_embeddings
        if self.longest > positions:
            raise ValueError(
                f"pretrain.max_length {self.longest} is beyond the architecture's max_position_embeddings "
                f"{positions}; lower the one or raise the other"
            )

    def refuse_missing_head(self) -> None:
        """Raise ValueError for an objective that needs another kind of model than the architecture can build."""
        if self.objective.head not in self.architecture.heads:
            guess = did_you_mean(self.objective.head, self.architecture.heads)
            raise ValueError(
                f"pretrain.objective {self.objective.name} needs a model of kind '{self.objective.head}', "
                f"which {self.architecture.name} does not have{guess}"
            )

    @model_validator(mode="after")
    def _fits(self) -> "PretrainOptions":
        if self.architecture.hidden_size % self.architecture.num_attention_heads:
            raise ValueError(
                f"num_attention_heads {self.architecture.num_attention_heads} must divide hidden_size "
                f"{self.architecture.hidden_size}"
            )
        # the architecture of a recipe that names none may be a checkpoint's, so the recipe checks it
        if "architecture" in self.model_fields_set:
            self.refuse_missing_head()
        if self.base and self.word_vectors:
            raise ValueError(f"word_vectors would replace the embeddings of base {self.base}; leave one of them out")
        if self.base and self.objective.head == "discriminator":
            raise ValueError(
                f"objective {self.objective.name} trains a generator too, which published checkpoints do not have; set "
                "objective to mlm, or leave base out"
            )
        return self
