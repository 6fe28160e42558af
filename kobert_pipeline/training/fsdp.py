"""A model shared out among processes (FSDP; Zhao et al. 2023, "PyTorch FSDP"), by torch's `fully_shard`: each keeps a
slice of every weight, of its gradient and of its moments, and gathers a layer's weights when it computes with them.
Where a step is taken in parts, the gradients of each part are averaged at once: held back until the last one, they
would have to be held whole.

Files are made of whole tensors, so they do not tell how many processes made them, nor whether they shared.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import UserError


def shard_model(module: torch.nn.Module, engine: Accelerator) -> None:
    """Cut every parameter of `module` up among the processes of `engine`, each layer a group that is gathered when it
    is computed, the rest another. The module stays the same object, its parameters do not: optimizers are made
    afterwards. Raises UserError where one process is alone."""
    if engine.num_processes == 1:
        raise UserError(
            "plan.fsdp shares a model out among processes, and this one is alone; start several by torchrun "
            "(--nproc_per_node=2 or more), "
            "or leave plan.fsdp out"
        )
    for tensor in (*module.parameters(), *module.buffers()):
        torch.distributed.broadcast(tensor.detach(), src=0)  # all begin as the first does, whatever their machines drew
    mesh = init_device_mesh(engine.device.type, (engine.num_processes,))
    for layer in layers(module):
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)


def layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """What stands in a row, inner rows first. A row of one is none: ALBERT's only layer would be gathered anew every
    time it is passed."""
    rows = [part for part in module.modules() if isinstance(part, torch.nn.ModuleList) and len(part) > 1]
    return [layer for row in reversed(rows) for layer in row]


def reshard(module: torch.nn.Module) -> None:
    """Let go of what is gathered: after an evaluation that is all but the layers."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


@contextmanager
def full_params(module: torch.nn.Module) -> Iterator[None]:
    """Within, the first process has every parameter whole, on the CPU, where the slices were; tied ones stay tied. All
    processes must come here together. Does nothing to a module that is not shared out."""
    reshard(module)
    slices = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner.named_parameters(recurse=False, remove_duplicate=False)
        if isinstance(parameter, DTensor)
    ]
    made: dict[int, torch.nn.Parameter] = {}
    for _, _, parameter in slices:
        if id(parameter) not in made:
            tensor = get_full_tensor(parameter.detach())
            made[id(parameter)] = torch.nn.Parameter(tensor.cpu()) if is_main_process() else parameter
    try:
        for owner, name, parameter in slices:
            setattr(owner, name, made[id(parameter)])
        yield
    finally:
        for owner, name, parameter in slices:
            setattr(owner, name, parameter)


def get_full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """All of `tensor`, of which every process may have a slice; those must come here together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def distribute_like(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`tensor`, which every process has whole, where `like` is: on its device, and of what is shared out this process's
    slice."""
    tensor = tensor.to(like.device)
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
