"""Elastic distortion (Simard, Steinkraus and Platt, 2003): all pixels of an image move a little.

Simard et al. draw a displacement for every pixel and smooth them with a Gaussian of σ = 4 px on
29×29. Here they are drawn for the knots of a coarse net alone, and cubic B-splines B stand for the
Gaussian, which they resemble with σ = h / √3 for knots h pixels apart:

    d(y, x) = Σ_kl B(y/h - k) B(x/h - l) d_kl

Four cells to a side make h = 7 px and σ = 4 px on 28×28: strokes bend and stay whole.

Usage: field = spline_field(draw_knots(num, 1.0, (28, 28), generator), spline_basis((40, 40)))
"""

import torch
from torch import Tensor

CELLS = 4
KNOTS = CELLS + 3  # a spline is felt two cells away, so one row of knots lies outside on each side
SPREAD = 151 / 315  # ∫B², the standard deviation of the field if that of all d_kl is 1


def draw_knots(
    num: int, strength: float, inner: tuple[int, int], generator: torch.Generator
) -> Tensor:
    """Draw d_kl [num, 2, KNOTS, KNOTS], (x, y), in units of warp's grid on images [h, w].

    Displacements of the pixels are normal with a standard deviation of `strength` pixels.
    """
    shape = (num, 2, KNOTS, KNOTS)
    pixel = torch.tensor([2 / inner[1], 2 / inner[0]], device=generator.device)[:, None, None]
    knots = torch.randn(shape, generator=generator, device=generator.device)
    return knots * (pixel * (strength / SPREAD))


def spline_basis(size: tuple[int, int]) -> Tensor:
    """Return each knot's share [KNOTS², H, W] in the pixels' displacements; all together are 1."""
    rows, cols = (_splines(side) for side in size)
    return (rows[:, None, :, None] * cols[None, :, None, :]).flatten(0, 1)


def _splines(side: int) -> Tensor:
    """Return B(y/h - k) [KNOTS, side] at the centres of pixels, the edges being knots."""
    y = (torch.arange(side, dtype=torch.float64) + 0.5) * (CELLS / side)
    r = (y - torch.arange(-1, KNOTS - 1)[:, None]).abs()
    near, far = 2 / 3 - r**2 * (1 - r / 2), (2 - r).clamp(min=0) ** 3 / 6
    return torch.where(r < 1, near, far).float()


def spline_field(knots: Tensor, basis: Tensor) -> Tensor:
    """Return d [N, H, W, 2] of d_kl [N, 2, KNOTS, KNOTS] and the basis [KNOTS², H, W]."""
    # One product; TF32, where it is switched on, costs a thousandth of the displacement.
    field = knots.flatten(2) @ basis.flatten(1)
    return field.unflatten(2, basis.shape[1:]).permute(0, 2, 3, 1)
