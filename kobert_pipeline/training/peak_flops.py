"""The peaks that the model FLOPs utilization (MFU, Chowdhery et al. 2022) of a training refers to."""

import time

import torch
from accelerate import Accelerator

DATA_SHEET_TFLOPS = {
    "A100-PCIE-40GB": 312,
    "A100 80GB PCIe": 312,
    "A100-SXM4-40GB": 312,
    "A100-SXM4-80GB": 312,
    "GeForce RTX 4090": 165,
    "H100 80GB HBM3": 989,  # SXM
    "H100 PCIe": 756,
    "H200": 989,
    "L4": 121,
    "L40S": 362,
}
"""{name of a GPU: its peak in TFLOP/s in bf16 with sums in fp32, without sparsity}, from NVIDIA's data sheets. Only
whole names count, since an H100 NVL, an L40 or a slice of an A100 has another peak."""


def peak_flops(accelerator: Accelerator) -> dict[str, float]:
    """Operations per second of all ranks together, by the log's name of the share of them: `mfu`, the data sheet's peak
    for bf16, where it is known and bf16 is used; `mfu_measured`, what a large matrix product reaches here."""
    peaks = {"mfu_measured": measured_flops(accelerator)}
    if accelerator.device.type == "cuda" and accelerator.mixed_precision == "bf16":
        name = torch.cuda.get_device_name(accelerator.device).removeprefix("NVIDIA ")
        if name in DATA_SHEET_TFLOPS:
            peaks = {"mfu": DATA_SHEET_TFLOPS[name] * 1e12, **peaks}
    return {name: accelerator.num_processes * peak for name, peak in peaks.items()}


def measured_flops(accelerator: Accelerator) -> float:
    """Operations per second that a large matrix product reaches on this rank's device."""
    cuda = accelerator.device.type == "cuda"
    # large enough to keep a GPU busy; 1,024 take a core some hundredths of a second
    size, dtype = (4096 if cuda else 1024), torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
    matrix = torch.ones(size, size, device=accelerator.device, dtype=dtype)
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        matrix @ matrix
        if cuda:
            torch.cuda.synchronize(accelerator.device)  # kernels run asynchronously
        seconds.append(time.perf_counter() - started)
    # the fastest, since the first product also pays for starting the library
    return 2 * size**3 / min(seconds)
