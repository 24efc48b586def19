"""Efficient-CapsNet's squash: a short vector keeps its length, a long one has a length below one.

v = exponential_squash(s)
"""

import torch
from torch import Tensor

from capsnet.ops.squash import check_floats, widened

HUGE = 2.0**30  # of a component: above, |s|^2 may overflow, and 1 - e^-|s| is 1


def exponential_squash(s: Tensor, dim: int = -1) -> Tensor:
    """Return v = (1 - e^-|s|) s / |s| along `dim`.

    Args:
        s: vectors of any shape and length; `dim` is the one their components are in.
        dim: the dimension to squash along.

    Returns:
        v in the shape and dtype of s: shorter than one, in the direction of s. At 0 the value is 0
        and the gradient that of s itself; a huge s becomes its unit vector.

    Example:
        >>> exponential_squash(torch.tensor([3.0, 4.0]))  # |s| = 5, so |v| = 1 - e^-5
        tensor([0.5960, 0.7946])
    """
    check_floats(s)
    if s.dim() > 0 and s.shape[dim] == 0:
        return s.clone()
    wide = widened(s)
    largest = wide.detach().abs().amax(dim=dim, keepdim=True)
    scale = torch.where(largest > HUGE, largest, 1)
    wide = wide / scale
    square = wide.square().sum(dim=dim, keepdim=True)
    # Where |s|^2 is 0 the root of 1 is taken and dropped: that of 0 has no derivative.
    zero = square == 0
    length = (square + zero).sqrt()
    ratio = torch.where(zero, 1, -torch.expm1(-scale * length) / length)
    return (wide * ratio).to(s.dtype)
