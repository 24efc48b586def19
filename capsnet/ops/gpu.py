"""Whether there is a Triton for the kernels, and how large the chip is that they run on.

if TRITON and x.is_cuda: …; programs = 2 * processors(x.device)
"""

import os
from functools import cache
from importlib.util import find_spec

import torch

# The kernels carry tuples through loops, which the Triton of torch 2.6 does not compile, and
# describe tensors to the copy engine, which begins with the Triton of torch 2.8.
TRITON = find_spec("triton") is not None and torch.__version__ >= "2.8"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels run as Python, on the CPU


@cache
def processors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU; a few for the interpreter."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count
