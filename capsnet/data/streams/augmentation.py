"""Random movement of training images, drawn for a whole epoch and applied to a batch at a time.

Usage: mover = Mover(Augment(rotate=15), (28, 28), (28, 28), device)
       plan = mover.draw(60_000, generator); moved = mover.move(images, plan)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from capsnet.data.streams.elastic import draw_knots, spline_basis, spline_field
from capsnet.data.streams.geometry import (
    Size,
    affine_grid,
    affine_theta,
    linear_map,
    pixel_centres,
    place,
    sample,
)
from capsnet.errors import UserError

Plan = dict[str, Tensor]


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
    contrast: float = 1.0
    """Factor of the contrast, around mid-grey, of images moved in other ways than by a shift."""

    def __post_init__(self) -> None:
        for name in ("shift", "rotate", "scale", "shear", "elastic"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must not be negative.")
        if self.scale >= 1:
            raise UserError("scale must be less than 1.")
        if self.contrast <= 0:
            raise UserError("contrast must be greater than 0.")
        if self.contrast != 1 and not self.warps:
            raise UserError("contrast needs rotate, scale, shear or elastic; leave it out.")

    @property
    def warps(self) -> bool:
        """Whether the movement needs interpolation."""
        return bool(self.rotate or self.scale or self.shear or self.elastic)


def draw_maps(
    num: int, rotate: float, scale: float, shear: float, generator: torch.Generator
) -> Tensor:
    """Draw A [num, 2, 2] with angle, scale of x and of y, and shear uniform up to their bounds."""
    spread = torch.rand(num, 4, generator=generator, device=generator.device) * 2 - 1
    return linear_map(spread[:, 0] * rotate, 1 + spread[:, 1:3] * scale, spread[:, 3] * shear)


class Mover:
    """Moves images of the size `inner` on black ones of the size `outer` as an Augment says."""

    def __init__(self, augment: Augment, inner: Size, outer: Size, device: torch.device) -> None:
        if augment.shift >= min(outer):
            raise UserError(
                f"A shift of {augment.shift} px moves images of {outer[0]}×{outer[1]} out of sight"
                "; use less."
            )
        self.augment, self.inner, self.outer = augment, inner, outer
        if augment.warps:
            self.centres = pixel_centres(outer, device)
        if augment.elastic:
            self.basis = spline_basis(outer).to(device)

    def draw(self, num: int, generator: torch.Generator) -> Plan:
        """Draw "shift" [num, 2] (dy, dx), or "theta" [num, 2, 3] and, if elastic, "knots"."""
        reach, device = self.augment.shift, generator.device
        shift = torch.randint(-reach, reach + 1, (num, 2), generator=generator, device=device)
        if not self.augment.warps:
            return {"shift": shift}
        a = self.augment
        A = draw_maps(num, a.rotate, a.scale, a.shear, generator)
        plan = {"theta": affine_theta(A, shift.flip(1), self.inner, self.outer)}
        if self.augment.elastic:
            plan["knots"] = draw_knots(num, self.augment.elastic, self.inner, generator)
        return plan

    def move(self, images: Tensor, plan: Plan) -> Tensor:
        """Return float images [N, C, h, w] in [0, 1] moved by a slice of a plan: [N, C, H, W].

        Without movement in the plan they are in the centre.
        """
        if "theta" not in plan:
            still = "shift" not in plan
            shift = images.new_zeros(len(images), 2, dtype=torch.long) if still else plan["shift"]
            return place(images, shift, self.outer)
        grid = affine_grid(plan["theta"], *self.centres)
        if "knots" in plan:
            grid = grid + spline_field(plan["knots"], self.basis)
        return sample(images, grid, self.augment.contrast)
