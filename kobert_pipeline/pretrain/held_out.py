"""What a model under way is measured by: its loss on held-out text, and how well it guesses whole words, by
character."""

import math
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.pretrain.loader import Loader, LoaderOptions
from kobert_pipeline.pretrain.model import LossModule, to_device
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.special_tokens import SPECIAL_TOKENS
from kobert_pipeline.training.device import device
from kobert_pipeline.training.evaluations import EVALUATIONS, Evaluations, rounded
from kobert_pipeline.training.fsdp import full_params

HELD_OUT_BATCHES = 8


class HeldOutEvaluator:
    """Called with a step, it evaluates the model on the same held-out batches as ever; `words` is how batches with
    whole words hidden are made."""

    def __init__(
        self,
        module: LossModule,
        options: LoaderOptions,
        words: LoaderOptions,
        mixed_precision: str,
        held_out: Shards,
        vocabulary: Tokenizer,
        out: Path,
    ) -> None:
        self.module, self.mixed_precision, self.best_folder = module, mixed_precision, out / "best"
        self.found = Evaluations(out / EVALUATIONS)
        self.held_out = Loader(held_out, options, vocabulary.get_vocab_size(), seed=0)
        self.words = Loader(held_out, words, vocabulary.get_vocab_size(), seed=0)
        self.characters = characters_of(vocabulary)

    def __call__(self, step: int) -> dict[str, float]:
        """The means of `step`; keeps the model if it is the best so far."""
        with torch.autocast(device().type, torch.bfloat16, enabled=self.mixed_precision == "bf16"):
            values = evaluate(self.module, self.held_out, HELD_OUT_BATCHES)
            values |= per_character(self.module, self.words, HELD_OUT_BATCHES, self.characters)
        earlier = [known["loss"] for other, known in self.found.values.items() if other < step]
        kept = None
        with full_params(self.module):
            if is_main_process() and rounded(values)["loss"] < min(earlier, default=math.inf):
                kept = self.best_folder
                self.module.architecture.save(self.module.model, kept)
        return self.found.add(step, values, kept)

    @property
    def best(self) -> int:
        """The step with the lowest held-out loss, the first of equals."""
        return min(self.found.values, key=lambda step: (self.found[step]["loss"], step))


def characters_of(vocabulary: Tokenizer) -> np.ndarray:
    """(V,) how many characters each token stands for; a special or unknown one for one."""
    tokens = sorted(vocabulary.get_vocab().items(), key=lambda item: item[1])
    return np.array(
        [1 if token in SPECIAL_TOKENS else max(len(token.removeprefix(WORD_MARK)), 1) for token, _ in tokens]
    )


@torch.no_grad()
def evaluate(module: LossModule, held_out: Loader, batches: int) -> dict[str, float]:
    """Means over the first held-out batches, always the same ones, with the same random numbers; those of the training
    are left as they were."""
    sums: dict[str, list[float]] = {}
    for _, values in _measured(module, held_out, batches):
        for name, value in values.items():
            sums.setdefault(name, []).append(value)
    return {name: float(np.nanmean(values)) for name, values in sums.items() if not np.isnan(values).all()}


@torch.no_grad()
def per_character(module: LossModule, held_out: Loader, batches: int, characters: np.ndarray) -> dict[str, float]:
    """The perplexity by character, which vocabularies of any size share: that of a causal model, or the
    pseudo-perplexity of one that sees both sides (after Salazar et al. 2020, but with a share of whole words hidden at
    once instead of one token after the other)."""
    nats, count, name = 0.0, 0, ""
    for labels, values in _measured(module, held_out, batches):
        name = next(one for one in ("mlm_loss", "clm_loss") if one in values)
        nats += values[name] * len(labels)
        count += int(characters[labels].sum())
    return {
        f"{'pseudo_' if name == 'mlm_loss' else ''}perplexity_per_character": math.exp(min(nats / max(count, 1), 50))
    }


def _measured(module: LossModule, held_out: Loader, batches: int) -> list[tuple[np.ndarray, dict[str, float]]]:
    """The labels of each batch, and what the module says of it, the loss included."""
    found = []
    training = module.training
    module.eval()
    place = device()
    own = [place] if place.type == "cuda" else []  # the state of every other GPU would cost memory on each of them
    try:
        with (
            torch.random.fork_rng(own),
            torch.compiler.set_stance("force_eager"),
        ):  # every held-out batch has a shape of its own
            torch.manual_seed(0)
            for step in range(min(batches, held_out.steps_per_epoch())):
                batch = held_out.batch(step)
                loss, values = module(to_device(batch, place))
                found.append(
                    (batch.labels, {"loss": float(loss), **{name: float(value) for name, value in values.items()}})
                )
    finally:
        module.train(training)
    return found
