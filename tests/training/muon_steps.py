"""Three steps of Muon: `python muon_steps.py FOLDER RANKS` takes them with several ranks, `steps` with one."""

import sys
from pathlib import Path

import torch
from launch import launch
from safetensors.torch import save_file

from kobert_pipeline.distributed import destroy_process_group
from kobert_pipeline.training.muon import StackedMuon

SHAPES = [(24, 16), (16, 24), (24, 16), (16, 16), (24, 16), (16, 24), (32, 16)]
"""Stacks of five, of one and of one: not as many as three ranks could share evenly."""


def steps() -> dict[str, torch.Tensor]:
    """The matrices after three steps with the same gradients wherever they are computed."""
    drawn = torch.Generator().manual_seed(0)
    matrices = [torch.nn.Parameter(torch.randn(shape, generator=drawn)) for shape in SHAPES]
    optimizer = StackedMuon(matrices, lr=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for matrix in matrices:
            matrix.grad = torch.randn(matrix.shape, generator=drawn)
        optimizer.step()
    return {str(number): matrix.detach() for number, matrix in enumerate(matrices)}


def main() -> None:
    """Save a rank's matrices in the folder that the command line names."""
    torch.distributed.init_process_group("gloo")
    save_file(steps(), Path(sys.argv[1]) / f"{torch.distributed.get_rank()}.safetensors")
    destroy_process_group()  # torch's own leaves gloo's threads a moment to abort the process as it exits


if __name__ == "__main__":
    launch(int(sys.argv[2]), main)
