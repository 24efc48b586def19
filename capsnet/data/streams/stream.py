"""A stream: images that live on a device as bytes, and a way to make batches of them there.

All random choices of an epoch are drawn at once (`plan`); a batch is a pure function of a slice
of the plan, so that it can be captured in a CUDA graph, and any step can be made again.

Usage:
    plan = stream.plan(torch.Generator(stream.device).manual_seed(epoch))
    batch = stream.batch({name: values[:128] for name, values in plan.items()})
"""

from typing import Protocol

import torch
from torch import Tensor

from capsnet.data.splits.split import Split
from capsnet.data.streams.augmentation import Augment, Mover, Plan
from capsnet.data.streams.tones import check_tones, draw_tones, tone
from capsnet.errors import UserError
from capsnet.tasks import Batch, Pairs, Sets, SeveralLabels, Task

TEST_SEED = 2017


class Stream(Protocol):
    """What training and evaluation ask of data; see the module's text."""

    split: Split
    num_samples: int
    image_shape: tuple[int, int, int]

    @property
    def task(self) -> Task:
        """What is asked of the images of a batch."""
        return self.split.task

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


def fixed_generator() -> torch.Generator:
    """Return what draws a test plan: on the CPU, where the same seed gives the same everywhere."""
    return torch.Generator().manual_seed(TEST_SEED)


def draw_order(num: int, generator: torch.Generator | None) -> tuple[torch.Generator, Tensor]:
    """Return what draws the rest of a plan, and the order [num] of its images: random, or as is."""
    if generator is None:
        return fixed_generator(), torch.arange(num)
    return generator, torch.randperm(num, generator=generator, device=generator.device)


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
            f"choose a size of {need} or more, other data, or a model for larger images."
        )
    return channels, canvas, canvas


def taken(split: Split, plan: Plan) -> Tensor:
    """Return the images of a slice of a plan as they are kept: [N, …, C, H, W], bytes or int16.

    Those that stay on the disk have been read by `ahead`, or are now.
    """
    return plan["images"] if "images" in plan else split.images[plan["index"]]


def label(images: Tensor, split: Split, index: Tensor) -> Batch:
    """Return images [N, C, H, W] as a batch, with the labels at index [N]."""
    labels = split.task.batched(split.labels[index])
    # In an image of several objects it is not known which part belongs to which.
    several = isinstance(split.task, SeveralLabels | Pairs | Sets)
    return Batch(images, labels, None if several else images[:, None])


class ImageStream(Stream):
    """One object per image, centred on a square canvas if one is given; moved by `augment`."""

    def __init__(
        self, split: Split, augment: Augment | None = None, canvas: int | None = None
    ) -> None:
        self.split = split
        self.num_samples = len(split)
        self.image_shape = canvas_shape(split, canvas)
        sizes = (split.image_shape[1:], self.image_shape[1:])
        augment = augment or Augment(shift=0)
        check_tones(augment, split.image_shape[0])
        self.mover = Mover(augment, *sizes, self.device)

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "index" [M], movement and tones; without a generator all come in order."""
        num, device = self.num_samples, self.device
        if generator is None:
            return {"index": torch.arange(num, device=device)}
        index = torch.randperm(num, generator=generator, device=device)
        movement = self.mover.draw(num, generator)
        return {"index": index, **movement, **draw_tones(self.mover.augment, num, generator)}

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan; its only part is the image itself."""
        index = plan["index"]
        images = self.mover.move(taken(self.split, plan) / self.split.white, plan)
        return label(tone(images, plan), self.split, index)
