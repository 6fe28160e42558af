"""One thread: the engine's promises are about bits, and the machine may be busy."""

import torch

torch.set_num_threads(1)
