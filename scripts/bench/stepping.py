"""One step of pretraining, ours and HF's, for `scripts/bench/step`."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast
from transformers.trainer_pt_utils import get_length_grouped_indices

from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.architectures.modernbert import ModernBert
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import generator
from kobert_pipeline.pretrain.model import LossModule, shape_to_compile, triton_error, uses_varlen
from kobert_pipeline.pretrain.objectives.mlm import Mlm
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.packing import group, pack
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX
from kobert_pipeline.training.attention import packed_attention
from kobert_pipeline.training.compilation import compile_in_place
from kobert_pipeline.training.device import device, has_fast_bf16, make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.loop import take_step
from kobert_pipeline.training.optimizer import optimizer_of
from kobert_pipeline.training.plan import Plan

OBJECTIVE = MlmNsp()
WITHOUT_PAIRS = Mlm(sequence_format="doc_sentences")
CUDA = torch.cuda.is_available()
LOGITS_AT_ONCE = torch.cuda.get_device_properties(0).total_memory // 32 if CUDA else 2**29
"""Of the plain ways, which hold each of them in 16 bytes: half of a GPU's memory, or 8 GiB on a CPU."""


MEGABATCH = 50
"""Batches that HF's sampler sorts together by length."""


@dataclass(frozen=True)
class Case:
    """A model and a size of steps: BERT with MLM and NSP, or ModernBERT with MLM."""

    size: dict[str, int]
    vocab_size: int
    max_length: int
    tokens: int
    rounds: int
    architecture: type[Architecture] = Bert

    @property
    def objective(self) -> MlmNsp | Mlm:
        """That of the model's paper."""
        return OBJECTIVE if self.architecture is Bert else WITHOUT_PAIRS


class Ground:
    """The data: sequences in stored order."""

    def __init__(self, shards: Path, tokenizer: Path) -> None:
        self.shards = Shards.open(shards, "train")
        backend = read_morpheme_backend(tokenizer / VOCABULARY_FILE)
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=backend,
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
        )

    def sequences(self, max_length: int, objective: MlmNsp | Mlm = OBJECTIVE) -> Sequences:
        """Sequences in the order of the text, none of which goes over the end of a document."""
        planned = objective.sequences(self.shards, max_length, generator(1, 0))
        order = np.argsort(planned.a[:, 0], kind="stable")
        return Sequences(planned.a[order], planned.b[order], planned.next_sentence_label[order])

    def batches(self, sequences: Sequences, tokens: int, count: int) -> list[np.ndarray]:
        """`count` batches of neighbouring sequences, taken evenly over the whole corpus."""
        return evenly(group(sequences.lengths, np.arange(len(sequences)), tokens), count)

    def batches_by_length(self, sequences: Sequences, tokens: int, count: int) -> list[np.ndarray]:
        """`count` batches of sequences of similar lengths, taken evenly over one megabatch of HF's `group_by_length`:
        sequences drawn from the whole corpus and sorted. HF's batches have as many sequences each; these have as many
        tokens, as those of the other ways."""
        a_batch = round(tokens / float(sequences.lengths.mean()))
        order = get_length_grouped_indices(
            sequences.lengths.tolist(), a_batch, MEGABATCH, generator=torch.Generator().manual_seed(1)
        )
        return evenly(group(sequences.lengths, np.array(order[: MEGABATCH * a_batch]), tokens), count)


def evenly(batches: list[np.ndarray], count: int) -> list[np.ndarray]:
    """`count` of the batches, at even distances."""
    return [batches[int((i + 0.5) / count * (len(batches) - 1))] for i in range(count)]


@dataclass
class Bench:
    """The model and optimizer that all ways share, so that all of them find the same memory."""

    ground: Ground
    case: Case
    mixed_precision: str = "no"
    seconds: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    parts: int = 1

    def __post_init__(self) -> None:
        case = self.case
        torch.manual_seed(1)
        self.objective = case.objective
        architecture = case.architecture(**case.size)
        config = architecture.config(case.vocab_size)
        if case.architecture is ModernBert:
            config.sparse_prediction = True  # HF's model then computes logits at the masked places alone, as ours does
        self.model = architecture.model(config, self.objective.head).to(device())
        self.module = LossModule(self.model, self.objective, architecture)
        self.optimizer = optimizer_of(self.module, Plan())
        self.sequences = self.ground.sequences(case.max_length, self.objective)
        self.rows = self.ground.batches(self.sequences, case.tokens, case.rounds)
        self.collator = DataCollatorForLanguageModeling(
            self.ground.tokenizer, mlm_probability=self.objective.mlm_probability
        )

    def made(self, rows: np.ndarray, step: int) -> Batch:
        """Our batch. A model with a smaller vocabulary than the data's gets ids folded into it, which cost the same."""
        size = self.case.vocab_size
        batch = self.objective.batch(
            self.ground.shards, self.sequences, rows, min(size, len(self.ground.tokenizer)), generator(1, 0, 1 + step)
        )
        return replace(batch, input_ids=batch.input_ids % size, labels=batch.labels % size)

    def ours(self, step: int, mixed_precision: str, compiled: bool = False, use_triton: bool = True) -> int:
        """A step of the loop; compiled by regions, on a batch padded to the one shape that is compiled for."""
        plan, module = Plan(mixed_precision=mixed_precision), self.module
        self.model.set_attn_implementation("packed")
        batch = self.made(self.rows[step], step)
        tokens = len(batch.input_ids)
        if compiled:
            module = self.compiled_module
            batch = batch.pad_to(*shape_to_compile(self.case.tokens, self.case.max_length, self.objective))
        tiled = use_triton and triton_error(device(), self.module) is None
        parts = [to_device(batch, device(), uses_varlen(device(), plan), tiled)]
        take_step(make_accelerator(plan), module, self.optimizer, parts, plan, FiniteCheck(self.optimizer, device()))
        return tokens

    @cached_property
    def rows_by_length(self) -> list[np.ndarray]:
        """Batches of sequences of similar lengths."""
        return self.ground.batches_by_length(self.sequences, self.case.tokens, self.case.rounds)

    @cached_property
    def compiled_module(self) -> LossModule:
        """Compiled at its first call."""
        module = LossModule(self.model, self.objective, self.module.architecture)
        compile_in_place(module, regional=True)
        return module

    @cached_property
    def compiled_model(self) -> Any:
        """HF's model, likewise."""
        return torch.compile(self.model)

    def padded(self, sequences: np.ndarray, mixed_precision: str) -> int:
        """HF's collator and model: a row for each of these sequences."""
        packed = pack(self.ground.shards, self.sequences, sequences)
        ends = np.cumsum(packed.lengths)[:-1]
        rows: list[dict[str, Any]] = [{"input_ids": ids.tolist()} for ids in np.split(packed.input_ids, ends)]
        if self.has_pairs:
            labels = self.sequences.next_sentence_label[sequences]
            for row, types, label in zip(rows, np.split(packed.token_type_ids, ends), labels, strict=True):
                row |= {"token_type_ids": types.tolist(), "next_sentence_label": max(int(label), 0)}
        self.take(rows, mixed_precision)
        return len(packed.input_ids)

    @property
    def has_pairs(self) -> bool:
        """Whether the model judges pairs of segments."""
        return self.objective is OBJECTIVE

    def grouped(self, step: int, mixed_precision: str, compiled: bool = False) -> int:
        """The same tokens in blocks of full length; compiled, up to eight blocks fewer."""
        ids = pack(self.ground.shards, self.sequences, self.rows[step]).input_ids
        length = self.case.max_length
        blocks = [{"input_ids": ids[i : i + length].tolist()} for i in range(0, len(ids) - length + 1, length)]
        if compiled:  # as many in every batch, and in 1, 2, 4 or 8 parts of one, or each would be another shape
            blocks = blocks[: (self.case.tokens // length - 1) // 8 * 8]
        self.take(blocks, mixed_precision, compiled)
        return len(blocks) * length

    def take(self, rows: list[dict[str, Any]], mixed_precision: str, compiled: bool = False) -> None:
        """HF's loss, backward, clipping, AdamW; the batch in as many parts as their logits need to fit in memory."""
        self.model.set_attn_implementation("sdpa")
        self.model.train()
        predicted: float = len(rows) * max(len(row["input_ids"]) for row in rows)
        if not self.has_pairs:  # with sparse_prediction
            predicted *= self.objective.mlm_probability
        parts = math.ceil(predicted / (LOGITS_AT_ONCE // self.case.vocab_size))
        self.parts = max(self.parts, parts)
        for part in np.array_split(np.arange(len(rows)), parts):
            batch = self.collator([rows[i] for i in part])
            # folded as in `made`, but after the collator, which replaces tokens by random ones of the whole tokenizer
            batch["input_ids"] %= self.case.vocab_size
            is_masked = batch["labels"] != IGNORE_INDEX
            batch["labels"][is_masked] %= self.case.vocab_size
            (self.loss(batch, mixed_precision, compiled) * len(part) / len(rows)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, batch: Any, mixed_precision: str, compiled: bool) -> torch.Tensor:
        """As the model computes it, or, of BERT in blocks that are no pairs, of masked tokens alone."""
        model = self.compiled_model if compiled else self.model
        batch = {name: tensor.to(device()) for name, tensor in batch.items()}
        with torch.autocast(device().type, torch.bfloat16, enabled=mixed_precision == "bf16"):
            if "next_sentence_label" in batch or not self.has_pairs:
                loss: torch.Tensor = model(**batch).loss
                return loss
            labels = batch.pop("labels")
            logits = model(**batch).prediction_logits
            return torch.nn.functional.cross_entropy(
                logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=IGNORE_INDEX
            )

    def timed(self, name: str, call: Callable[[], int]) -> None:
        """Keep the seconds of a call and the tokens it saw."""
        torch.cuda.synchronize() if CUDA else None
        clock = time.perf_counter if CUDA else time.process_time
        began = clock()
        tokens = call()
        torch.cuda.synchronize() if CUDA else None
        self.seconds.setdefault(name, []).append(clock() - began)
        self.tokens.setdefault(name, []).append(tokens)

    def fill(self, batches: list[np.ndarray]) -> dict[str, Any]:
        """The share of cells that hold a token where rows are padded to the longest of their batch, of each batch and
        of all together."""
        lengths = [self.sequences.lengths[rows] for rows in batches]
        tokens = np.array([batch.sum() for batch in lengths])
        cells = np.array([batch.max() * len(batch) for batch in lengths])
        return {"all": round(float(tokens.sum() / cells.sum()), 3), "each": (tokens / cells).round(3).tolist()}

    @torch.no_grad()
    def losses(self) -> dict[str, float]:
        """The loss of our way and of HF's on one and the same masked batch."""
        self.model.eval()
        batch = self.made(self.rows[0][:8], 0)
        self.model.set_attn_implementation("packed")
        ours, _ = self.module(to_device(batch, device()))
        self.model.set_attn_implementation("sdpa")
        arguments = {name: tensor.to(device()) for name, tensor in padded(batch).items()}
        if not self.has_pairs:
            del arguments["token_type_ids"], arguments["next_sentence_label"]
        theirs = self.model(**arguments).loss
        return {"ours": round(float(ours), 6), "HF padded": round(float(theirs), 6)}

    def flops(self) -> float:
        """Of a step, on average: what the matrices of the encoder, attention and the head at masked places cost,
        forward and backward."""
        sizes, head = self.module.architecture, self.objective.head
        lengths = np.concatenate([self.sequences.lengths[rows] for rows in self.rows]).astype(float)
        predicted = self.objective.mlm_probability * lengths.sum()
        products = (
            sizes.encoder_weights(head) * lengths.sum() + sizes.head_weights(self.case.vocab_size, head) * predicted
        )
        return float(6 * (products + 2 * sizes.attention_width(head) * (lengths**2).sum()) / len(self.rows))


def padded(batch: Batch) -> dict[str, torch.Tensor]:
    """HF's arguments for the same sequences and masks."""
    longest, ends = int(batch.lengths.max()), np.cumsum(batch.lengths)[:-1]
    labels = np.full(len(batch.input_ids), IGNORE_INDEX)
    labels[batch.masked_positions] = batch.labels

    def rows(flat: np.ndarray, filler: int) -> torch.Tensor:
        split = np.split(flat, ends)
        return torch.tensor([[*row.tolist(), *[filler] * (longest - len(row))] for row in split])

    return {
        "input_ids": rows(batch.input_ids, 0),
        "token_type_ids": rows(batch.token_type_ids, 0),
        "attention_mask": rows(np.ones(len(batch.input_ids), int), 0),
        "labels": rows(labels, IGNORE_INDEX),
        "next_sentence_label": torch.from_numpy(batch.next_sentence_label),
    }


def best_dtype() -> str:
    """bf16 where the hardware computes in it."""
    return "bf16" if has_fast_bf16() else "no"


def peak_flops(mixed_precision: str) -> float:
    """What a large matrix product reaches here, a second."""
    size = 8192 if CUDA else 2048
    kind = torch.bfloat16 if mixed_precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device(), dtype=kind) for _ in range(2))
    clock, seconds = (time.perf_counter if CUDA else time.process_time), []
    for _ in range(6):
        torch.cuda.synchronize() if CUDA else None
        began = clock()
        a @ b
        torch.cuda.synchronize() if CUDA else None
        seconds.append(clock() - began)
    return 2 * size**3 / min(seconds)


def ways_of(bench: Bench) -> dict[str, Callable[[int], int]]:
    """Name -> step. On a GPU in bf16, also compiled: nobody trains in fp32 there. On a CPU in fp32, and in bf16 if it
    has instructions for that."""
    precisions = ({} if CUDA else {"fp32": "no"}) | ({"bf16": "bf16"} if has_fast_bf16() else {})
    ways: dict[str, Callable[[int], int]] = {}
    for name, kind in precisions.items():
        ways |= {
            f"ours {name}": lambda step, kind=kind: bench.ours(step, kind),
            f"HF grouped {name}": lambda step, kind=kind: bench.grouped(step, kind),
            f"HF padded {name}": lambda step, kind=kind: bench.padded(bench.rows[step], kind),
            f"HF by length {name}": lambda step, kind=kind: bench.padded(bench.rows_by_length[step], kind),
        }
    if CUDA:
        ways |= {
            "ours with varlen_attn bf16": lambda step: bench.ours(step, "bf16", use_triton=False),
            "ours by regions compiled": lambda step: bench.ours(step, "bf16", compiled=True),
            "ours by regions with varlen_attn compiled": lambda step: bench.ours(step, "bf16", True, use_triton=False),
            "HF grouped compiled": lambda step: bench.grouped(step, "bf16", compiled=True),
        }
    return ways


def precision_of(way: str) -> str:
    """The `mixed_precision` of a way; what is compiled is in bf16."""
    return "no" if way.endswith("fp32") else "bf16"


def compared(ground: Ground, case: Case, parts: list[str], save: Callable[[dict[str, Any]], None]) -> None:
    """Take the ways with one of `parts` in their names (or all) in turns, batch by batch, and `save` after each step of
    one: real tokens a second over all batches, and the ratios of ways with the same precision."""
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    bench = Bench(ground, case)
    ways = {name: way for name, way in ways_of(bench).items() if not parts or any(part in name for part in parts)}
    results: dict[str, Any] = {
        "tokens_a_step": case.tokens,
        "batch_fill_padded": bench.fill(bench.rows),
        "batch_fill_by_length": bench.fill(bench.rows_by_length),
        "loss_on_one_batch": bench.losses(),
        "seconds_of_the_first_step": {},
    }
    # the first step is timed separately: it allocates memory, and chooses and compiles kernels
    for name, way in ways.items() if case.rounds > 2 else ():
        began = time.perf_counter()
        way(0)
        results["seconds_of_the_first_step"][name] = round(time.perf_counter() - began, 1)
        save(results)
    peaks = {name: peak_flops(precision_of(name)) for name in ways if name.startswith("ours")}
    for step in range(case.rounds):
        for name, way in ways.items():
            bench.timed(name, lambda way=way, step=step: way(step))
            save(results | summary(bench, peaks))
    results |= summary(bench, peaks) | {"apart": apart(bench)}
    if CUDA:
        results["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    save(results)


def summary(bench: Bench, peaks: dict[str, float]) -> dict[str, Any]:
    """What the steps so far say."""
    # all steps together, since batches differ in how full they are
    speed = {name: sum(bench.tokens[name]) / sum(seconds) for name, seconds in bench.seconds.items()}
    return {
        "parts_of_a_step_of_the_plain_ways": bench.parts,
        "tokens_a_second": {name: round(rate, 1) for name, rate in speed.items()},
        "seconds": {name: [round(each, 3) for each in seconds] for name, seconds in bench.seconds.items()},
        "ratio": {
            f"{ours} / {theirs}": round(speed[ours] / speed[theirs], 2)
            for ours in speed
            for theirs in speed
            if ours.startswith("ours") and theirs.startswith("HF") and precision_of(ours) == precision_of(theirs)
        },
        "mfu": {
            name: round(bench.flops() * speed[name] / bench.case.tokens / peak, 3)
            for name, peak in peaks.items()
            if name in speed
        },
    }


def apart(bench: Bench) -> dict[str, float]:
    """Milliseconds of forward and backward of one step's largest parts alone, in the best type: one layer's attention,
    one layer's matrices, and the head at the masked places."""
    case, kind = bench.case, torch.bfloat16 if best_dtype() == "bf16" else torch.float32
    heads, width = case.size["num_attention_heads"], case.size["hidden_size"]
    batch = bench.made(bench.rows[0], 0)
    varlen = uses_varlen(device(), Plan(mixed_precision=best_dtype()))
    tensors = to_device(batch, device(), varlen, triton_error(device(), bench.module) is None)
    tokens, predicted = len(batch.input_ids), len(batch.labels)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device(), dtype=kind, requires_grad=True)

    q, k, v = (random(1, heads, tokens, width // heads) for _ in range(3))
    hidden, rows, inner, out = (
        random(tokens, width),
        random(predicted, width),
        random(width, 4 * width),
        random(4 * width, width),
    )
    square, head = random(width, 4 * width), random(width, case.vocab_size)
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "attention of a layer": lambda: packed_attention(bench.model, q, k, v, None, tensors.layout)[0].float().sum(),
        "matrices of a layer": lambda: (hidden @ square).float().sum() + (hidden @ inner @ out).float().sum(),
        "head": lambda: torch.nn.functional.cross_entropy((rows @ head).float(), tensors.labels),
    }
    clock, found = (time.perf_counter if CUDA else time.process_time), {}
    for name, call in calls.items():
        seconds = []
        for _ in range(4):
            torch.cuda.synchronize() if CUDA else None
            began = clock()
            call().backward()
            torch.cuda.synchronize() if CUDA else None
            seconds.append(clock() - began)
        found[name] = round(1000 * min(seconds), 2)
    return found
