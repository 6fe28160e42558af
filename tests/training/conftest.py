"""One thread: the tests compare bits, and the machine may be busy."""

import torch

torch.set_num_threads(1)
