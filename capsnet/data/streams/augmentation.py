"""Random movement of training images, drawn for a whole epoch and applied to a batch at a time.

Usage: mover = Mover(Augment(rotate=15), (28, 28), (28, 28), device)
       plan = mover.draw(60_000, generator); moved = mover.move(images, plan)
"""

from dataclasses import dataclass
from typing import Literal, get_args

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
from capsnet.errors import UserError, unknown_name

Plan = dict[str, Tensor]
Flip = Literal["none", "horizontal", "vertical", "both"]


@dataclass(frozen=True)
class Augment:
    """How far training images are moved and toned at random; 0 switches a kind of it off."""

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
    flip: Flip = "none"
    """Mirrored, or not, with even chances: left and right, top and bottom, or each by itself."""
    crop: float = 0.0
    """Share of the side that may be cut away; what is left is scaled back to the whole."""
    brightness: float = 0.0
    """Added to all pixels, in units of white, to either side."""
    intensity: float = 0.0
    """Fraction by which the differences from the image's mean grow or shrink."""
    colour: float = 0.0
    """Share of a half turn of the hues, and fraction of the saturation, to either side; RGB."""

    def __post_init__(self) -> None:
        amounts = ("shift", "rotate", "scale", "shear", "elastic")
        shares = ("crop", "brightness", "intensity", "colour")
        for name in (*amounts, *shares):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must not be negative.")
        for name in ("scale", *shares):
            if getattr(self, name) >= 1:
                raise UserError(f"{name} must be less than 1.")
        if self.flip not in get_args(Flip):
            raise unknown_name("flip", self.flip, get_args(Flip))
        if self.contrast <= 0:
            raise UserError("contrast must be greater than 0.")
        if self.contrast != 1 and not self.warps:
            raise UserError("contrast needs rotate, scale, shear, elastic or crop; leave it out.")

    @property
    def warps(self) -> bool:
        """Whether the movement needs interpolation."""
        return bool(self.rotate or self.scale or self.shear or self.elastic or self.crop)

    @property
    def flips(self) -> bool:
        """Whether images are mirrored."""
        return self.flip != "none"

    @property
    def tones(self) -> bool:
        """Whether the values of pixels change; see tones.py."""
        return bool(self.brightness or self.intensity or self.colour)


def draw_maps(
    num: int, rotate: float, scale: float, shear: float, generator: torch.Generator
) -> Tensor:
    """Draw A [num, 2, 2] with angle, scale of x and of y, and shear uniform up to their bounds."""
    spread = torch.rand(num, 4, generator=generator, device=generator.device) * 2 - 1
    return linear_map(spread[:, 0] * rotate, 1 + spread[:, 1:3] * scale, spread[:, 3] * shear)


def draw_flips(num: int, flip: Flip, generator: torch.Generator) -> Tensor:
    """Draw which images are mirrored, bool [num, 2]: top and bottom, left and right."""
    turned = torch.rand(num, 2, generator=generator, device=generator.device) < 0.5
    if flip != "both":
        turned[:, 0 if flip == "horizontal" else 1] = False
    return turned


def draw_windows(num: int, crop: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw windows inside images: the side [num], 1 - crop to 1, and the centre [num, 2] (x, y)."""
    u = torch.rand(num, 3, generator=generator, device=generator.device)
    side = 1 - crop * u[:, 0]
    return side, (1 - side)[:, None] * (2 * u[:, 1:] - 1)


def cropped(theta: Tensor, side: Tensor, centre: Tensor) -> Tensor:
    """Return theta [M, 2, 3] that looks through windows of an image as if each were the image."""
    looking = theta * side[:, None, None]
    return torch.cat([looking[:, :, :2], looking[:, :, 2:] + centre[:, :, None]], 2)


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
        """Draw "shift" [num, 2] (dy, dx), or "theta" [num, 2, 3] and, if elastic, "knots".

        If images are mirrored, then also "flip" [num, 2] (y, x).
        """
        a, device = self.augment, generator.device
        shift = torch.randint(-a.shift, a.shift + 1, (num, 2), generator=generator, device=device)
        plan = {"shift": shift}
        if a.warps:
            A = draw_maps(num, a.rotate, a.scale, a.shear, generator)
            plan = {"theta": affine_theta(A, shift.flip(1), self.inner, self.outer)}
        if a.elastic:
            plan["knots"] = draw_knots(num, a.elastic, self.inner, generator)
        # What is added here is drawn last, so that plans of older settings stay what they were.
        if a.flips:
            plan["flip"] = draw_flips(num, a.flip, generator)
        if a.crop:
            plan["theta"] = cropped(plan["theta"], *draw_windows(num, a.crop, generator))
        return plan

    def move(self, images: Tensor, plan: Plan) -> Tensor:
        """Return float images [N, C, h, w] in [0, 1] moved by a slice of a plan: [N, C, H, W].

        Without movement in the plan they are in the centre.
        """
        if "flip" in plan:
            for axis, turned in zip((2, 3), plan["flip"].unbind(1), strict=True):
                images = torch.where(turned[:, None, None, None], images.flip(axis), images)
        if "theta" not in plan:
            still = "shift" not in plan
            shift = images.new_zeros(len(images), 2, dtype=torch.long) if still else plan["shift"]
            return place(images, shift, self.outer)
        grid = affine_grid(plan["theta"], *self.centres)
        if "knots" in plan:
            grid = grid + spline_field(plan["knots"], self.basis)
        return sample(images, grid, self.augment.contrast)
