"""Evaluation during pretraining: the loss on held-out text, and the perplexity per character of whole words."""

import math
import re
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.morphemes.morpheme import WORD_MARK
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.special_tokens import OUR_IDS
from kobert_pipeline.training.device import device
from kobert_pipeline.training.evaluations import DECIMALS, EVALUATIONS, Evaluations, rounded
from kobert_pipeline.training.fsdp import full_params
from kobert_pipeline.training.loop import LOWER_RATE, NotFinite

HELD_OUT_BATCHES = 8
"""Batches of held-out text in each evaluation."""
MOST_SOURCES = 8
"""The number of sources up to which each is evaluated by itself."""
OF_SOURCE = "perplexity_per_character of "
"""What the name of a source follows, in the evaluation before the first step."""


class HeldOutEvaluator:
    """Called with a step, evaluates the model on the same held-out batches each time, and saves the best model so far
    in `out/best`."""

    def __init__(
        self,
        module: LossModule,
        options: PretrainOptions,
        mixed_precision: str,
        held_out: Shards,
        vocabulary: Tokenizer,
        out: Path,
    ) -> None:
        self.module, self.mixed_precision, self.best_folder = module, mixed_precision, out / "best"
        self.evaluations = Evaluations(out / EVALUATIONS)
        # seed 0 and not the plan's, so that runs with different seeds are compared on the same batches
        self.held_out = Loader(held_out, options, vocabulary.get_vocab_size(), seed=0)
        words = options.with_whole_word_masking()
        self.held_out_words = Loader(held_out, words, vocabulary.get_vocab_size(), seed=0)
        self.characters = characters_of(vocabulary, held_out.special.every)
        names = self.sources = sorted(held_out.names())
        # `of_sources` takes patterns, and the name of a file may hold their characters
        self.of_source = {
            name: Loader(held_out.of_sources([escape(name)]), words, vocabulary.get_vocab_size(), seed=0)
            for name in (names if 1 < len(names) <= MOST_SOURCES else ())
        }

    def __call__(self, step: int) -> dict[str, float]:
        """The mean losses and accuracies of `step`, and its perplexity."""
        # in the training's own precision, unlike in fine-tuning: these losses are compared within one run only
        with torch.autocast(device().type, torch.bfloat16, enabled=self.mixed_precision == "bf16"):
            values = evaluate(self.module, self.held_out, HELD_OUT_BATCHES)
            values |= per_character(self.module, self.held_out_words, HELD_OUT_BATCHES, self.characters)
        if not math.isfinite(values.get("loss", math.nan)):  # `evaluate` leaves out what is NaN everywhere
            raise NotFinite(f"the loss on held-out text is not finite after step {step}; {LOWER_RATE}")
        # compared with earlier steps only: after a resume, a step evaluated again must not lose against its own loss
        evaluations = self.evaluations.values
        earlier = [known["loss"] for other_step, known in evaluations.items() if other_step < step]
        is_best, best_folder = rounded(values)["loss"] < min(earlier, default=math.inf), None
        with full_params(self.module):  # all ranks enter it, since gathering parameters is a collective
            if is_main_process() and is_best:
                best_folder = self.best_folder
                self.module.architecture.save(self.module.model, best_folder)
        return self.evaluations.add(step, values, is_best, best_folder)

    @property
    def best(self) -> int:
        """The step with the lowest held-out loss, the first of equals."""
        return min(self.evaluations.values, key=lambda step: (self.evaluations[step]["loss"], step))

    def evaluate_start(self) -> None:
        """Evaluate the initial model, also on each source by itself, unless a resumed run has done so."""
        values = self.evaluations[0] if 0 in self.evaluations else self(0)
        if any(f"{OF_SOURCE}{name}" not in values for name in self.of_source):  # a run may be killed between the two
            of_sources = {f"{OF_SOURCE}{name}": value for name, value in self.by_source().items()}
            # `is_best` once more: of the best step, which step 0 still is, `add` would keep the recorded values
            self.evaluations.add(0, values | of_sources, is_best=True)

    def by_source(self) -> dict[str, float]:
        """The perplexity per character on the held-out documents of each source, of the model as it is now."""
        with torch.autocast(device().type, torch.bfloat16, enabled=self.mixed_precision == "bf16"):
            values = {
                name: per_character(self.module, loader, HELD_OUT_BATCHES, self.characters)
                for name, loader in self.of_source.items()
            }
        return {name: round(next(iter(value.values())), DECIMALS) for name, value in values.items()}

    def summary(self, last_step: int) -> dict[str, Any]:
        """What the manifest reports of the evaluations: the first, the last and the best step, and how well texts of
        each source were predicted before and after the training."""
        before = self.evaluations[0]
        by_source = {
            name: {"before": before[f"{OF_SOURCE}{name}"], "after": after} for name, after in self.by_source().items()
        }
        return {
            "held_out_before": {name: value for name, value in before.items() if not name.startswith(OF_SOURCE)},
            "held_out_after": self.evaluations[last_step],
            "best_step": self.best,
            **({"held_out_by_source": by_source} if by_source else {}),
            **({"held_out_sources": len(self.sources)} if len(self.sources) > MOST_SOURCES else {}),
        }


CONTINUATION_BYTES = re.compile("[\u0122-\u0143\xa1-\xac\xae-\xbf]")
"""The letters that stand in byte-level BPE for the bytes 0x80 to 0xBF, at which no character of UTF-8 begins."""

TAG = re.compile(r"/[A-Z]+(-[A-Z]+)?$")
"""The tag of a morpheme in the style `tagged`."""


def characters_of(vocabulary: Tokenizer, special_ids: tuple[int, ...] = OUR_IDS.every) -> np.ndarray:
    """(V,) the number of characters of each token without its mark (ours and SentencePiece's, WordPiece's ##, the space
    of byte-level BPE), 1 for special tokens and for a mark alone. A token of bytes has the characters that begin in
    it, perhaps none. The tags of the style `tagged` are no characters of the text."""
    has_bytes = "ByteLevel" in repr(vocabulary.pre_tokenizer)
    mark = "\u0120" if has_bytes else getattr(vocabulary.model, "continuing_subword_prefix", None) or ""
    characters = np.ones(vocabulary.get_vocab_size(), np.int64)
    # any tagged corpus has a common noun (NNG); in other styles the end of a token such as A/S is text, not a tag
    has_tags = any(token.endswith("/NNG") for token in vocabulary.get_vocab())
    for token, id_ in vocabulary.get_vocab().items():
        bare = token.removeprefix(WORD_MARK).removeprefix(mark)
        if id_ not in special_ids:
            begun = CONTINUATION_BYTES.sub("", bare) if has_bytes else TAG.sub("", bare) if has_tags else bare
            characters[id_] = len(begun) if bare else 1
    return characters


@torch.no_grad()
def evaluate(module: LossModule, held_out: Loader, batches: int) -> dict[str, float]:
    """Means over the first held-out batches, always the same ones with the same random numbers. The random state of the
    training does not change."""
    sums: dict[str, list[float]] = {}
    for _, values in _evaluate_batches(module, held_out, batches):
        for name, value in values.items():
            sums.setdefault(name, []).append(value)
    # a batch without sequence pairs has NaN for their loss
    return {name: float(np.nanmean(values)) for name, values in sums.items() if not np.isnan(values).all()}


@torch.no_grad()
def per_character(module: LossModule, held_out: Loader, batches: int, characters: np.ndarray) -> dict[str, float]:
    """The perplexity per character, which is comparable between vocabularies: of a causal model, or the
    pseudo-perplexity of a masked one (after Salazar et al. 2020, but with a share of whole words masked at once instead
    of one token at a time)."""
    nats, count, name = 0.0, 0, ""
    for labels, values in _evaluate_batches(module, held_out, batches):
        name = next(loss for loss in ("mlm_loss", "clm_loss") if loss in values)
        # the logged loss is a mean over the labels
        nats += values[name] * len(labels)
        count += int(characters[labels].sum())
    prefix = "pseudo_" if name == "mlm_loss" else ""
    # capped at e^50, since the exponential of an untrained model's loss may overflow
    return {f"{prefix}perplexity_per_character": math.exp(min(nats / max(count, 1), 50))}


def _evaluate_batches(module: LossModule, held_out: Loader, batches: int) -> list[tuple[np.ndarray, dict[str, float]]]:
    """For each batch its labels, and the module's loss and logged values."""
    results = []
    training = module.training
    module.eval()
    target_device = device()
    # saving the state of the other GPUs would use memory on each
    own_gpu = [target_device] if target_device.type == "cuda" else []
    try:
        # not compiled: every held-out batch has another shape, so each would be compiled anew
        with torch.random.fork_rng(own_gpu), torch.compiler.set_stance("force_eager"):
            # ELECTRA's generator samples tokens in evaluation, too
            torch.manual_seed(0)
            for step in range(min(batches, held_out.steps_per_epoch())):
                batch = held_out.batch(step)
                loss, values = module(to_device(batch, target_device))
                scalars = {"loss": float(loss), **{name: float(value) for name, value in values.items()}}
                results.append((batch.labels, scalars))
    finally:
        module.train(training)
    return results
