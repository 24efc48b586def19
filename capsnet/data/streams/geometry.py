"""Moving images about on the device: exact integer shifts, and one bicubic warp.

All random numbers of an epoch are drawn beforehand; what is here is a pure function of them.

Usage: moved = place(images, shift, (32, 32))
       warped = warp(images, affine_theta(A, shift, (28, 28), (40, 40)), (40, 40))
       or, many times: sample(images, affine_grid(theta, *centres)), centres = pixel_centres(…)
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

Size = tuple[int, int]
SHARP = 1.2  # the contrast that gives the edges of warped digits their strength back (docs/log.md)


def place(images: Tensor, shift: Tensor, size: Size) -> Tensor:
    """Put images [N, C, h, w] in the centre of black ones [N, C, H, W], moved by shift [N, 2].

    out[n, :, y + top + dy, x + left + dx] = images[n, :, y, x]; pixels outside are dropped.
    """
    framed = F.pad(images, [1, 1, 1, 1])  # with a black frame, which is seen from outside
    _, channels, height, width = framed.shape
    rows = _source(shift[:, 0], height, size[0])[:, None, :, None]
    cols = _source(shift[:, 1], width, size[1])[:, None, None, :]
    moved = framed.gather(2, rows.expand(-1, channels, -1, width))
    return moved.gather(3, cols.expand(-1, channels, size[0], -1))


def _source(shift: Tensor, inner: int, outer: int) -> Tensor:
    """For every output row, which row of the framed input it shows: [N, outer]."""
    top = (outer - inner) // 2
    rows = torch.arange(-top, outer - top, device=shift.device) - shift[:, None]
    return rows.clamp(0, inner - 1)


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


def warp(images: Tensor, theta: Tensor, size: Size, contrast: float = 1.0) -> Tensor:
    """Warp images [N, C, h, w] in [0, 1] by theta [N, 2, 3], black outside: [N, C, H, W]."""
    return sample(images, affine_grid(theta, *pixel_centres(size, theta.device)), contrast)


def pixel_centres(size: Size, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return x [W, 1] and y [H, 1, 1] of the centres of pixels; the edges are -1 and 1."""
    y, x = ((torch.arange(side, device=device) * 2 + 1) / side - 1 for side in size)
    return x[:, None], y[:, None, None]


def affine_grid(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return where in the input, -1..1, each output pixel looks: theta (x, y, 1) [N, H, W, 2]."""
    # Written out rather than F.affine_grid, whose matmul may run in TF32 or bf16.
    along_x, along_y, offset = theta[:, None, None].unbind(-1)
    return along_x * x + along_y * y + offset


def sample(images: Tensor, grid: Tensor, contrast: float = 1.0) -> Tensor:
    """Return images [N, C, h, w] in [0, 1] as seen through a grid [N, H, W, 2], black outside."""
    # Bilinear would blur them; bicubic overshoots, so the result is clamped.
    seen = F.grid_sample(images, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
    return (0.5 + contrast * (seen - 0.5)).clamp(0, 1)
