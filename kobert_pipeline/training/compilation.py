"""torch.compile for a whole model, or for each of its layers: regional compilation, as in accelerate and torchtitan.
All layers of a kind share one graph, so a deep model starts as fast as a shallow one."""

from typing import Any

import torch


def compile_in_place(module: torch.nn.Module, regional: bool, **options: Any) -> None:
    """Compile the module, or with `regional` each of its layers, when it is first called. `options` are those of
    torch.compile."""
    for part in layers_of(module) if regional else [module]:
        # not `torch.compile(part)`: its wrapper would change the names of the parameters
        part.compile(**options)


def layers_of(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers: members of the outermost ModuleLists. ALBERT has one, which is passed through many times."""
    # not `fsdp.layer_lists`, which has inner lists too, and leaves out ALBERT's
    if isinstance(module, torch.nn.ModuleList):
        return list(module)
    return [layer for child in module.children() for layer in layers_of(child)]
