"""Checkpoints: everything a training needs to resume, in safetensors and JSON (nothing pickled), written atomically.

A checkpoint is a folder `step-00000500` with `model.safetensors`, `optimizer.safetensors`, `random.safetensors`, and
`checkpoint.json`, which holds the SHA-256 of the other files and its own digest.
"""

import re
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import Damaged
from kobert_pipeline.files import (
    PART_SUFFIX,
    atomic_write,
    read_json_with_digest,
    remove_files,
    remove_if_empty,
    sha256,
    write_json_with_digest,
)
from kobert_pipeline.training.fsdp import distribute_like, full_params, get_full_tensor, reshard
from kobert_pipeline.training.plan import CHECKPOINT_FILES

*TENSORS, INDEX = CHECKPOINT_FILES


class CheckpointWriter:
    """Writes checkpoints to `folder` in a thread, one after another, and deletes all but the newest `keep`.

    Within a `with` block, whose end waits for the thread. `saved_step`: the step of the newest checkpoint, complete
    after `wait`. In distributed training every rank has a writer, and rank 0's writes.
    """

    def __init__(self, folder: Path, keep: int, saved_step: int = 0) -> None:
        self.folder, self.keep, self.saved_step = folder, keep, saved_step
        self.thread = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None

    def save(
        self,
        step: int,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        accelerator: Accelerator | None = None,
    ) -> None:
        """Copy the state after `step` steps, which the training may change afterwards, and let the thread write it.

        Waits for the checkpoint before. Every rank must call it, given an `accelerator`.
        """
        # at most one copy of the state is in memory at a time, and checkpoints appear in the order of their steps
        self.wait()
        # collective calls, so they come before anything that only rank 0 does
        random = _random_states(accelerator)
        moments = _optimizer_state(module, optimizer)
        with full_params(module):
            weights = _weights(module) if is_main_process() else {}
        if is_main_process():
            tensors = dict(zip(TENSORS, (weights, moments, random), strict=True))
            self.writing = self.thread.submit(_write, self.folder, step, tensors, self.keep)
        self.saved_step = step

    def wait(self) -> None:
        """Wait for the thread. Raises its error, once."""
        if self.writing:
            writing, self.writing = self.writing, None
            writing.result()

    def raise_error(self) -> None:
        """Raise the thread's error if there is one already."""
        if self.writing and self.writing.done():
            self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        self.thread.shutdown()
        if kind is None:  # another error is not replaced by the thread's
            self.wait()


def _write(folder: Path, step: int, tensors: dict[str, dict[str, torch.Tensor]], keep: int) -> None:
    """Write the tensors of each file as the checkpoint of `step`, and delete old checkpoints."""
    # written under a hidden name and renamed once complete: after a kill there is no half-written `step-*` folder
    path = folder / f"step-{step:08d}"
    part = folder / f".{path.name}{PART_SUFFIX}"
    # what a killed run may have left
    _remove(part)
    part.mkdir(parents=True, exist_ok=True)
    for name in TENSORS:
        with atomic_write(part / name) as temporary:  # on the disk, too, before older checkpoints are deleted below
            save_file(tensors[name], temporary)
    files = {name: sha256(part / name) for name in TENSORS}
    write_json_with_digest(part / INDEX, {"step": step, "files": files})
    # a checkpoint of the same step is replaced: a folder cannot be renamed to one that is not empty
    _remove(path)
    part.rename(path)
    # last: until the new checkpoint is in place, a killed run resumes from an old one
    for old in checkpoints(folder)[:-keep]:
        _remove(old)


def checkpoints(folder: Path) -> list[Path]:
    """The folders of the checkpoints in `folder`, oldest first."""
    # steps have leading zeros, so names sort in the order of the steps
    return sorted(path for path in folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))


def _remove(checkpoint: Path) -> None:
    """Delete a checkpoint's own files, and then its folder if that is empty: files of the user's stay."""
    remove_files(checkpoint, CHECKPOINT_FILES)
    remove_if_empty(checkpoint)


def load_checkpoint(folder: Path, module: torch.nn.Module, optimizer: torch.optim.Optimizer, rank: int = 0) -> int:
    """Restore the newest checkpoint in `folder` and return its step, or 0 when there is none.

    The random state is restored if one was saved for this `rank`; a run may resume with another number of ranks.
    Raises Damaged, naming the file, when a file is missing or changed.
    """
    existing = checkpoints(folder)
    if not existing:
        return 0
    path = existing[-1]
    verify(path)
    load_weights(path / "model.safetensors", module)
    _restore_optimizer(load_file(path / "optimizer.safetensors"), module, optimizer)
    state = load_file(path / "random.safetensors")
    if f"cpu.{rank}" in state:
        torch.set_rng_state(state[f"cpu.{rank}"])
    if torch.cuda.is_available() and f"cuda.{rank}" in state:
        torch.cuda.set_rng_state(state[f"cuda.{rank}"])
    step: int = read_json_with_digest(path / INDEX)["step"]
    return step


def verify(path: Path) -> None:
    """Raise Damaged when a file of the checkpoint in `path` is missing or has changed since it was written."""
    advice = f"delete {path} to resume from the checkpoint before it (or from the start)"
    if not (path / INDEX).is_file():
        raise Damaged(f"checkpoint file {path / INDEX} is missing; {advice}")
    try:
        files = read_json_with_digest(path / INDEX)["files"]
    except Damaged:
        raise Damaged(f"checkpoint file {path / INDEX} has changed since it was written; {advice}") from None
    for name in TENSORS:
        if name not in files or not (path / name).is_file():
            raise Damaged(f"checkpoint file {path / name} is missing; {advice}")
        if sha256(path / name) != files[name]:
            raise Damaged(f"checkpoint file {path / name} has changed since it was written; {advice}")


def save_weights(path: Path, module: torch.nn.Module) -> None:
    """Save the parameters of `module`, each once (tied ones under their first name)."""
    save_file(_weights(module), path)


def _weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of the parameters by name."""
    # buffers are constants of the architecture (positions, rotary frequencies), so the parameters are all that is saved
    return {name: _host_copy(parameter) for name, parameter in module.named_parameters()}


def _host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in host memory that changes no more, even if `tensor` is there, too."""
    # not in pinned memory, which would be faster, but stays allocated: three times the model's size or more
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def load_weights(path: Path, module: torch.nn.Module) -> None:
    """Load into `module` what `save_weights` wrote."""
    saved = load_file(path)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            # in place: the optimizer, DDP and tied layers refer to this very tensor
            parameter.copy_(distribute_like(saved[name], parameter))


def _optimizer_state(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Copies of the optimizer's tensors, whole, as `PARAMETER:KEY`; empty on other ranks than 0."""
    reshard(module)  # the optimizer's state is keyed by the sharded parameters, which must be in place
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            full = get_full_tensor(value.detach())
            if is_main_process():
                tensors[f"{name}:{key}"] = _host_copy(full)
    return tensors


def _restore_optimizer(
    tensors: dict[str, torch.Tensor], module: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Undo `_optimizer_state`, sharding the tensors as the parameters are."""
    for name, parameter in module.named_parameters():
        state: dict[str, Any] = {}
        for saved_name, value in tensors.items():
            owner, _, key = saved_name.rpartition(":")
            if owner != name:
                continue
            # the step count is a scalar, the same on every rank, and is never sharded
            state[key] = distribute_like(value, parameter) if value.ndim else value.to(parameter.device)
        if state:
            optimizer.state[parameter] = state


def _random_states(accelerator: Accelerator | None) -> dict[str, torch.Tensor]:
    """The states of the random generators of all ranks, as `cpu.RANK` and `cuda.RANK`."""
    # used by dropout and by ELECTRA's samples; batches draw from generators of their own
    local_states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        local_states["cuda"] = torch.cuda.get_rng_state()
    states: dict[str, torch.Tensor] = {}
    for kind, state in local_states.items():
        if accelerator and accelerator.num_processes > 1:
            # by way of the device, since NCCL sends tensors of GPUs only
            rows = accelerator.gather(state.to(accelerator.device)[None]).cpu()
        else:
            rows = state[None]
        # cloned, because safetensors refuses tensors that share memory
        states |= {f"{kind}.{rank}": row.clone() for rank, row in enumerate(rows)}
    return states
