"""One step of pretraining, ours and HF's, for `scripts/bench/step`."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.batch import IGNORE_INDEX, Batch
from kobert_pipeline.pretrain.loader import generator
from kobert_pipeline.pretrain.model import LossModule, to_device
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.packing import group, pack
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.training.attention import has_varlen
from kobert_pipeline.training.device import accelerator, device
from kobert_pipeline.training.loop import take_step
from kobert_pipeline.training.optimizer import optimizer_of
from kobert_pipeline.training.plan import Plan

OBJECTIVE = MlmNsp()
CUDA = torch.cuda.is_available()


@dataclass(frozen=True)
class Case:
    """A model and a size of steps."""

    size: dict[str, int]
    vocab_size: int
    max_length: int
    pieces: int
    rounds: int


class Ground:
    """The data: sequences in stored order."""

    def __init__(self, shards: Path, tokenizer: Path) -> None:
        self.shards = Shards.open(shards, "train")
        backend = Tokenizer.from_file(str(tokenizer / VOCABULARY_FILE))
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
        )

    def sequences(self, max_length: int) -> Sequences:
        """Segment pairs in the order of the text."""
        found = OBJECTIVE.sequences(self.shards, max_length, generator(1, 0))
        order = np.argsort(found.a[:, 0], kind="stable")
        return Sequences(found.a[order], found.b[order], found.next_sentence_label[order])

    def batches(self, sequences: Sequences, pieces: int, count: int) -> list[np.ndarray]:
        """`count` batches of neighbouring sequences, taken evenly over the whole corpus."""
        everything = group(sequences.lengths, np.arange(len(sequences)), pieces)
        return [everything[int((i + 0.5) / count * (len(everything) - 1))] for i in range(count)]


@dataclass
class Bench:
    """The model and optimizer that all ways share, so that all of them find the same memory."""

    ground: Ground
    case: Case
    mixed_precision: str = "no"
    seconds: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        case = self.case
        torch.manual_seed(1)
        architecture = Bert(**case.size)
        self.model = architecture.model(architecture.config(case.vocab_size), "pretraining").to(device())
        self.module = LossModule(self.model, OBJECTIVE, architecture)
        self.optimizer = optimizer_of(self.module, Plan())
        self.sequences = self.ground.sequences(case.max_length)
        self.rows = self.ground.batches(self.sequences, case.pieces, case.rounds)
        self.collator = DataCollatorForLanguageModeling(self.ground.tokenizer, mlm_probability=OBJECTIVE.mask_rate)

    def made(self, rows: np.ndarray, step: int) -> Batch:
        """Our batch."""
        return OBJECTIVE.batch(self.ground.shards, self.sequences, rows, len(self.ground.tokenizer), generator(1, 0, 1 + step))

    def ours(self, step: int, mixed_precision: str) -> int:
        """A step of the loop."""
        plan = Plan(mixed_precision=mixed_precision)
        self.model.set_attn_implementation("packed")
        batch = self.made(self.rows[step], step)
        varlen = CUDA and mixed_precision == "bf16" and has_varlen()
        take_step(accelerator(plan), self.module, self.optimizer, [to_device(batch, device(), varlen)], plan)
        return len(batch.input_ids)

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
        self.take(self.collator(rows), mixed_precision)
        return len(packed.input_ids)

    def grouped(self, step: int, mixed_precision: str) -> int:
        """The same pieces in blocks of full length."""
        ids = pack(self.ground.shards, self.sequences, self.rows[step]).input_ids
        length = self.case.max_length
        blocks = [{"input_ids": ids[i : i + length].tolist()} for i in range(0, len(ids) - length + 1, length)]
        self.take(self.collator(blocks), mixed_precision)
        return len(blocks) * length

    def take(self, batch: Any, mixed_precision: str) -> None:
        """HF's loss, backward, clipping, AdamW."""
        self.model.set_attn_implementation("sdpa")
        self.model.train()
        batch = {name: tensor.to(device()) for name, tensor in batch.items()}
        with torch.autocast(device().type, torch.bfloat16, enabled=mixed_precision == "bf16"):
            if "next_sentence_label" in batch:
                loss = self.model(**batch).loss
            else:
                labels = batch.pop("labels")
                logits = self.model(**batch).prediction_logits
                loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=IGNORE_INDEX)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def timed(self, name: str, call: Callable[[], int]) -> None:
        """Keep the seconds of a call and the pieces it saw."""
        torch.cuda.synchronize() if CUDA else None
        clock = time.perf_counter if CUDA else time.process_time
        began = clock()
        tokens = call()
        torch.cuda.synchronize() if CUDA else None
        self.seconds.setdefault(name, []).append(clock() - began)
        self.tokens.setdefault(name, []).append(tokens)

    def fill(self) -> float:
        """The share of cells that hold a piece where rows are padded to the longest of their batch."""
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
        """Of a step, on average: what the matrices of the encoder, attention and the head at masked places cost, forward and backward."""
        layers, width = self.case.size["num_hidden_layers"], self.case.size["hidden_size"]
        lengths = np.concatenate([self.sequences.lengths[rows] for rows in self.rows]).astype(float)
        body = 12 * layers * width**2 * lengths.sum() + 2 * layers * width * (lengths**2).sum()
        head = OBJECTIVE.mask_rate * lengths.sum() * width * (width + self.case.vocab_size)
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
    fast = CUDA or "avx512_bf16" in Path("/proc/cpuinfo").read_text() or "amx_bf16" in Path("/proc/cpuinfo").read_text()
    return "bf16" if fast else "no"


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


def compared(ground: Ground, case: Case, mixed: bool) -> dict[str, Any]:
    """All ways in turns, batch by batch: real pieces a second over all of them, and ratios. `mixed`: also in the best
    type, if there is one."""
    bench, best = Bench(ground, case), best_dtype()
    ways: dict[str, Callable[[int], int]] = {
        "ours": lambda step: bench.ours(step, "no"),
        "HF padded": lambda step: bench.padded(step, "no"),
        "HF grouped": lambda step: bench.grouped(step, "no"),
    }
    if mixed and best == "bf16":
        ways |= {"ours bf16": lambda step: bench.ours(step, "bf16"), "HF padded bf16": lambda step: bench.padded(step, "bf16")}
    losses = bench.losses()
    for way in ways.values():
        way(0)  # memory is found, kernels are chosen
    for step in range(case.rounds):
        for name, way in ways.items():
            bench.timed(name, lambda way=way, step=step: way(step))
    speed = {name: sum(bench.tokens[name]) / sum(bench.seconds[name]) for name in ways}  # batches differ in how full they are
    ours = {"no": "ours", "bf16": "ours bf16"}
    found = {
        "pieces_a_step": case.pieces,
        "batch_fill_padded": round(bench.fill(), 3),
        "batch_fill_of_each": [round(float(n.sum() / n.max() / len(n)), 3) for n in (bench.sequences.lengths[rows] for rows in bench.rows)],
        "loss_on_one_batch": losses,
        "pieces_a_second": {name: round(one, 1) for name, one in speed.items()},
        "seconds": {name: [round(one, 3) for one in many] for name, many in bench.seconds.items()},
        "ratio": {
            f"{us} / {peer}": round(speed[us] / speed[peer], 2)
            for us in speed
            for peer in speed
            if us in ours.values() and peer not in ours.values()
        },
        "mfu": {
            name: round(bench.flops() * speed[name] / case.pieces / peak_flops(kind), 3) for kind, name in ours.items() if name in speed
        },
    }
    if CUDA:
        found["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return found


def cost(ground: Ground, case: Case) -> dict[str, float]:
    """The median seconds of our step in the best type, and what a piece costs."""
    bench = Bench(ground, case)
    bench.ours(0, best_dtype())
    for step in range(case.rounds):
        bench.timed("ours", lambda step=step: bench.ours(step, best_dtype()))
    seconds = statistics.median(bench.seconds["ours"])
    return {"seconds": round(seconds, 3), "microseconds_a_piece": round(1e6 * seconds / statistics.median(bench.tokens["ours"]), 1)}
