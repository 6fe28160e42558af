"""Everything a training needs to resume, in safetensors and JSON (nothing pickled), complete or not there.

A checkpoint is a folder `step-00000500`: `model.safetensors`, `optimizer.safetensors`, `random.safetensors`, and
`checkpoint.json` with the SHA-256 of the others and its own digest.
"""

import re
from collections.abc import Iterator
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
    engine: Accelerator | None = None,
) -> Path:
    """Write the state after `step` steps; drop all but the newest `keep`. Of several processes, which `engine` knows,
    one writes."""
    random = _random_states(engine)
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
    """The checkpoints in `folder`, oldest first."""
    return sorted(path for path in folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))


def _remove(checkpoint: Path) -> None:
    """Delete a checkpoint's own files, and its folder if nothing else is in it."""
    remove_files(checkpoint, CHECKPOINT_FILES)
    remove_if_empty(checkpoint)


def load_checkpoint(folder: Path, module: torch.nn.Module, optimizer: torch.optim.Optimizer, process: int = 0) -> int:
    """Restore the newest checkpoint, and the random state of this `process` if it has one there; return its step, 0
    when there is none. Raises UserError, naming the file, when it is damaged."""
    found = checkpoints(folder)
    if not found:
        return 0
    path = found[-1]
    verify(path)
    load_weights(path / "model.safetensors", module)
    _restore_optimizer(load_file(path / "optimizer.safetensors"), module, optimizer)
    state = load_file(path / "random.safetensors")
    if f"cpu.{process}" in state:
        torch.set_rng_state(state[f"cpu.{process}"])
    if torch.cuda.is_available() and f"cuda.{process}" in state:
        torch.cuda.set_rng_state(state[f"cuda.{process}"])
    step: int = read_json_with_digest(path / INDEX)["step"]
    return step


def verify(path: Path) -> None:
    """Raise Damaged when a file of the checkpoint is missing or changed."""
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
    """The parameters of `module`, each once (tied ones under their first name)."""
    save_file({name: parameter.detach().cpu().contiguous() for name, parameter in module.named_parameters()}, path)


def load_weights(path: Path, module: torch.nn.Module) -> None:
    """What `save_weights` wrote."""
    saved = load_file(path)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(distribute_like(saved[name], parameter))


def _optimizer_state(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    reshard(module)  # the optimizer knows slices
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            all_of_it = get_full_tensor(value.detach())
            if is_main_process():
                tensors[f"{name}:{key}"] = all_of_it.cpu().contiguous()
    return tensors


def _restore_optimizer(
    tensors: dict[str, torch.Tensor], module: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    for name, parameter in module.named_parameters():
        state: dict[str, Any] = {}
        for key, value in tensors.items():
            if key.rpartition(":")[0] == name:
                # the number of steps is nobody's slice
                state[key.rpartition(":")[2]] = (
                    distribute_like(value, parameter) if value.ndim else value.to(parameter.device)
                )
        if state:
            optimizer.state[parameter] = state


def _random_states(engine: Accelerator | None) -> dict[str, torch.Tensor]:
    """The states of the random generators of all processes, by device and number of the process."""
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    found: dict[str, torch.Tensor] = {}
    for kind, state in own.items():
        rows = (
            engine.gather(state.to(engine.device)[None]).cpu() if engine and engine.num_processes > 1 else state[None]
        )
        found |= {f"{kind}.{process}": row.clone() for process, row in enumerate(rows)}
    return found


def save_tensors(path: Path, value: Any) -> Path:
    """Every tensor in nested lists, tuples and dicts, named by its place (`0.input_ids`)."""
    save_file(dict(_named(value, "")), path)
    return path


def _named(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        # a copy: tensors of a batch may lie in the same memory, which safetensors refuses
        yield name or "batch", value.detach().cpu().clone(memory_format=torch.contiguous_format)
    elif isinstance(value, (list, tuple, dict)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _named(one, f"{name}.{key}" if name else str(key))
