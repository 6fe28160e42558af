"""Batches from host memory to the device: all tensors of a batch in one copy, which the host does not wait for."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch

ALIGNMENT = 16
"""Bytes between the starts of packed tensors are a multiple of this: code of torch.compile copies inputs that are
aligned to less."""

Nested = TypeVar("Nested")
"""Tensors in nested dataclasses, dicts, lists and tuples."""


def copy_to_device(batch: Nested, device: torch.device | str) -> Nested:
    """`batch`, whose tensors are in host memory, with all of them on `device`; on the CPU `batch` itself.

    The new tensors are views of one buffer. The copy is queued on the current stream, so kernels queued there
    afterwards see the tensors, while the host goes on at once.
    """
    device = torch.device(device)
    if device.type == "cpu":
        return batch
    tensors = tensors_of(batch)
    # torch reuses a pinned buffer only after the copies from it are complete
    buffer = pack(tensors, pinned=device.type == "cuda").to(device, non_blocking=True)
    views = iter(unpack(buffer, tensors))
    moved: Nested = map_tensors(lambda _: next(views), batch)
    return moved


def pack(tensors: Sequence[torch.Tensor], pinned: bool = False) -> torch.Tensor:
    """The bytes of all tensors in one uint8 buffer, (bytes,), each at the next multiple of `ALIGNMENT`. `pinned`: in
    page-locked memory, which the device reads without the host."""
    buffer = torch.empty(sum(map(_padded_size, tensors)), dtype=torch.uint8, pin_memory=pinned)
    for view, tensor in zip(unpack(buffer, tensors), tensors, strict=True):
        view.copy_(tensor)
    return buffer


def unpack(buffer: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Undo `pack`: views of `buffer` with the types and shapes of the tensors `like`, whatever their device."""
    views, start = [], 0
    for tensor in like:
        # the alignment also lets bytes be viewed as a wider type, which must start at a multiple of its size
        views.append(buffer[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape))
        start += _padded_size(tensor)
    return views


def _padded_size(tensor: torch.Tensor) -> int:
    """Bytes that the tensor takes in the buffer."""
    return -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors of a nested value, in the order of `map_tensors`."""
    tensors: list[torch.Tensor] = []

    def collect(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(collect, value)
    return tensors


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """The nested value with `function(tensor)` instead of every tensor; anything else stays."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: map_tensors(function, getattr(value, field.name)) for field in fields(value)}
        return replace(value, **changes)
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(function, item) for item in value)
    return value
