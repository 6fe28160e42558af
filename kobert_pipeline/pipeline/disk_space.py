"""How much disk a run will take, estimated from the sizes of its sources and its model, and held against what is free.

The shares were measured on Korean Wikipedia and reviews; they are meant to be near the truth from above, since a run
that stops on a full disk after hours is worse than one that is refused though it would just have fitted.
"""

import shutil
from pathlib import Path

from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.runs.runner import Job
from kobert_pipeline.runs.stage_folder import FINISHED
from kobert_pipeline.training.plan import Plan

UNPACKED_RATIO = {".zst": 4.0, ".gz": 4.0, ".bz2": 4.5, ".xz": 5.0, ".parquet": 2.5}
"""Bytes of text in a byte of a compressed file."""
CORPUS, ANALYSIS = 1.4, 0.6
"""Bytes per byte of text: parts and, while the stage runs, its work files; the analysed parts."""
BYTES_PER_TOKEN = 4.2
"""UTF-8 bytes of Korean text that one token stands for, a low figure."""
FEATURES = 4.0
"""Bytes of features per byte of a task file."""
WEIGHT_BYTES, CHECKPOINT_BYTES = 4, 12
"""Per parameter: float32 weights; weights and two moments of the optimizer."""


def refuse_full_disk(recipe: Recipe, planned: list[Job]) -> int:
    """The bytes that what is not finished of the run will take. Raises UserError where the disk of the run has less."""
    corpus = sum(unpacked_bytes(path) for job in planned if job.stage == "corpus" for path in job.source_files())
    needed = sum(bytes_needed(recipe, job, corpus) for job in planned if not (job.folder / FINISHED).is_file())
    run_dir = planned[0].folder.parent
    there = next(folder for folder in (run_dir.absolute(), *run_dir.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UserError(
            f"the run will take about {needed / 1e9:.2f} GB of disk below {run_dir}, where {free / 1e9:.2f} GB are "
            "free; free some, choose "
            f"another --run-dir, or lower plan.keep_checkpoints"
        )
    return needed


def bytes_needed(recipe: Recipe, job: Job, corpus: float) -> int:
    """What one job writes at most, in bytes; `corpus` is the text that the run's corpus is made from, in bytes."""
    weights = parameter_count(recipe.pretrain.architecture, recipe.tokenizer.subword.vocab_size)
    match job.stage:
        case "corpus":
            return round(CORPUS * corpus)
        case "analysis":
            return round(ANALYSIS * corpus)
        case "shards":  # an id and a byte of boundaries per token
            return round(corpus / BYTES_PER_TOKEN * (3 if recipe.tokenizer.subword.vocab_size <= 2**16 else 5))
        case "features":
            return round(FEATURES * sum(map(unpacked_bytes, job.source_files())))
        case "pretrain":
            return weights * (2 * WEIGHT_BYTES + checkpoint_bytes(recipe.pretrain.plan))
        case "finetune":
            return weights * (WEIGHT_BYTES + checkpoint_bytes(recipe.finetune[job.name.partition("/")[0]].plan))
        case "publish":
            return weights * WEIGHT_BYTES * (2 if recipe.publish[job.name].onnx else 1)
        case _:
            return 0


def unpacked_bytes(path: Path) -> float:
    """Bytes of text in a file."""
    return path.stat().st_size * UNPACKED_RATIO.get(path.suffix, 1.0)


def parameter_count(architecture: Architecture, vocab_size: int) -> int:
    """About how many parameters a model has, counted without making it; sharing them between layers is not taken into
    account."""
    width, inner = architecture.hidden_size, architecture.intermediate_size or 4 * architecture.hidden_size
    layer = 4 * width**2 + 2 * width * inner + 9 * width + inner
    return (
        architecture.num_hidden_layers * layer
        + (vocab_size + architecture.max_position_embeddings) * width
        + 2 * width**2
        + vocab_size
    )


def checkpoint_bytes(plan: Plan) -> int:
    """Bytes per parameter of the checkpoints that are kept, and of the one that is being written."""
    return CHECKPOINT_BYTES * (plan.keep_checkpoints + 1)
