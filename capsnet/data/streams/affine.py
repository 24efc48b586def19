"""The affine experiment: digits placed at random on 40×40, and the affNIST-style test set.

A network trained on placed digits alone is tested on warped ones: rotation up to 20°, shear up to
0.2, height and width scaled by 0.8 to 1.2, moved anywhere inside the canvas. These are generated
from MNIST, as sharp as the originals, so that it is the warp that is tested and no blur, and always
called "affNIST-style"; the original files are read by affnist.py.

Usage: train, test = CanvasStream(mnist_train), AffineStream(mnist_test)
"""

import torch
from torch import Tensor

from capsnet.data.splits.split import CHUNK, Split
from capsnet.data.streams.ahead import cut
from capsnet.data.streams.augmentation import draw_maps
from capsnet.data.streams.geometry import SHARP, affine_theta, place, warp
from capsnet.data.streams.stream import Plan, Stream, canvas_shape, draw_order, label, taken
from capsnet.tasks import Batch

VERSIONS = 32
ROTATE, SHEAR, SCALE = 20.0, 0.2, 0.2


class CanvasStream(Stream):
    """Images placed uniformly on a black canvas: anew for each generator, fixed without."""

    def __init__(self, split: Split, canvas: int = 40) -> None:
        self.split = split
        self.num_samples = len(split)
        self.image_shape = canvas_shape(split, canvas)

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "index" [M] and "shift" [M, 2], (dy, dx) from the centre."""
        num = self.num_samples
        generator, index = draw_order(num, generator)
        shift = []
        for outer, inner in zip(self.image_shape[1:], self.split.image_shape[1:], strict=True):
            room, corner = outer - inner, (outer - inner) // 2
            top = torch.randint(room + 1, (num,), generator=generator, device=generator.device)
            shift.append(top - corner)
        plan = {"index": index, "shift": torch.stack(shift, 1)}
        return {name: values.to(self.device) for name, values in plan.items()}

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan; its only part is the image itself."""
        images = place(taken(self.split, plan), plan["shift"], self.image_shape[1:])
        images = images.float() / self.split.white
        return label(images, self.split, plan["index"])


class AffineStream(Stream):
    """affNIST-style images: random affine versions of each image, all ink kept on the canvas.

    reach: the most pixels that an image's centre moves along each axis; by default as far as its
    ink has room, which is farther than CanvasStream goes.
    """

    def __init__(
        self,
        split: Split,
        num_samples: int | None = None,
        canvas: int = 40,
        reach: float | None = None,
    ) -> None:
        self.split, self.reach = split, reach
        self.num_samples = num_samples or VERSIONS * len(split)
        self.image_shape = canvas_shape(split, canvas)
        parts = (split.images[part] for part in cut(len(split), CHUNK))
        self.boxes = torch.cat([ink_boxes(part) for part in parts])

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "index" [M] and "theta" [M, 2, 3]."""
        num = self.num_samples
        generator, order = draw_order(max(num, len(self.split)), generator)
        index = order[:num] % len(self.split)
        A = draw_maps(num, ROTATE, SCALE, SHEAR, generator)
        where = torch.rand(num, 2, generator=generator, device=generator.device)
        inner, outer = self.split.image_shape[1:], self.image_shape[1:]
        shift = self._shift(A, self.boxes.to(generator.device)[index], where)
        plan = {"index": index, "theta": affine_theta(A, shift, inner, outer)}
        return {name: values.to(self.device) for name, values in plan.items()}

    def _shift(self, A: Tensor, boxes: Tensor, where: Tensor) -> Tensor:
        """Return the shift [M, 2] (x, y) that puts the warped box at `where` [M, 2] of its room."""
        half = torch.tensor(self.split.image_shape[:0:-1], device=A.device) / 2
        top, bottom, left, right = boxes.float().unbind(1)
        x = torch.stack([left, right, left, right], 1) - half[0]
        y = torch.stack([top, top, bottom, bottom], 1) - half[1]
        corners = A[:, :, :1] * x[:, None] + A[:, :, 1:] * y[:, None]
        edge = self.image_shape[1] / 2
        low, high = -edge - corners.amin(2), edge - corners.amax(2)
        if self.reach is not None:
            low, high = (x.clamp(-self.reach, self.reach) for x in (low, high))
        return low + (high - low) * where

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan; its only part is the image itself."""
        images = taken(self.split, plan).float() / self.split.white
        images = warp(images, plan["theta"], self.image_shape[1:], SHARP)
        return label(images, self.split, plan["index"])


def ink_boxes(images: Tensor) -> Tensor:
    """Return (top, bottom, left, right) [N, 4] of the non-black pixels of [N, C, H, W].

    The far sides are exclusive; an image without ink has an empty box.
    """
    ink = (images > 0).any(1)
    sides = []
    for line in (ink.any(2), ink.any(1)):
        mark = line.byte()
        low = mark.argmax(1)
        high = line.shape[1] - mark.flip(1).argmax(1)
        sides += [low * line.any(1), high * line.any(1)]
    return torch.stack(sides, 1)
