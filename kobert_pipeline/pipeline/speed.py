"""How fast this machine analyses and trains, measured in a few seconds on texts and models of the run's own sizes.

Before any stage has run there are neither shards nor weights, so both are random here; `fit` measures the training that
is about to start, on its own shards, and more exactly.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kobert_pipeline.analysis.workers import CanSegment
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.progress import Display, shown_on
from kobert_pipeline.shards.format import DOCUMENT, EOJEOL, MORPHEME, PARAGRAPH, SENTENCE, Shard, Shards
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS

if TYPE_CHECKING:
    from kobert_pipeline.features.task import Task
    from kobert_pipeline.finetune.stage import FinetuneOptions
    from kobert_pipeline.pretrain.options import PretrainOptions

SECONDS, MOST_STEPS = 0.5, 3
"""Steps are timed until so many seconds have passed or so many are taken, after one that only allocates."""
STEP_FLOPS, FEWEST_TOKENS = 1e11, 128
"""On a CPU a timed step has as many tokens as take about so many operations, less than a second on one core, but not
fewer than the second."""
REFERENCE = 0.46
"""Seconds of the piece of work in `slowness` on the core that it compares with."""


class TrainingSpeed(NamedTuple):
    """Seconds of a training: of a token's forward and backward pass, of clipping and the optimizer in a step, and of a
    token that is only predicted."""

    token: float
    step: float
    predicted_token: float


class Silent(Display):
    """Shows nothing of what is only measured."""

    def say(self, line: str) -> None:
        """Nothing: the stages say it when they run."""


@contextmanager
def quiet() -> Iterator[None]:
    """Show nothing, and leave torch's random state as it is."""
    import torch

    with shown_on(Silent()), torch.random.fork_rng():
        yield


def slowness() -> float:
    """How many times as long a core takes here for a fixed piece of work as where the constants of `duration` were
    measured."""
    text = "".join(map(chr, np.random.default_rng(0).integers(ord("가"), ord("가") + 2000, 200_000)))
    started = time.perf_counter()
    sorted(Counter(text[start : start + length] for length in (1, 2, 3) for start in range(len(text))))
    return (time.perf_counter() - started) / REFERENCE


def characters_per_second(segmenter: CanSegment, texts: list[str]) -> float:
    """The speed of the analyzer on these texts, on one thread."""
    list(segmenter.segment(texts[:1], num_workers=1))  # loads its model
    started = time.perf_counter()
    list(segmenter.segment(texts, num_workers=1))
    return sum(map(len, texts)) / (time.perf_counter() - started)


@quiet()
def pretraining_speed(options: "PretrainOptions", config: Any) -> TrainingSpeed:
    """The speed of pretraining a model of this config of `transformers`, with random weights and texts of random
    tokens, and not compiled."""
    import torch

    from kobert_pipeline.pretrain.model import LossModule, batches
    from kobert_pipeline.pretrain.phases import PhaseSchedule
    from kobert_pipeline.training.device import adapt_to_device, device
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    plan = adapt_to_device(options.plan).model_copy(update={"torch_compile": False})
    model = options.architecture.model(config, options.objective.head)
    module = LossModule(model, options.objective, options.architecture, plan.fp32_residual_connection).to(device())
    tokens = tokens_at_once(config, min(options.batch_tokens, plan.max_tokens_per_device or options.batch_tokens))
    # `model_copy` validates nothing, and a batch of fewer tokens could not hold the longest sequence
    options = options.model_copy(update={"batch_tokens": max(tokens, options.max_length), "sources": (), "phases": ()})
    schedule = PhaseSchedule(random_shards(config.vocab_size), options.parts(), config.vocab_size, plan.seed)
    batch, tokens_per_batch = batches(schedule, plan, module)(0, 0, 1), schedule.loaders[0].tokens_per_step()
    per_token, per_step = step_seconds(module, batch, tokens_per_batch, plan)
    module.eval()
    with torch.no_grad(), torch.autocast(device().type, torch.bfloat16, enabled=plan.mixed_precision == "bf16"):
        forward = seconds_of(partial(module, batch))
    return TrainingSpeed(per_token, per_step, forward / tokens_per_batch)


@quiet()
def finetuning_speed(
    options: "FinetuneOptions", task: "Task", max_length: int, length: int, config: Any
) -> TrainingSpeed:
    """The speed of fine-tuning a model of this config for a task, on windows of `length` random tokens."""
    import torch

    from kobert_pipeline.finetune.model import build, drop_unsupported_inputs, logits
    from kobert_pipeline.training.device import adapt_to_device, device
    from kobert_pipeline.training.log import quiet_transformers

    class OutputModule(torch.nn.Module):
        """`forward(inputs)` is a number that every weight of `model` has a part in, as the loss of any task."""

        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            outputs = self.model(**drop_unsupported_inputs(self.model, inputs))
            tensors = [value for value in outputs.values() if isinstance(value, torch.Tensor)]
            return torch.stack([value.float().square().mean() for value in tensors]).sum(), {}

    quiet_transformers()
    plan = adapt_to_device(next(iter(options.plan.settings().values())))
    with tempfile.TemporaryDirectory(prefix="kobert-speed-") as folder:
        config.save_pretrained(folder)
        model = build(task, Path(folder), True, plan, max_length, options.encoder == "frozen").to(device())
    choices = 2 if task.auto_class.endswith("MultipleChoice") else 1
    rows = choices * max(1, tokens_at_once(config, plan.batch_size * length) // (choices * length))
    ids = np.random.default_rng(0).integers(len(SPECIAL_TOKENS), config.vocab_size, (rows, length))
    # (R, L) -> (R / choices, choices, L) for multiple choice
    inputs = torch.from_numpy(ids.reshape(-1, choices, length) if choices > 1 else ids).to(device())
    batch = {"input_ids": inputs, "token_type_ids": inputs * 0, "attention_mask": inputs * 0 + 1}
    features = Features({**features_of_ids(ids.tolist()).arrays, "choices": np.array(choices)}, [])
    per_token, per_step = step_seconds(OutputModule(model), batch, ids.size, plan)
    forward = seconds_of(lambda: logits(model, features, rows, device()))
    return TrainingSpeed(per_token, per_step, forward / ids.size)


def step_seconds(module: Any, batch: Any, tokens: float, plan: Any) -> tuple[float, float]:
    """The seconds of a token in forward and backward pass, and of a step of the optimizer, in steps on a batch of
    `tokens` tokens. The weights stay as they are."""
    from kobert_pipeline.training.device import device, make_accelerator
    from kobert_pipeline.training.finite import FiniteCheck
    from kobert_pipeline.training.loop import take_step
    from kobert_pipeline.training.optimizer import optimizer_of, set_learning_rate

    accelerator, optimizer = make_accelerator(plan), optimizer_of(module, plan)
    # no weight decay either: AdamW and Muon multiply it by the learning rate
    set_learning_rate(optimizer, 0.0)
    finite, in_optimizer = FiniteCheck(optimizer, device()), list[float]()
    # minus the time before and plus the time after add up to the time in between
    optimizer.register_step_pre_hook(lambda *_: in_optimizer.append(-now()))
    optimizer.register_step_post_hook(lambda *_: in_optimizer.append(now()))
    step = partial(take_step, accelerator, module, optimizer, [batch], plan, finite)
    step()
    in_optimizer.clear()
    taken, started = 0, now()
    while taken < MOST_STEPS and (not taken or now() - started < SECONDS):
        step()
        taken += 1
    per_step = sum(in_optimizer) / taken
    return ((now() - started) / taken - per_step) / tokens, per_step


def seconds_of(call: Callable[[], object]) -> float:
    """The seconds of a call, after one that only allocates."""
    call()
    started = now()
    call()
    return now() - started


def now() -> float:
    """Seconds of a clock, when the device has done all that was queued."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def tokens_at_once(config: Any, most: int) -> int:
    """The number of tokens of a timed step: `most` on a GPU, whose speed depends on it; fewer on a CPU, as
    `STEP_FLOPS` says."""
    from kobert_pipeline.training.device import device

    # 4 H^2 of attention and 8 H^2 of a feed-forward layer of 4 H, without the embeddings
    weights = 12 * config.num_hidden_layers * config.hidden_size**2
    # 6 operations for a weight and a token, as in `duration.training_flops`
    return most if device().type == "cuda" else min(most, max(FEWEST_TOKENS, int(STEP_FLOPS / (6 * weights))))


def random_shards(vocab_size: int) -> Shards:
    """A corpus of random tokens: documents of 8 paragraphs of 4 sentences of 16 tokens, an eojeol every second one."""
    tokens, rng = 2**16, np.random.default_rng(0)
    positions = np.arange(tokens)
    units = ((2, EOJEOL), (16, SENTENCE), (64, PARAGRAPH), (512, DOCUMENT))
    boundaries = np.full(tokens, MORPHEME) + sum(bit * (positions % length == 0) for length, bit in units)
    documents = np.arange(0, tokens + 1, 512)
    count = len(documents) - 1
    ids = rng.integers(len(SPECIAL_TOKENS), vocab_size, tokens)
    # a third of the tokens are a few common ones, so that spans recur as in texts
    ids = np.where(rng.random(tokens) < 1 / 3, ids[rng.integers(0, 100, tokens)], ids)
    shard = Shard(
        ids,
        boundaries.astype(np.uint8),
        documents,
        np.ones(count, bool),
        np.zeros(count, np.uint32),
        np.array(["random"]),
    )
    return Shards([shard])
