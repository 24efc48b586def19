"""Eq. 1: squash a vector to a length below one and keep its direction.

v = squash(s)

On a GPU fused.py computes the same function of short vectors in one kernel; torch.compile gets
torch's own operations, which it merges with what comes before and after.
"""

import torch
from torch import Tensor

from capsnet.ops.gpu import TRITON

__all__ = ["squash"]

MAX_SIZE = 32  # of a vector in a kernel: capsules are not longer
HALF = (torch.float16, torch.bfloat16)


def squash(s: Tensor, dim: int = -1) -> Tensor:
    """Return v = (|s|^2 / (1 + |s|^2)) * s / |s| along `dim`; value and gradient at 0 are 0."""
    if not torch.compiler.is_compiling() and _has_kernels(s, dim):
        from capsnet.ops.squash.fused import squash_forward

        return squash_forward(s)
    return squash_plain(s, dim)


def squash_plain(s: Tensor, dim: int = -1) -> Tensor:
    """Return squash(s) by torch's own operations."""
    # |s|^2 overflows fp16 from |s| = 256 on, so 16-bit inputs are squashed in fp32.
    wide = s.float() if s.dtype in HALF else s
    # vector_norm has subgradient 0 at 0, so no epsilon is needed and the rest stays exact.
    length = torch.linalg.vector_norm(wide, dim=dim, keepdim=True)
    return (wide * (length / (1 + length * length))).to(s.dtype)


def _has_kernels(s: Tensor, dim: int) -> bool:
    """Return whether the GPU kernels can squash s along `dim`."""
    if not (TRITON and s.is_cuda and s.dtype in (torch.float32, *HALF) and s.numel() > 0):
        return False
    last = s.dim() > 0 and dim in (-1, s.dim() - 1) and s.shape[-1] <= MAX_SIZE
    return last and torch.cuda.get_device_capability(s.device) >= (8, 0)
