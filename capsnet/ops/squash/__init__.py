"""Eq. 1: squash a vector to a length below one and keep its direction.

v = squash(s)

On a GPU fused.py computes the same function of short vectors in one kernel; torch.compile gets
torch's own operations, which it merges with what comes before and after.
"""

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.gpu import TRITON
from capsnet.ops.plain import needs_plain

__all__ = ["squash"]

MAX_SIZE = 32  # of a vector in a kernel: capsules are not longer
HALF = (torch.float16, torch.bfloat16)
HUGE = 2.0**30  # of a component: above, 1 + |s|^2 is |s|^2 in fp64 too, and may overflow


def squash(s: Tensor, dim: int = -1) -> Tensor:
    """Return v = (|s|^2 / (1 + |s|^2)) * s / |s| along `dim` (Eq. 1).

    Args:
        s: vectors of any shape and length; `dim` is the one their components are in.
        dim: the dimension to squash along.

    Returns:
        v in the shape and dtype of s: shorter than one, in the direction of s. Value and gradient
        at 0 are 0; a huge s becomes its unit vector.

    Example:
        >>> squash(torch.tensor([3.0, 4.0]))  # |s| = 5, so |v| = 25 / 26
        tensor([0.5769, 0.7692])
    """
    check_floats(s)
    if not torch.compiler.is_compiling() and _has_kernels(s, dim) and not needs_plain():
        from capsnet.ops.squash.fused import squash_forward

        return squash_forward(s)
    return squash_plain(s, dim)


def check_floats(s: Tensor) -> None:
    """Raise a UserError for vectors of whole numbers: what is shorter than one would be zero."""
    if not s.is_floating_point():
        raise UserError(f"s of type {s.dtype} cannot be squashed; give floating-point numbers.")


def widened(x: Tensor) -> Tensor:
    """Return half precision as fp32, and all else as it is."""
    return x.float() if x.dtype in HALF else x


def squash_plain(s: Tensor, dim: int = -1) -> Tensor:
    """Return squash(s) by torch's own operations."""
    if s.dim() > 0 and s.shape[dim] == 0:
        return s.clone()
    # |s|^2 overflows fp16 from |s| = 256 on, so 16-bit inputs are squashed in fp32.
    wide = widened(s)
    largest = wide.detach().abs().amax(dim=dim, keepdim=True)
    huge = largest > HUGE
    wide = wide / torch.where(huge, largest, 1)
    square = wide.square().sum(dim=dim, keepdim=True)
    # Where |s|^2 is 0 the root of 1 is taken and dropped: that of 0 has no derivatives.
    zero = square == 0
    length = (square + zero).sqrt()
    return (wide * torch.where(zero, 0, length / (torch.where(huge, 0, 1) + square))).to(s.dtype)


def squash_gradient(s: Tensor, dv: Tensor) -> Tensor:
    """Return the gradient at s for dv at squash(s) along the last dimension; no half precision.

    ds = f (dv + unit (unit . dv) (1 - |s|^2) / (1 + |s|^2)), with f = |s| / (1 + |s|^2)
    """
    if s.shape[-1] == 0:
        return dv.clone()
    largest = s.abs().amax(dim=-1, keepdim=True)
    huge = largest > HUGE
    scale, one = torch.where(huge, largest, 1), torch.where(huge, 0, 1)
    s = s / scale
    length = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    unit = s / torch.where(length > 0, length, 1)
    square = length * length
    along = (unit * dv).sum(dim=-1, keepdim=True) * ((one - square) / (one + square))
    return length / (one + square) / scale * (dv + unit * along)


def _has_kernels(s: Tensor, dim: int) -> bool:
    """Return whether the GPU kernels can squash s along `dim`."""
    if not (TRITON and s.is_cuda and s.dtype in (torch.float32, *HALF) and s.numel() > 0):
        return False
    last = s.dim() > 0 and dim in (-1, s.dim() - 1) and s.shape[-1] <= MAX_SIZE
    return last and torch.cuda.get_device_capability(s.device) >= (8, 0)
