"""Altering images in ways that are no movement: wider strokes, and parts in the wrong places.

Usage: bold = thicken(images, 0.5); mixed = scramble(images, 2, 2, torch.Generator())
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def thicken(images: Tensor, amount: float) -> Tensor:
    """Return images [N, C, H, W], strokes wider or thinner by about `amount` pixels a side."""
    sign, left = (-1 if amount < 0 else 1), abs(amount)
    while left > 0:
        other = sign * F.max_pool2d(sign * images, 3, stride=1, padding=1)
        images = torch.lerp(images, other, min(left, 1))
        left -= 1
    return images


def scramble(images: Tensor, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Cut images [N, C, H, W] into rows × columns parts and move every part to another's place.

    The parts of an image go round one random cycle, so that none stays. Pixels left over at the
    right and at the bottom are no part.
    """
    h, w = images.shape[2] // rows, images.shape[3] // columns
    whole = images.clone()
    inner = whole[:, :, : rows * h, : columns * w]
    tiles = inner.unflatten(3, (columns, w)).unflatten(2, (rows, h)).permute(0, 2, 4, 1, 3, 5)
    parts = tiles.flatten(1, 2)
    cycle = torch.rand(len(images), rows * columns, generator=generator).argsort(1)
    source = torch.empty_like(cycle).scatter_(1, cycle, cycle.roll(1, 1)).to(images.device)
    moved = parts.gather(1, source[:, :, None, None, None].expand_as(parts))
    tiles.copy_(moved.view(tiles.shape))  # a view of the whole
    return whole
