"""Checkpoints: everything a training needs to resume, in safetensors and JSON (nothing pickled), written atomically.

A checkpoint is a folder `step-00000500` with `model.safetensors`, `optimizer.safetensors`, `random.safetensors`, and
`checkpoint.json`, which holds the SHA-256 of the other files and its own digest.
"""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import Damaged
from kobert_pipeline.files import (
    PART_SUFFIX,
    read_json_with_digest,
    remove_files,
    remove_if_empty,
    sha256,
    write_json_with_digest,
)
from kobert_pipeline.training.fsdp import distribute_like, full_params, get_full_tensor, reshard
from kobert_pipeline.training.plan import CHECKPOINT_FILES

*TENSORS, INDEX = CHECKPOINT_FILES


def save_checkpoint(
    folder: Path,
    step: int,
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    keep: int,
    accelerator: Accelerator | None = None,
) -> Path:
    """Write the state after `step` steps to `folder`, and delete all but the newest `keep` checkpoints.

    In distributed training (given an `accelerator`) every rank must call it, and rank 0 writes.
    """
    # collective calls, so they come before anything that only rank 0 does
    random = _random_states(accelerator)
    moments = _optimizer_state(module, optimizer)
    path = folder / f"step-{step:08d}"
    with full_params(module):
        if is_main_process():
            _write(folder, path, step, module, moments, random)
    if is_main_process():
        for old in checkpoints(folder)[:-keep]:
            _remove(old)
    return path


def _write(
    folder: Path,
    path: Path,
    step: int,
    module: torch.nn.Module,
    moments: dict[str, torch.Tensor],
    random: dict[str, torch.Tensor],
) -> None:
    # written under a hidden name and renamed once complete: after a kill there is no half-written `step-*` folder
    part = folder / f".{path.name}{PART_SUFFIX}"
    _remove(part)
    part.mkdir(parents=True, exist_ok=True)
    save_weights(part / "model.safetensors", module)
    save_file(moments, part / "optimizer.safetensors")
    save_file(random, part / "random.safetensors")
    files = {name: sha256(part / name) for name in TENSORS}
    write_json_with_digest(part / INDEX, {"step": step, "files": files})
    _remove(path)
    part.rename(path)


def checkpoints(folder: Path) -> list[Path]:
    """The folders of the checkpoints in `folder`, oldest first."""
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
    save_file({name: parameter.detach().cpu().contiguous() for name, parameter in module.named_parameters()}, path)


def load_weights(path: Path, module: torch.nn.Module) -> None:
    """Load into `module` what `save_weights` wrote."""
    saved = load_file(path)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(distribute_like(saved[name], parameter))


def _optimizer_state(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's tensors, whole, as `PARAMETER:KEY`; empty on other ranks than 0."""
    reshard(module)  # the optimizer's state is keyed by the sharded parameters, which must be in place
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            full = get_full_tensor(value.detach())
            if is_main_process():
                tensors[f"{name}:{key}"] = full.cpu().contiguous()
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
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    states: dict[str, torch.Tensor] = {}
    for kind, state in own.items():
        if accelerator and accelerator.num_processes > 1:
            rows = accelerator.gather(state.to(accelerator.device)[None]).cpu()
        else:
            rows = state[None]
        states |= {f"{kind}.{rank}": row.clone() for rank, row in enumerate(rows)}
    return states


def save_tensors(path: Path, value: Any) -> Path:
    """Save every tensor in nested lists, tuples, dicts and dataclasses, by its path (`0.input_ids`, of a pretraining
    batch also its layout: `0.layout.inverse`); returns `path`."""
    save_file(dict(_named_tensors(value, "")), path)
    return path


def _named_tensors(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        # a copy, because safetensors refuses tensors that share memory, as those of a batch may
        yield name or "batch", value.detach().cpu().clone(memory_format=torch.contiguous_format)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _named_tensors(vars(value), name)
    elif isinstance(value, (list, tuple, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _named_tensors(item, f"{name}.{key}" if name else str(key))
