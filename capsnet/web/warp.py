"""Bending pictures: rotate, scale, shear, shift, thicken, and cut into pieces that are shuffled.

bent = bend(pixels, Warp(rotate=30)); values, pictures = sweep(pixels, Warp(), "rotate")
"""

import torch
from torch import Tensor

from capsnet.data.alter import scramble, thicken
from capsnet.data.augment import affine_theta, linear_map, warp
from capsnet.web.schema import RANGES, Sweepable, Warp

SWEEP_STEPS = 25


def bend(pixels: Tensor, how: Warp) -> Tensor:
    """Return the picture [C, H, W] bent as told."""
    size = (pixels.shape[1], pixels.shape[2])
    A = linear_map(
        torch.tensor([how.rotate]), torch.full((1, 2), how.scale), torch.tensor([how.shear])
    )
    theta = affine_theta(A, torch.tensor([[how.right, how.down]]), size, size)
    bent = warp(thicken(pixels[None], how.thicken), theta, size)
    generator = torch.Generator().manual_seed(how.seed)
    return scramble(bent, how.pieces, how.pieces, generator)[0]


def sweep(pixels: Tensor, how: Warp, over: Sweepable) -> tuple[list[float], Tensor]:
    """Return the values of a sweep and the picture bent by each, [S, C, H, W]."""
    values = torch.linspace(*RANGES[over], SWEEP_STEPS).tolist()
    bent = [bend(pixels, how.model_copy(update={over: value})) for value in values]
    return values, torch.stack(bent)
