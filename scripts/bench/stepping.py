"""One step of pretraining, ours and HF's, for `scripts/bench/step`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.morphemes.raw_text_backend import read_morpheme_backend
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import generator
from kobert_pipeline.pretrain.model import LossModule, shape_to_compile, uses_varlen
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
CUDA = torch.cuda.is_available()
LOGITS_AT_ONCE = torch.cuda.get_device_properties(0).total_memory // 32 if CUDA else 2**29
"""Of the plain ways, which hold each of them in 16 bytes: half of a GPU's memory, or 8 GiB on a CPU."""


@dataclass(frozen=True)
class Case:
    """A model and a size of steps."""

    size: dict[str, int]
    vocab_size: int
    max_length: int
    tokens: int
    rounds: int


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

    def sequences(self, max_length: int) -> Sequences:
        """Segment pairs in the order of the text."""
        found = OBJECTIVE.sequences(self.shards, max_length, generator(1, 0))
        order = np.argsort(found.a[:, 0], kind="stable")
        return Sequences(found.a[order], found.b[order], found.next_sentence_label[order])

    def batches(self, sequences: Sequences, tokens: int, count: int) -> list[np.ndarray]:
        """`count` batches of neighbouring sequences, taken evenly over the whole corpus."""
        everything = group(sequences.lengths, np.arange(len(sequences)), tokens)
        return [everything[int((i + 0.5) / count * (len(everything) - 1))] for i in range(count)]


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
        architecture = Bert(**case.size)
        self.model = architecture.model(architecture.config(case.vocab_size), "pretraining").to(device())
        self.module = LossModule(self.model, OBJECTIVE, architecture)
        self.optimizer = optimizer_of(self.module, Plan())
        self.sequences = self.ground.sequences(case.max_length)
        self.rows = self.ground.batches(self.sequences, case.tokens, case.rounds)
        self.collator = DataCollatorForLanguageModeling(
            self.ground.tokenizer, mlm_probability=OBJECTIVE.mlm_probability
        )

    def made(self, rows: np.ndarray, step: int) -> Batch:
        """Our batch. A model with a smaller vocabulary than the data's gets ids folded into it, which cost the same."""
        size = self.case.vocab_size
        batch = OBJECTIVE.batch(
            self.ground.shards, self.sequences, rows, min(size, len(self.ground.tokenizer)), generator(1, 0, 1 + step)
        )
        return replace(batch, input_ids=batch.input_ids % size, labels=batch.labels % size)

    def ours(self, step: int, mixed_precision: str, compiled: bool = False) -> int:
        """A step of the loop; compiled, on a batch padded to the one shape that is compiled for."""
        plan, module = Plan(mixed_precision=mixed_precision), self.module
        self.model.set_attn_implementation("packed")
        batch = self.made(self.rows[step], step)
        tokens = len(batch.input_ids)
        if compiled:
            module = self.compiled_module
            batch = batch.pad_to(*shape_to_compile(self.case.tokens, self.case.max_length, OBJECTIVE))
        parts = [to_device(batch, device(), uses_varlen(device(), plan))]
        take_step(make_accelerator(plan), module, self.optimizer, parts, plan, FiniteCheck(self.optimizer, device()))
        return tokens

    @cached_property
    def compiled_module(self) -> LossModule:
        """Compiled at its first call."""
        module = LossModule(self.model, OBJECTIVE, self.module.architecture)
        compile_in_place(module, regional=False)
        return module

    @cached_property
    def compiled_model(self) -> Any:
        """HF's model, likewise."""
        return torch.compile(self.model)

    def padded(self, step: int, mixed_precision: str) -> int:
        """HF's collator and model: a row for each sequence."""
        packed = pack(self.ground.shards, self.sequences, self.rows[step])
        ends = np.cumsum(packed.lengths)[:-1]
        rows = [
            {"input_ids": ids.tolist(), "token_type_ids": types.tolist(), "next_sentence_label": max(int(label), 0)}
            for ids, types, label in zip(
                np.split(packed.input_ids, ends),
                np.split(packed.token_type_ids, ends),
                self.sequences.next_sentence_label[self.rows[step]],
                strict=True,
            )
        ]
        self.take(rows, mixed_precision)
        return len(packed.input_ids)

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
        cells = len(rows) * max(len(row["input_ids"]) for row in rows)
        parts = -(-cells // (LOGITS_AT_ONCE // self.case.vocab_size))
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
        """As the model computes it, or of masked tokens alone where there are no pairs."""
        model = self.compiled_model if compiled else self.model
        batch = {name: tensor.to(device()) for name, tensor in batch.items()}
        with torch.autocast(device().type, torch.bfloat16, enabled=mixed_precision == "bf16"):
            if "next_sentence_label" in batch:
                found: torch.Tensor = model(**batch).loss
                return found
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

    def fill(self) -> float:
        """The share of cells that hold a token where rows are padded to the longest of their batch."""
        lengths = [self.sequences.lengths[rows] for rows in self.rows]
        return sum(one.sum() for one in lengths) / sum(one.max() * len(one) for one in lengths)

    @torch.no_grad()
    def losses(self) -> dict[str, float]:
        """The loss of our way and of HF's on one and the same masked batch."""
        self.model.eval()
        batch = self.made(self.rows[0][:8], 0)
        self.model.set_attn_implementation("packed")
        ours, _ = self.module(to_device(batch, device()))
        self.model.set_attn_implementation("sdpa")
        theirs = self.model(**{name: tensor.to(device()) for name, tensor in padded(batch).items()}).loss
        return {"ours": round(float(ours), 6), "HF padded": round(float(theirs), 6)}

    def flops(self) -> float:
        """Of a step, on average: what the matrices of the encoder, attention and the head at masked places cost,
        forward and backward."""
        layers, width = self.case.size["num_hidden_layers"], self.case.size["hidden_size"]
        lengths = np.concatenate([self.sequences.lengths[rows] for rows in self.rows]).astype(float)
        body = 12 * layers * width**2 * lengths.sum() + 2 * layers * width * (lengths**2).sum()
        head = OBJECTIVE.mlm_probability * lengths.sum() * width * (width + self.case.vocab_size)
        return float(6 * (body + head) / len(self.rows))


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


def ways_of(bench: Bench, mixed: bool) -> dict[str, Callable[[int], int]]:
    """Name -> step. On a GPU in bf16, also compiled: nobody trains in fp32 there. On a CPU in fp32 and, with `mixed`,
    also in bf16, if the CPU has instructions for it."""
    best = best_dtype()
    if CUDA:
        return {
            "ours bf16": lambda step: bench.ours(step, best),
            "ours compiled": lambda step: bench.ours(step, best, compiled=True),
            "HF padded bf16": lambda step: bench.padded(step, best),
            "HF grouped bf16": lambda step: bench.grouped(step, best),
            "HF grouped compiled": lambda step: bench.grouped(step, best, compiled=True),
        }
    ways: dict[str, Callable[[int], int]] = {
        "ours": lambda step: bench.ours(step, "no"),
        "HF padded": lambda step: bench.padded(step, "no"),
        "HF grouped": lambda step: bench.grouped(step, "no"),
    }
    if mixed and best == "bf16":
        ways |= {
            "ours bf16": lambda step: bench.ours(step, best),
            "HF padded bf16": lambda step: bench.padded(step, best),
        }
    return ways


def compared(ground: Ground, case: Case, mixed: bool) -> dict[str, Any]:
    """All ways in turns, batch by batch: real tokens a second over all of them, and ratios. `mixed`: see `ways_of`."""
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    bench = Bench(ground, case)
    ways = ways_of(bench, mixed)
    losses = bench.losses()
    first = {}
    # the first step is timed separately: it allocates memory, and chooses and compiles kernels
    for name, way in ways.items() if case.rounds > 3 else ():
        began = time.perf_counter()
        way(0)
        first[name] = round(time.perf_counter() - began, 1)
    for step in range(case.rounds):
        for name, way in ways.items():
            bench.timed(name, lambda way=way, step=step: way(step))
    speed = {
        name: sum(bench.tokens[name]) / sum(bench.seconds[name]) for name in ways
    }  # batches differ in how full they are
    ours = {"no": "ours", "bf16": "ours bf16", "bf16 compiled": "ours compiled"}
    found = {
        "tokens_a_step": case.tokens,
        "batch_fill_padded": round(bench.fill(), 3),
        "batch_fill_of_each": [
            round(float(n.sum() / n.max() / len(n)), 3) for n in (bench.sequences.lengths[rows] for rows in bench.rows)
        ],
        "loss_on_one_batch": losses,
        "seconds_of_the_first_step": first,
        "parts_of_a_step_of_the_plain_ways": bench.parts,
        "tokens_a_second": {name: round(one, 1) for name, one in speed.items()},
        "seconds": {name: [round(one, 3) for one in many] for name, many in bench.seconds.items()},
        "ratio": {
            f"{us} / {peer}": round(speed[us] / speed[peer], 2)
            for us in speed
            for peer in speed
            if us in ours.values() and peer not in ours.values()
        },
        "mfu": {
            name: round(bench.flops() * speed[name] / case.tokens / peak_flops(kind.split()[0]), 3)
            for kind, name in ours.items()
            if name in speed
        },
    }
    found["apart"] = apart(bench)
    if CUDA:
        found["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return found


def apart(bench: Bench) -> dict[str, float]:
    """Milliseconds of forward and backward of one step's largest parts alone, in the best type: one layer's attention,
    one layer's matrices, and the head at the masked places."""
    case, kind = bench.case, torch.bfloat16 if best_dtype() == "bf16" else torch.float32
    heads, width = case.size["num_attention_heads"], case.size["hidden_size"]
    batch = bench.made(bench.rows[0], 0)
    tensors = to_device(batch, device(), uses_varlen(device(), Plan(mixed_precision=best_dtype())))
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
