"""Where the tests of kernels run: on a GPU, or by Triton's interpreter in a process of its own."""

import pytest
import torch

from capsnet.ops.gpu import INTERPRETED

CUDA = torch.cuda.is_available() and not INTERPRETED
DEVICE = "cuda" if CUDA else "cpu"
# The interpreter multiplies bf16 wrongly, so 16 bits are represented by fp16 there.
HALF = torch.float16 if INTERPRETED else torch.bfloat16
gpu = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
interpreted = pytest.mark.skipif(not INTERPRETED, reason="runs in test_in_interpreter's process")
