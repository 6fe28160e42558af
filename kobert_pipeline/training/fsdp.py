"""FSDP (Zhao et al. 2023, "PyTorch FSDP") by torch's `fully_shard`: each rank keeps a shard of every weight, gradient
and optimizer moment, and gathers a layer's weights while it computes with them.

Files are written from whole tensors, so they are the same for any number of ranks, sharded or not.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import UserError


def shard_model(module: torch.nn.Module, accelerator: Accelerator) -> None:
    """Shard every parameter of `module` in place, each transformer layer as one group and the rest as another. With
    mixed precision, layers are gathered in bf16, but their norms in fp32; all gradients are reduced in fp32.

    The parameters are new objects afterwards, so create the optimizer after this call. Raises UserError where there is
    only one rank.
    """
    if accelerator.num_processes == 1:
        raise UserError(
            "plan.fsdp shards a model over several ranks, but there is only one; start several by torchrun "
            "(--nproc_per_node=2 or more), or leave plan.fsdp out"
        )
    # ranks on other machines may have initialised other weights, and fully_shard does not compare them
    for tensor in (*module.parameters(), *module.buffers()):
        torch.distributed.broadcast(tensor.detach(), src=0)
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    bf16, policy = accelerator.mixed_precision == "bf16", MixedPrecisionPolicy()
    if bf16:  # autocast would round the layers' matrices and biases anyway; to cast inputs would round fp32 residuals
        policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for layers in layer_lists(module):
        if bf16 and (norms := norms_in(layers)):
            # near 1, where a norm's weights are, bf16 has steps of 1/128; being few, they are kept for the backward
            fully_shard(norms, mesh=mesh, reshard_after_forward=False)
        for layer in layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    # in fp32, because in bf16 the gradients of an embedding would be summed over all its tokens in bf16
    fully_shard(module, mesh=mesh)


def layer_lists(module: torch.nn.Module) -> list[list[torch.nn.Module]]:
    """The members of every ModuleList, inner lists first, as `fully_shard` requires."""
    # not of lists of one: ALBERT's only layer would be gathered again every time the model passes through it
    lists = [part for part in module.modules() if isinstance(part, torch.nn.ModuleList) and len(part) > 1]
    return [list(members) for members in reversed(lists)]


def norms_in(layers: list[torch.nn.Module]) -> list[torch.nn.Module]:
    """The modules of `layers` that own vectors only and are not sharded yet."""
    parts = [part for layer in layers for part in layer.modules() if not isinstance(part, FSDPModule)]
    owned = [(part, list(part.parameters(recurse=False))) for part in parts]
    return [part for part, weights in owned if weights and all(weight.ndim == 1 for weight in weights)]


def reshard(module: torch.nn.Module) -> None:
    """Free gathered parameters. An evaluation leaves those outside the layers gathered, since no backward pass frees
    them."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


@contextmanager
def full_params(module: torch.nn.Module) -> Iterator[None]:
    """Within this context rank 0 has every parameter whole, on the CPU; tied ones stay tied.

    All ranks must enter it together. It does nothing to a module that is not sharded.
    """
    reshard(module)
    # only now: a parameter that is still gathered is a plain tensor, and would be taken for one that was never sharded
    shards = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner.named_parameters(recurse=False, remove_duplicate=False)
        if isinstance(parameter, DTensor)
    ]
    full: dict[int, torch.nn.Parameter] = {}
    for _, _, parameter in shards:
        if id(parameter) not in full:  # a tied parameter is gathered once
            tensor = get_full_tensor(parameter.detach())
            # the other ranks only take part in the gathering, and drop the result at once
            full[id(parameter)] = torch.nn.Parameter(tensor.cpu()) if is_main_process() else parameter
    try:
        for owner, name, parameter in shards:
            setattr(owner, name, full[id(parameter)])
        yield
    finally:
        for owner, name, parameter in shards:
            setattr(owner, name, parameter)


def get_full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The whole tensor. If `tensor` is sharded, all ranks must call this together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def distribute_like(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`tensor`, whole on every rank, moved to the device of `like` and sharded as that is."""
    tensor = tensor.to(like.device)
    if not isinstance(like, DTensor):
        return tensor
    # None: every rank has read the same file, so nothing needs to be sent
    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
