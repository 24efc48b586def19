"""Eq. 1: squash a vector to a length below one and keep its direction.

v = squash(s)
"""

import torch
from torch import Tensor


def squash(s: Tensor, dim: int = -1) -> Tensor:
    """Return v = (|s|^2 / (1 + |s|^2)) * s / |s| along `dim`; value and gradient at 0 are 0."""
    # |s|^2 overflows fp16 from |s| = 256 on, so 16-bit inputs are squashed in fp32.
    wide = s.float() if s.dtype in (torch.float16, torch.bfloat16) else s
    # vector_norm has subgradient 0 at 0, so no epsilon is needed and the rest stays exact.
    length = torch.linalg.vector_norm(wide, dim=dim, keepdim=True)
    return (wide * (length / (1 + length * length))).to(s.dtype)
