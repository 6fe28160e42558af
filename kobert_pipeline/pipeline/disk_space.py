"""Estimate how much disk space a run needs, and compare it with what is free.

The ratios were measured on Korean Wikipedia and reviews. They are rather too high than too low, since a run that stops
on a full disk after hours is worse than one that is refused although it would just have fitted.
"""

import shutil
from pathlib import Path

from kobert_pipeline.checkpoint.stage import raw_files as checkpoint_files
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.distill import Distillation
from kobert_pipeline.finetune.ngrams import HASHES
from kobert_pipeline.finetune.stage import SOFT_LABELS_FOLDER
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.runs.runner import Job
from kobert_pipeline.runs.stage_folder import FINISHED
from kobert_pipeline.training.plan import Plan

UNPACKED_RATIO = {".zst": 4.0, ".gz": 4.0, ".bz2": 4.5, ".xz": 5.0, ".parquet": 2.5}
"""Bytes of text per byte of a compressed file."""
CORPUS, ANALYSIS = 1.4, 0.6
"""Bytes on disk per byte of raw text: of the stage corpus, including its temporary work files, and of the stage
analysis."""
BYTES_PER_TOKEN = 4.2
"""UTF-8 bytes of Korean text per token, a low value (so many tokens)."""
FEATURES = 4.0
"""Bytes of features per byte of a labelled data file."""
SOFT_LABEL_BYTES, SOFT_LABEL_TEXT_BYTES = 5, 64
"""Bytes of a folder of soft labels: per token, an id and a type; per text, its place and its labels."""
BASE_PARAMETERS = 120_000_000
HALF_PRECISION = ("float16", "bfloat16")
WEIGHT_BYTES, CHECKPOINT_BYTES = 4, 12
"""Bytes per parameter: float32 weights; a checkpoint, which also has the optimizer's two moments."""


def refuse_full_disk(recipe: Recipe, planned: list[Job]) -> int:
    """The bytes that the unfinished jobs will write. Raises UserError where the run's disk has less space."""
    corpus = sum(unpacked_bytes(path) for job in planned if job.stage == "corpus" for path in job.source_files())
    needed = sum(bytes_needed(recipe, job, corpus) for job in planned if not (job.folder / FINISHED).is_file())
    run_dir = planned[0].folder.parent
    # the run's folder may not exist yet; its nearest existing parent is on the same disk
    existing = next(folder for folder in (run_dir.absolute(), *run_dir.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise UserError(
            f"the run needs about {needed / 1e9:.2f} GB of disk space in {run_dir}, where {free / 1e9:.2f} GB are "
            "free; free some, choose another --run-dir, or lower plan.keep_checkpoints"
        )
    return needed


def bytes_needed(recipe: Recipe, job: Job, corpus: float) -> int:
    """Upper estimate of the bytes that a job writes; `corpus` is the size of the run's raw text in bytes."""
    if recipe.checkpoint is None:
        model = recipe.pretrain
        weights = model.architecture.parameter_count(recipe.tokenizer.subword.vocab_size, model.objective.head)
    else:
        weights = weights_of(recipe.checkpoint)
    match job.stage:
        case "checkpoint":
            return weights * WEIGHT_BYTES
        case "corpus":
            return round(CORPUS * corpus)
        case "analysis":
            return round(ANALYSIS * corpus)
        case "shards":  # per token an id of 16 or 32 bits, and one byte of boundary flags
            is_small = recipe.checkpoint is None and recipe.tokenizer.subword.vocab_size <= 2**16
            return round(corpus / BYTES_PER_TOKEN * (3 if is_small else 5))
        case "features":
            return round(FEATURES * sum(map(unpacked_bytes, job.source_files())))
        case "pretrain":
            # the final model, and the model that was best on held-out texts
            return weights * (2 * WEIGHT_BYTES + checkpoint_bytes(recipe.pretrain.plan))
        case "finetune":
            name, _, part = job.name.partition("/")
            options = recipe.finetune[name]
            features = recipe.features[options.features or name]
            if options.distill and part == SOFT_LABELS_FOLDER:
                return soft_labels_bytes(options.distill, features.max_length, corpus)
            if options.ngrams:  # a binary problem per class, but for two classes one
                return HASHES * WEIGHT_BYTES * max(1, features.task.config()["num_labels"])
            return weights * (WEIGHT_BYTES + checkpoint_bytes(options.plan))
        case "publish":
            onnx = recipe.publish[job.name].onnx
            in_int8 = onnx in ("auto", "int8")  # a byte per weight
            return weights * (WEIGHT_BYTES * (2 if onnx else 1) + in_int8)
        case _:
            return 0


def soft_labels_bytes(options: Distillation, max_length: int, corpus: float) -> int:
    """Upper estimate of the bytes of texts of at most `max_length` tokens with soft labels."""
    # not more than the whole corpus, with [CLS] and [SEP] around each text
    tokens = min(options.texts * max_length, round(corpus / BYTES_PER_TOKEN) + 2 * options.texts)
    return SOFT_LABEL_BYTES * tokens + SOFT_LABEL_TEXT_BYTES * options.texts


def weights_of(checkpoint: str) -> int:
    """The number of parameters of an existing checkpoint, from the size of its files; for one that is not fetched yet,
    a BERT-base's."""
    files = checkpoint_files(checkpoint)
    if not files:
        return BASE_PARAMETERS
    config = read_json(files[0])
    is_half = isinstance(config, dict) and config.get("dtype", config.get("torch_dtype")) in HALF_PRECISION
    return sum(path.stat().st_size for path in files) // (WEIGHT_BYTES // 2 if is_half else WEIGHT_BYTES)


def unpacked_bytes(path: Path) -> float:
    """Estimated bytes of text in a file, which may be compressed."""
    return path.stat().st_size * UNPACKED_RATIO.get(path.suffix, 1.0)


def checkpoint_bytes(plan: Plan) -> int:
    """Bytes per parameter of all checkpoints that exist at the same time."""
    # a new checkpoint is written before the oldest one is deleted
    return CHECKPOINT_BYTES * (plan.keep_checkpoints + 1)
