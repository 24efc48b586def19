"""MultiMNIST: two digits of different classes laid over each other on one canvas.

Each digit is moved up to 4 px in each direction on a 36×36 canvas, its partner is any image of
another class of the same split, pixels are added and clipped at 255 (the paper, section 6). In
training, digits can also be warped before they are laid over each other.

Usage: stream = OverlapStream(mnist_train, num_samples=60_000)
"""

from dataclasses import replace

import torch
from torch import Tensor

from capsnet.data.splits.split import Split
from capsnet.data.streams.augmentation import Augment, Mover
from capsnet.data.streams.stream import Plan, Stream, canvas_shape, fixed_generator, taken
from capsnet.errors import UserError
from capsnet.tasks import Batch, OneLabel, Pairs


class OverlapStream(Stream):
    """Pairs drawn on the device: anew for each generator, one fixed set without."""

    def __init__(
        self,
        split: Split,
        num_samples: int,
        canvas: int = 36,
        max_shift: int = 4,
        augment: Augment | None = None,
    ) -> None:
        if not isinstance(split.task, OneLabel) or len(split.labels.unique()) < 2:
            raise UserError("Overlaps pair different classes; give images of at least two.")
        if augment is not None and augment.tones:
            raise UserError(
                "Overlaps add up what is bright; leave brightness, intensity and colour out."
            )
        self.split = split
        self.num_samples = num_samples
        self.image_shape = canvas_shape(split, canvas, margin=max_shift)
        self.max_shift = max_shift
        movement = replace(augment or Augment(), shift=max_shift)
        sizes = (split.image_shape[1:], self.image_shape[1:])
        self.mover = Mover(movement, *sizes, self.device)

    @property
    def task(self) -> Pairs:
        """Both classes of an image are asked for."""
        return Pairs(self.split.task.names)

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "index" [M, 2] of the two images and their movement, [M, 2, …]."""
        num = self.num_samples
        # In training any image can be the first, also of fewer pairs than images.
        most = num if generator is None else max(num, len(self.split))
        generator = generator or fixed_generator()
        device = generator.device
        labels = self.split.labels.to(device)
        first = torch.randperm(most, generator=generator, device=device)[:num] % len(labels)
        second = draw_partners(labels, first, generator)
        movement = self.mover.draw(2 * num, generator)
        plan = {"index": torch.stack([first, second], 1)}
        plan |= {name: x.unflatten(0, (num, 2)) for name, x in movement.items()}
        return {name: values.to(self.device) for name, values in plan.items()}

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan: overlays, both labels, both digits alone."""
        each = {name: x.flatten(0, 1) for name, x in plan.items()}
        digits = self.mover.move(taken(self.split, each) / self.split.white, each)
        parts = digits.view(-1, 2, *self.image_shape)
        images = parts.sum(1).clamp(max=1)
        return Batch(images, self.split.labels[plan["index"]], parts)


def draw_partners(labels: Tensor, first: Tensor, generator: torch.Generator) -> Tensor:
    """For images first [N] draw others [N], uniform over all images of other classes.

    With indices sorted by class, a class is one range: draw a place outside of it.
    """
    order = labels.argsort(stable=True)
    counts = torch.bincount(labels)
    starts = counts.cumsum(0) - counts
    start, count = starts[labels[first]], counts[labels[first]]
    draw = torch.randint(2**48, first.shape, generator=generator, device=labels.device) % (
        len(labels) - count
    )
    return order[torch.where(draw < start, draw, draw + count)]


def bounding_box_overlap(shift: Tensor, size: tuple[int, int] = (28, 28)) -> Tensor:
    """Return how much the frames of two digits share.

    Two shifts in -4..4 differ by 80/27 px on average: (1 - 80/27/28)² = 80 %, the paper's number.
    (Boxes drawn tightly around the ink share less: about 72 % of the smaller one.)

    Args:
        shift: of both digits, in pixels [N, 2, 2].
        size: of a frame.

    Returns:
        The shared fraction [N].

    Example:
        >>> bounding_box_overlap(torch.tensor([[[0, 0], [0, 14]]]))
        tensor([0.5000])
    """
    apart = (shift[:, 0] - shift[:, 1]).abs()
    frame = torch.tensor(size, device=shift.device)
    return ((frame - apart).clamp(min=0) / frame).prod(1)
