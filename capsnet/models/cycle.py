"""A cycle: a class capsule is moved a little and drawn, and its drawing is read again.

moved = move_one(v, which, 0.25); kept = kept_length(moved, v)
"""

import torch
from torch import Tensor


def taken(v: Tensor, which: Tensor) -> Tensor:
    """Return the capsules `which` [N] of v [N, J, E], [N, E]."""
    return torch.take_along_dim(v, which[:, None, None], dim=1).squeeze(1)


def move_one(pose: Tensor, far: float) -> Tensor:
    """Return poses [N, E], one number of each, chosen at random, changed by up to ±far.

    The choices come from torch's generator of the device, which a captured step may ask.
    """
    N, E = pose.shape
    chance = torch.rand(2, N, 1, device=pose.device)
    e = (chance[0] * E).long().clamp(max=E - 1)
    each = torch.arange(E, device=pose.device) == e
    return pose + each * (far * (2 * chance[1] - 1))


def as_long_as(pose: Tensor, other: Tensor) -> Tensor:
    """Return poses [N, E] in their direction and with the lengths of others [N, E].

    A capsule is not longer than 1, so that what was moved outwards could never be read.
    """
    length = torch.linalg.vector_norm(pose, dim=-1, keepdim=True).clamp(min=1e-6)
    return pose * (torch.linalg.vector_norm(other, dim=-1, keepdim=True) / length)
