"""Bending pictures: rotate, scale, shear, shift, thicken, and cut into pieces that are shuffled.

bent = bend(pixels, Warp(rotate=30)); values, pictures = sweep(pixels, Warp(), "rotate")
"""

import torch
from torch import Tensor

from capsnet.data.streams.alter import scramble, thicken
from capsnet.data.streams.geometry import SHARP, affine_theta, linear_map, place, warp
from capsnet.web.schema import RANGES, Sweepable, Warp

SWEEP_STEPS = 25


def bend(pixels: Tensor, how: Warp) -> Tensor:
    """Return the picture [C, H, W] bent as told."""
    images = move(thicken(pixels[None], how.thicken), how)
    generator = torch.Generator().manual_seed(how.seed)
    return scramble(images, how.pieces, how.pieces, generator)[0]


def move(images: Tensor, how: Warp) -> Tensor:
    """Return images [N, C, H, W] turned, scaled, sheared and shifted, without the blur of it."""
    size = (images.shape[2], images.shape[3])
    if how.scale == 1 and not (how.shear or how.rotate % 90 or how.right % 1 or how.down % 1):
        turned = images.rot90(-int(how.rotate / 90), (2, 3))  # every pixel goes to a pixel
        return place(turned, torch.tensor([[int(how.down), int(how.right)]]), size)
    A = linear_map(
        torch.tensor([how.rotate]), torch.full((1, 2), how.scale), torch.tensor([how.shear])
    )
    theta = affine_theta(A, torch.tensor([[how.right, how.down]]), size, size)
    return warp(images, theta, size, SHARP)


def sweep(pixels: Tensor, how: Warp, over: Sweepable) -> tuple[list[float], Tensor]:
    """Return the values of a sweep and the picture bent by each, [S, C, H, W]."""
    low, high = RANGES[over].low, RANGES[over].high
    last = SWEEP_STEPS - 1
    values = [low + (high - low) * n / last for n in range(SWEEP_STEPS)]  # exact in the middle
    bent = [bend(pixels, how.model_copy(update={over: value})) for value in values]
    return values, torch.stack(bent)
