"""A stream: images that live on a device as bytes, and a way to make batches of them there.

All random choices of an epoch are drawn at once (`plan`); a batch is a pure function of a slice
of the plan, so that it can be captured in a CUDA graph, and any step can be made again.

Usage:
    plan = stream.plan(torch.Generator(stream.device).manual_seed(epoch))
    batch = stream.batch({name: values[:128] for name, values in plan.items()})
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from capsnet.data.augment import (
    Augment,
    affine_grid,
    affine_theta,
    erase,
    linear_map,
    pixel_centres,
    place,
    sample,
)
from capsnet.data.datasets import Split
from capsnet.data.elastic import draw_knots, spline_basis, spline_field
from capsnet.errors import UserError

Plan = dict[str, Tensor]


class Batch(NamedTuple):
    """Images [N, C, H, W] in [0, 1], labels [N, L], and each object alone [N, L, C, H, W]."""

    images: Tensor
    labels: Tensor
    parts: Tensor


class Stream(Protocol):
    """What training and evaluation ask of data; see the module's text."""

    split: Split
    num_samples: int
    num_labels: int
    image_shape: tuple[int, int, int]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.split.classes

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.split.classes)

    @property
    def device(self) -> torch.device:
        """Where images, plans and batches live."""
        return self.split.images.device

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw all choices of one epoch, tensors [num_samples, ...]; None is the test plan."""
        ...

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan, tensors [N, ...]."""
        ...


def canvas_shape(split: Split, canvas: int | None, margin: int = 0) -> tuple[int, int, int]:
    """Return (C, H, W) of images on a square canvas that must hold them and a margin around."""
    channels, height, width = split.image_shape
    need = max(height, width) + 2 * margin
    if canvas is None:
        return split.image_shape
    if canvas < need:
        around = f" with {margin} px around them" if margin else ""
        raise UserError(
            f"Images of {height}×{width}{around} do not fit a {canvas}×{canvas} canvas; "
            f"ask for a size of {need} or more."
        )
    return channels, canvas, canvas


class ImageStream(Stream):
    """One object per image, centred on a square canvas if one is given; moved by `augment`."""

    num_labels = 1

    def __init__(
        self, split: Split, augment: Augment | None = None, canvas: int | None = None
    ) -> None:
        self.split = split
        self.augment = augment
        self.num_samples = len(split)
        self.image_shape = canvas_shape(split, canvas)
        size = self.image_shape[1:]
        if augment is not None and augment.warps:
            self.centres = pixel_centres(size, self.device)
            self.interpolation = augment.interpolation
        if augment is not None and augment.erase > min(size):
            raise UserError(
                f"A square of {augment.erase} px does not fit an image of {size[0]}×{size[1]}; "
                "erase less."
            )
        if augment is not None and augment.elastic:
            self.basis = spline_basis(size).to(self.device)

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "index" [M] and "shift" [M, 2], or "theta" [M, 2, 3] and, if elastic, "knots".

        "corner" [M, 2] is where something is erased, "contrast" [M] what is changed of it. Without
        a generator all images come in order and unmoved.
        """
        num, device = self.num_samples, self.device
        if generator is None:
            return {"index": torch.arange(num, device=device)}
        plan = {"index": torch.randperm(num, generator=generator, device=device)}
        if self.augment is None:
            return plan
        if self.augment.erase:
            corners = [
                torch.randint(
                    side - self.augment.erase + 1, (num,), generator=generator, device=device
                )
                for side in self.image_shape[1:]
            ]
            plan["corner"] = torch.stack(corners, 1)
        reach = self.augment.shift
        shift = torch.randint(-reach, reach + 1, (num, 2), generator=generator, device=device)
        if not self.augment.warps:
            return plan | {"shift": shift}
        spread = torch.rand(num, 4, generator=generator, device=device) * 2 - 1
        knots = None
        if self.augment.elastic:
            knots = draw_knots(num, self.augment.elastic, self.split.image_shape[1:], generator)
        moved = torch.ones(num, dtype=torch.bool, device=device)
        if self.augment.warp_share < 1:
            moved = torch.rand(num, generator=generator, device=device) < self.augment.warp_share
            spread = spread * moved[:, None]
            knots = None if knots is None else knots * moved[:, None, None, None]
        A = linear_map(
            angle=spread[:, 0] * self.augment.rotate,
            scale=1 + spread[:, 1:3] * self.augment.scale,
            shear=spread[:, 3] * self.augment.shear,
        )
        if self.augment.contrast != 1:
            plan["contrast"] = torch.where(moved, self.augment.contrast, 1.0)
        size = (self.split.image_shape[1:], self.image_shape[1:])
        plan["theta"] = affine_theta(A, shift.flip(1), *size)
        return plan if knots is None else plan | {"knots": knots}

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan; its only part is the image, with nothing erased."""
        images = self.split.images[plan["index"]] / 255
        labels = self.split.labels[plan["index"]]
        size = self.image_shape[1:]
        if "theta" in plan:
            grid = affine_grid(plan["theta"], *self.centres)
            if "knots" in plan:
                grid = grid + spline_field(plan["knots"], self.basis)
            images = sample(images, grid, self.interpolation)
            if "contrast" in plan:
                gain = plan["contrast"][:, None, None, None]
                images = (0.5 + gain * (images - 0.5)).clamp(0, 1)
        elif "shift" in plan:
            images = place(images, plan["shift"], size)
        elif size != images.shape[2:]:
            images = place(images, torch.zeros_like(plan["index"])[:, None].expand(-1, 2), size)
        parts = images[:, None]
        if "corner" in plan and self.augment is not None:
            images = erase(images, plan["corner"], self.augment.erase)
        return Batch(images, labels[:, None], parts)
