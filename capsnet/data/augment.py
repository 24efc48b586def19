"""Moving images about on the device: exact integer shifts, and one bilinear warp.

All random numbers of an epoch are drawn beforehand; what is here is a pure function of them.

Usage: moved = place(images, shift, (32, 32))
       warped = warp(images, affine_theta(A, shift, (28, 28), (40, 40)), (40, 40))
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from capsnet.errors import UserError

Size = tuple[int, int]


@dataclass(frozen=True)
class Augment:
    """How far training images are moved at random; 0 switches a kind of movement off."""

    shift: int = 2
    """Whole pixels in each direction."""
    rotate: float = 0.0
    """Degrees to either side."""
    scale: float = 0.0
    """Fraction by which height and width, each by itself, grow or shrink."""
    shear: float = 0.0
    """Horizontal pixels per vertical pixel, to either side."""
    elastic: float = 0.0
    """Standard deviation, in pixels, of each pixel's own displacement; see elastic.py."""

    def __post_init__(self) -> None:
        least = min(self.shift, self.rotate, self.scale, self.shear, self.elastic)
        if least < 0 or self.scale >= 1:
            raise UserError(f"{self} is impossible; use values from 0 on, and a scale below 1.")

    @property
    def warps(self) -> bool:
        """Whether the movement needs interpolation."""
        return bool(self.rotate or self.scale or self.shear or self.elastic)


def place(images: Tensor, shift: Tensor, size: Size) -> Tensor:
    """Put images [N, C, h, w] in the centre of black ones [N, C, H, W], moved by shift [N, 2].

    out[n, :, y + top + dy, x + left + dx] = images[n, :, y, x]; pixels outside are dropped.
    """
    _, channels, *inner = images.shape
    rows, in_rows = _source(shift[:, 0], inner[0], size[0])
    cols, in_cols = _source(shift[:, 1], inner[1], size[1])
    moved = images.gather(2, rows[:, None, :, None].expand(-1, channels, -1, inner[1]))
    moved = moved.gather(3, cols[:, None, None, :].expand(-1, channels, size[0], -1))
    return moved * (in_rows[:, None, :, None] & in_cols[:, None, None, :])


def _source(shift: Tensor, inner: int, outer: int) -> tuple[Tensor, Tensor]:
    """For every output row, which input row [N, outer] it shows and whether there is one."""
    source = torch.arange(outer, device=shift.device) - (outer - inner) // 2 - shift[:, None]
    return source.clamp(0, inner - 1), (source >= 0) & (source < inner)


def linear_map(angle: Tensor, scale: Tensor, shear: Tensor) -> Tensor:
    """Return A = rotation · shear · scaling [M, 2, 2] for angle [M] degrees, scale [M, 2] (x, y).

    A moves a pixel at (x, y), measured from the image's centre, y downwards.
    """
    angle = angle * (math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    rotation = torch.stack([cos, -sin, sin, cos], -1).view(-1, 2, 2)
    one, zero = torch.ones_like(shear), torch.zeros_like(shear)
    skew = torch.stack([one, shear, zero, one], -1).view(-1, 2, 2)
    # Products written out: a matmul would round to TF32 or bf16 where those are switched on.
    turned = (rotation[:, :, :, None] * skew[:, None, :, :]).sum(2)
    return turned * scale[:, None, :]


def affine_theta(A: Tensor, shift: Tensor, inner: Size, outer: Size) -> Tensor:
    """Return theta [M, 2, 3] of A [M, 2, 2], then shift [M, 2] (x, y): output to input, for warp.

    p_in = A^-1 (p_out - shift), in pixels from the centre of [h, w] and of [H, W].
    """
    a, b, c, d = A[:, 0, 0], A[:, 0, 1], A[:, 1, 0], A[:, 1, 1]
    inverse = torch.stack([d, -b, -c, a], -1).view(-1, 2, 2) / (a * d - b * c)[:, None, None]
    offset = -(inverse * shift[:, None, :]).sum(2, keepdim=True)
    out_scale = torch.tensor([outer[1] / 2, outer[0] / 2, 1.0], device=A.device)
    in_scale = torch.tensor([[2 / inner[1]], [2 / inner[0]]], device=A.device)
    return in_scale * torch.cat([inverse, offset], 2) * out_scale


def warp(images: Tensor, theta: Tensor, size: Size, field: Tensor | None = None) -> Tensor:
    """Warp float images [N, C, h, w] by theta [N, 2, 3], bilinear, black outside: [N, C, H, W].

    A field [N, H, W, 2] (x, y) is added to where in the input, -1..1, each output pixel looks.
    """
    height, width = size
    x = (torch.arange(width, device=theta.device) * 2 + 1) / width - 1
    y = (torch.arange(height, device=theta.device) * 2 + 1) / height - 1
    # Written out rather than F.affine_grid, whose matmul may run in TF32 or bf16.
    column = theta[:, None, None]
    grid = column[..., 0] * x[:, None] + column[..., 1] * y[:, None, None] + column[..., 2]
    if field is not None:
        grid = grid + field
    return F.grid_sample(images, grid, padding_mode="zeros", align_corners=False)
