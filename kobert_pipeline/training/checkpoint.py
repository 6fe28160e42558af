"""Everything a training needs to go on, in safetensors and JSON (nothing pickled), whole or not there.

A checkpoint is a folder `step-00000500`: `model.safetensors`, `optimizer.safetensors`, `random.safetensors`, and `checkpoint.json`
with the SHA-256 of the others.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, sha256, write_json

INDEX = "checkpoint.json"


def save_checkpoint(folder: Path, step: int, module: torch.nn.Module, optimizer: torch.optim.Optimizer, keep: int) -> Path:
    """Write the state after `step` steps; drop all but the newest `keep`."""
    path = folder / f"step-{step:08d}"
    part = folder / f".{path.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_weights(part / "model.safetensors", module)
    save_file(_optimizer_state(module, optimizer), part / "optimizer.safetensors")
    save_file(_random_state(), part / "random.safetensors")
    files = {file.name: sha256(file) for file in sorted(part.iterdir())}
    write_json(part / INDEX, {"step": step, "files": files})
    shutil.rmtree(path, ignore_errors=True)
    part.rename(path)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, oldest first."""
    return sorted(folder.glob("step-*"))


def load_checkpoint(folder: Path, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore the newest checkpoint; return its step, 0 when there is none. Raises UserError, naming the file, when it is damaged."""
    found = checkpoints(folder)
    if not found:
        return 0
    path = found[-1]
    verify(path)
    load_weights(path / "model.safetensors", module)
    _restore_optimizer(load_file(path / "optimizer.safetensors"), module, optimizer)
    state = load_file(path / "random.safetensors")
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
    step: int = read_json(path / INDEX)["step"]
    return step


def verify(path: Path) -> None:
    """Raise UserError when a file of the checkpoint is missing or changed."""
    advice = f"delete {path} to go on from the checkpoint before it (or from the start)"
    if not (path / INDEX).is_file():
        raise UserError(f"checkpoint file {path / INDEX} is missing; {advice}")
    for name, digest in read_json(path / INDEX)["files"].items():
        if not (path / name).is_file():
            raise UserError(f"checkpoint file {path / name} is missing; {advice}")
        if sha256(path / name) != digest:
            raise UserError(f"checkpoint file {path / name} has changed since it was written; {advice}")


def save_weights(path: Path, module: torch.nn.Module) -> None:
    """The parameters of `module`, each once (tied ones under their first name)."""
    save_file({name: parameter.detach().cpu().contiguous() for name, parameter in module.named_parameters()}, path)


def load_weights(path: Path, module: torch.nn.Module) -> None:
    """What `save_weights` wrote."""
    saved = load_file(path)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(saved[name])


def _optimizer_state(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}:{key}"] = value.detach().cpu().contiguous()
    return tensors


def _restore_optimizer(tensors: dict[str, torch.Tensor], module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for name, parameter in module.named_parameters():
        state: dict[str, Any] = {}
        for key, value in tensors.items():
            if key.rpartition(":")[0] == name:
                kind = key.rpartition(":")[2]
                state[kind] = value if kind == "step" and parameter.device.type == "cpu" else value.to(parameter.device)
        if state:
            optimizer.state[parameter] = state


def _random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
