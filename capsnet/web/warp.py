"""Bending pictures: rotate, scale, shear, shift, thicken, and cut into pieces that are shuffled.

bent = bend(pixels, Warp(rotate=30)); values, pictures = sweep(pixels, Warp(), "rotate")
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from capsnet.data.augment import affine_theta, linear_map, warp
from capsnet.web.schema import Sweepable, Warp

SWEEP_STEPS = 25
RANGES: dict[Sweepable, tuple[float, float]] = {
    "rotate": (-180, 180),
    "scale": (0.5, 1.5),
    "shear": (-1, 1),
    "right": (-12, 12),
    "down": (-12, 12),
    "thicken": (-2, 2),
}


def bend(pixels: Tensor, how: Warp) -> Tensor:
    """Return the picture [C, H, W] bent as told."""
    size = (pixels.shape[1], pixels.shape[2])
    A = linear_map(
        torch.tensor([how.rotate]), torch.full((1, 2), how.scale), torch.tensor([how.shear])
    )
    theta = affine_theta(A, torch.tensor([[how.right, how.down]]), size, size)
    bent = warp(thicken(pixels[None], how.thicken), theta, size)[0]
    return shuffle(bent, how.pieces, how.seed) if how.pieces > 1 else bent


def thicken(images: Tensor, amount: float) -> Tensor:
    """Return images [N, C, H, W] whose strokes are wider, or thinner, by about `amount` pixels."""
    if amount < 0:
        return 1 - thicken(1 - images, -amount)
    while amount > 0:
        wider = F.max_pool2d(images, 3, stride=1, padding=1)
        images = torch.lerp(images, wider, min(amount, 1))
        amount -= 1
    return images


def shuffle(pixels: Tensor, pieces: int, seed: int) -> Tensor:
    """Return the picture [C, H, W] cut into pieces × pieces, none of which stays in its place."""
    C, H, W = pixels.shape
    h, w = H // pieces, W // pieces
    inner = pixels[:, : h * pieces, : w * pieces]
    tiles = inner.reshape(C, pieces, h, pieces, w).permute(1, 3, 0, 2, 4).flatten(0, 1)
    order = torch.randperm(len(tiles), generator=torch.Generator().manual_seed(seed))
    moved = torch.empty_like(tiles)
    moved[order] = tiles[order.roll(1)]  # one cycle through all pieces: nothing stays
    out = pixels.clone()
    moved = moved.unflatten(0, (pieces, pieces)).permute(2, 0, 3, 1, 4)
    out[:, : h * pieces, : w * pieces] = moved.reshape(inner.shape)
    return out


def sweep(pixels: Tensor, how: Warp, over: Sweepable) -> tuple[list[float], Tensor]:
    """Return the values of a sweep and the picture bent by each, [S, C, H, W]."""
    values = torch.linspace(*RANGES[over], SWEEP_STEPS).tolist()
    bent = [bend(pixels, how.model_copy(update={over: value})) for value in values]
    return values, torch.stack(bent)
