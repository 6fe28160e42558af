"""What `kobert check` looks at, without running anything: files, libraries, disk space, memory of pretraining."""

from typing import Any

from kobert_pipeline.errors import UserError, UserErrors, list_first
from kobert_pipeline.pipeline.disk_space import refuse_full_disk
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.base_config import new_head_of
from kobert_pipeline.pretrain.memory import MemoryModel
from kobert_pipeline.publish.licences import without_known_licence
from kobert_pipeline.runs.runner import Job
from kobert_pipeline.tables.data_files import name_matches

GPU_SIZES = (24, 40, 80)
"""Memory of common GPUs in GiB, which their makers call GB."""
FSDP_RANKS = 2
"""The number of ranks for which memory with FSDP is estimated: the smallest, since the real one is not known."""
FILES_NAMED = 10
"""Files that one warning names."""


def problems(recipe: Recipe, planned: list[Job]) -> tuple[list[str], list[str], list[str], int]:
    """Check the files, libraries and disk space that the jobs need, without running them.

    Returns four things: the problems that would stop a run, the problems of files that a run would skip, what each
    source and data set was taken for, and the bytes of disk space that a run needs (0 if a problem would stop it,
    because the size is then not known).
    """
    stopping, skippable, taken_for = list[str](), list[str](), list[str]()
    for job in planned:
        sampled = job.sample()
        for sentences, status in ((stopping, False), (skippable, True), (taken_for, None)):
            sentences += [sentence for sentence, would_be_skipped in sampled if would_be_skipped is status]
        # stops at a job's first problem, since the later checks would only report a missing file again
        try:
            job.source_files()
            job.preflight()
            taken_for += job.validate()
        except UserError as error:
            stopping += error.sentences if isinstance(error, UserErrors) else [str(error)]
    needed = 0
    if not stopping:
        try:
            needed = refuse_full_disk(recipe, planned)
        except UserError as error:
            stopping.append(str(error))
    return (
        list(dict.fromkeys(stopping)),
        skippable,
        taken_for,
        needed,
    )  # without repetitions: several jobs may read the same file


def warnings_of(recipe: Recipe) -> list[str]:
    """What does not stop a run, but should be known before it."""
    warnings = [*unknown_licences(recipe), *not_decontaminated(recipe), *missing_instructions(recipe)]
    start = recipe.checkpoint if recipe.continues else recipe.pretrain.base
    return [*filter(None, [start and new_head_of(start, recipe.pretrain.objective.head)]), *warnings]


def unknown_licences(recipe: Recipe) -> list[str]:
    """A sentence for each model to publish that is trained on files whose licence is not stated or not known."""
    warnings = []
    for name, published in recipe.publish.items():
        paths = [] if published.permission else without_known_licence(recipe.training_files(published))
        if paths:
            files = list_first(list(map(str, paths)), FILES_NAMED)
            warnings.append(
                f"publish.{name} would be under {published.license}, but is trained on files whose licence is not "
                f"stated or not known: {files}; give the `license` of each in the recipe (`checkpoint_license` "
                "for a checkpoint), or find out what it allows before you pass the model on (--push refuses it)"
            )
    return warnings


def not_decontaminated(recipe: Recipe) -> list[str]:
    """A sentence for each test file that the corpus is not searched for."""
    if recipe.corpus is None:
        return []
    readers = recipe.corpus.decontaminate
    removed = [row["path"] for reader in readers for row in reader.provenance()]
    return [
        f"features.{name}.test {data.test} is not among corpus.decontaminate: what the corpus has of it is trained on, "
        "and the scores are then too good"
        for name, data in recipe.features.items()
        if data.test and not any(name_matches(data.test, path) for path in removed)
    ]


def missing_instructions(recipe: Recipe) -> list[str]:
    """A sentence where the recipe trains in bf16 and the machine computes fp32 instead."""
    plans = [*([recipe.pretrain.plan] if recipe.pretrains else []), *(tuned.plan for tuned in recipe.finetune.values())]
    if all(plan.mixed_precision == "no" for plan in plans):
        return []
    from kobert_pipeline.training.device import NO_BF16, has_fast_bf16  # imports torch, which takes seconds

    slow = f"{NO_BF16}, so trainings compute fp32 and take two to six times as long as the documentation says"
    return [] if has_fast_bf16() else [slow]


def pretraining_memory(recipe: Recipe) -> dict[str, Any] | None:
    """The estimated peak memory of pretraining in bytes, by what takes it, and the number of tokens processed at once
    that fit a GPU of each size; None where a recipe does not pretrain, or continues from a checkpoint, which has its
    own sizes. `fsdp_ranks`: over how many ranks FSDP shards the weights, 1 without it."""
    if recipe.corpus is None or recipe.checkpoint is not None:
        return None
    options, plan = recipe.pretrain, recipe.pretrain.plan
    vocab_size, bf16 = recipe.tokenizer.subword.vocab_size, plan.mixed_precision == "bf16"
    ranks = FSDP_RANKS if plan.fsdp else 1
    model = MemoryModel(
        options.architecture, options.objective, vocab_size, bf16, plan.optimizer == "muon", ranks,
        plan.fp32_residual_connection,
    )  # fmt: skip
    batches = [part.batch_tokens for _, part in options.parts()]
    limit = plan.max_tokens_per_device or max(batches)
    # a batch is split into ceil(batch / limit) parts
    tokens = max(-(-batch // -(-batch // limit)) for batch in batches)
    peak = model.peak(tokens)
    return {
        "tokens": tokens,
        "fsdp_ranks": ranks,
        "bytes": peak.total,
        **peak._asdict(),
        "tokens_that_fit": {size: model.tokens_that_fit(size * 2**30) for size in GPU_SIZES},
    }
