"""Ranks that share out Muon's matrices take the step that one process takes."""

import subprocess
import sys
from pathlib import Path

import torch
from muon_steps import SHAPES, steps
from safetensors.torch import load_file


def test_three_ranks_take_the_same_steps_as_one(tmp_path: Path) -> None:
    worker = [sys.executable, str(Path(__file__).with_name("muon_steps.py")), str(tmp_path), "3"]
    result = subprocess.run(worker, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    first, *others = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(3))
    alone = steps()
    assert len(alone) == len(SHAPES)
    for name, matrix in first.items():
        for other in others:
            assert torch.equal(matrix, other[name]), "ranks must not drift apart"
        # the products of a smaller stack may be rounded otherwise, in bf16; a step moves a number by about 0.1
        torch.testing.assert_close(matrix, alone[name], rtol=0, atol=5e-3)
