"""Pretraining on numbers by any number of ranks, with SGD: `torchrun ranks.py CASES` runs every case of a JSON file,
and so does `python ranks.py CASES 2` with two ranks of its own; `pretrained` runs one."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import launch
from tokenizers import Tokenizer, models

from kobert_pipeline.distributed import destroy_process_group
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.pretrain import stage
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.shards.format import (
    DOCUMENT,
    EOJEOL,
    MORPHEME,
    PARAGRAPH,
    SENTENCE,
    Shard,
    number_sources,
    write_shard,
)
from kobert_pipeline.training import loop
from kobert_pipeline.training.loop import Stopped

sys.path.append(str(Path(__file__).parents[1]))  # started as a script, which finds the modules beside it alone
from sgd import train_by_sgd

MODELS = {
    "mlm_nsp": {"name": "bert"},
    "mlm": {"name": "modernbert"},
    "mlm_sop": {"name": "albert"},
    "clm": {"name": "gpt2"},
}
"""Objectives that draw no random numbers on the device, each with an architecture."""
DRAWING = {"rtd": {"name": "electra", "embedding_size": 16}}
"""One that does: every process draws its own."""
SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 48}


def options(
    objective: str, batch_tokens: int = 256, architecture: dict[str, Any] | None = None, **plan: Any
) -> PretrainOptions:
    """Ten steps or so of a network of width 32."""
    return PretrainOptions(
        objective=objective, architecture={**(MODELS | DRAWING)[objective], **SIZES, **(architecture or {})},
        max_length=48, batch_tokens=batch_tokens, total_tokens=10 * batch_tokens,
        plan={"learning_rate": 2e-3, "checkpoint_every": 4, "evaluate_every": 5, "log_every": 2, **plan},
    )  # fmt: skip


def prepare(place: Path) -> None:
    """Shards of random numbers, and a tokenizer of as many tokens."""
    for number, split in enumerate(("train", "held_out")):
        write_shard(place / "shards", f"{split}-00000", shard_of(np.random.default_rng(number), documents=24))
    vocabulary = {f"token{number}": number for number in range(200)}
    (place / "tokenizer").mkdir()
    Tokenizer(models.WordPiece(vocabulary, unk_token="token1")).save(str(place / "tokenizer" / VOCABULARY_FILE))


def shard_of(rng: np.random.Generator, documents: int) -> Shard:
    """Ordered documents of eight sentences, in two paragraphs."""
    boundaries, starts = [], [0]
    for _ in range(documents):
        for sentence, length in enumerate(rng.integers(3, 14, 8)):
            run = rng.choice([0, MORPHEME, MORPHEME | EOJEOL], length)
            run[0] = (
                MORPHEME
                | EOJEOL
                | SENTENCE
                | (PARAGRAPH if sentence % 4 == 0 else 0)
                | (DOCUMENT if sentence == 0 else 0)
            )
            boundaries.append(run)
        starts.append(sum(map(len, boundaries)))
    ids = rng.integers(5, 200, starts[-1]).astype(np.uint16)
    return Shard(
        ids, np.concatenate(boundaries).astype(np.uint8), np.array(starts, np.int64), np.ones(documents, bool),
        *number_sources(["articles.jsonl"] * documents),
    )  # fmt: skip


def pretrained(
    place: Path, name: str, objective: str, stops: int = 0, ends: bool = True, check_every: int = 1, **changes: Any
) -> None:
    """Train into `place/name`; stop at the first check and resume, `stops` times, and then to the end if it `ends`.
    `check_every`: parts between two checks, as on GPUs."""
    folders = (place / "shards", place / "tokenizer", place / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(loop.PARTS_BETWEEN_CHECKS, "cpu", check_every)
        train_by_sgd(patch)
        for _ in range(stops):
            with suppress(Stopped):
                stage.run(options(objective, max_minutes=1e-9, **changes), *folders)
        if ends:
            stage.run(options(objective, **changes), *folders)


def main() -> None:
    """Run every case of the file that the command line names."""
    for case in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        pretrained(Path(sys.argv[1]).parent, **case)
    destroy_process_group()


if __name__ == "__main__":
    launch(int(sys.argv[2]), main) if sys.argv[2:] else main()
