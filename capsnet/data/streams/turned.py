"""Digits turned by an angle that is to be told: a task of numbers.

Usage: stream = TurnedStream(digits_train); stream.batch(plan).labels  # [N, 1], degrees
"""

import torch

from capsnet.data.splits.split import Split
from capsnet.data.streams.geometry import SHARP, affine_theta, linear_map, warp
from capsnet.data.streams.stream import Plan, Stream, canvas_shape, draw_order, taken
from capsnet.tasks import Batch, Numbers

MOST = 45.0  # degrees to either side; from 90 on, a 6 could be a 9


class TurnedStream(Stream):
    """Images turned clockwise by up to 45° to either side: anew for each generator, else fixed."""

    def __init__(self, split: Split, canvas: int | None = None) -> None:
        self.split = split
        self.num_samples = len(split)
        self.image_shape = canvas_shape(split, canvas)

    @property
    def task(self) -> Numbers:
        """The angle is asked for."""
        return Numbers(("rotation",), ("°",), ((-MOST, MOST),))

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "index" [M] and "angle" [M], uniform."""
        num = self.num_samples
        generator, index = draw_order(num, generator)
        angle = MOST * (2 * torch.rand(num, generator=generator, device=generator.device) - 1)
        plan = {"index": index, "angle": angle}
        return {name: values.to(self.device) for name, values in plan.items()}

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan."""
        angle = plan["angle"]
        still = torch.zeros_like(angle)
        A = linear_map(angle, (still + 1)[:, None].expand(-1, 2), still)
        sizes = (self.split.image_shape[1:], self.image_shape[1:])
        theta = affine_theta(A, torch.stack([still, still], 1), *sizes)
        pixels = taken(self.split, plan).float() / self.split.white
        images = warp(pixels, theta, sizes[1], SHARP)
        return Batch(images, angle[:, None], images[:, None])
