"""The peaks that MFU refers to."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kobert_pipeline.training import peak_flops


def on_gpu(monkeypatch: pytest.MonkeyPatch, name: str, precision: str = "bf16", ranks: int = 1) -> dict[str, float]:
    """The peaks of ranks with this GPU each, on which a matrix product reaches 100 operations per second."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    monkeypatch.setattr(peak_flops, "measured_flops", lambda accelerator: 100.0)
    accelerator: Any = SimpleNamespace(device=torch.device("cuda", 0), mixed_precision=precision, num_processes=ranks)
    return peak_flops.peak_flops(accelerator)


def test_the_data_sheet_is_used_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_gpu(monkeypatch, "NVIDIA H100 80GB HBM3") == {"mfu": 989e12, "mfu_measured": 100}
    assert on_gpu(monkeypatch, "NVIDIA H100 PCIe", ranks=8) == {"mfu": 8 * 756e12, "mfu_measured": 800}
    assert on_gpu(monkeypatch, "A100-SXM4-40GB")["mfu"] == 312e12, "as older drivers call it"
    for other in ("NVIDIA L40", "NVIDIA H100 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Tesla T4"):
        assert on_gpu(monkeypatch, other) == {"mfu_measured": 100}, other
    assert "mfu" not in on_gpu(monkeypatch, "NVIDIA H200", precision="no"), "its peak is that of bf16"


def test_on_a_cpu_the_peak_is_measured() -> None:
    accelerator: Any = SimpleNamespace(device=torch.device("cpu"), mixed_precision="no", num_processes=1)
    peaks = peak_flops.peak_flops(accelerator)
    assert list(peaks) == ["mfu_measured"]
    assert 1e8 < peaks["mfu_measured"] < 1e15
