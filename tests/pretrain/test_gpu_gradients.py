"""On a GPU, a compiled step has the gradients of a plain one, for the second shape that it meets too."""

import pytest
import torch
from gpu_steps import begun

from kobert_pipeline.pretrain.model import batches
from kobert_pipeline.training.compilation import compile_in_place
from kobert_pipeline.training.device import device


def gradients_of_steps(architecture: str, objective: str, regional: bool | None) -> list[torch.Tensor]:
    """All gradients of a step in one vector: of the first step, the first of the second phase, and the last. Their
    batches have three shapes. Not compiled where `regional` is None."""
    torch.compiler.reset()
    options, schedule, module = begun({"name": architecture}, objective)
    module.to(device()).train()
    if regional is not None:
        compile_in_place(module, regional)
    batch_at, found = batches(schedule, options.plan, module), []
    for step in (0, schedule.ends[0], schedule.steps - 1):
        module.zero_grad()
        with torch.autocast(device().type, torch.bfloat16):
            loss, _ = module(batch_at(step, 0, 1))
        loss.backward()
        found.append(torch.cat([one.grad.flatten().cpu() for one in module.parameters() if one.grad is not None]))
    return found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("regional", [False, True])
@pytest.mark.parametrize(("architecture", "objective"), [("bert", "mlm_nsp"), ("modernbert", "mlm")])
def test_a_compiled_step_has_the_gradients_of_a_plain_one(architecture: str, objective: str, regional: bool) -> None:
    plain, compiled = (gradients_of_steps(architecture, objective, way) for way in (None, regional))
    for one, other in zip(compiled, plain, strict=True):
        assert other.norm() > 0 and (one - other).norm() < 0.03 * other.norm()
