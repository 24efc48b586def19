"""Several objects on one canvas, of any classes, twice the same too; who owns a pixel is known.

stream = CrowdStream(mnist_train, num_samples=60_000, many=(1, 3))
"""

import torch
from torch import Tensor

from capsnet.data.splits.split import Split
from capsnet.data.streams.augmentation import Augment, Mover
from capsnet.data.streams.stream import Plan, Stream, canvas_shape, fixed_generator, taken
from capsnet.errors import UserError
from capsnet.tasks import NOBODY, Batch, OneLabel, Sets

INK = 0.5  # what a part has at least where it owns a pixel


class CrowdStream(Stream):
    """Images of `many` objects, from the first number to the last, moved and laid over each other.

    Objects and numbers are drawn on the device, each as often: anew for each generator, one fixed
    set without.
    """

    def __init__(
        self,
        split: Split,
        num_samples: int,
        many: tuple[int, int] = (1, 3),
        canvas: int | None = None,
        max_shift: int = 0,
    ) -> None:
        if not isinstance(split.task, OneLabel):
            raise UserError("Crowds are made of images of one object each; give such images.")
        if not 1 <= many[0] <= many[1]:
            raise UserError(f"A crowd cannot have {many[0]} to {many[1]} objects.")
        self.split, self.num_samples, self.many = split, num_samples, many
        self.image_shape = canvas_shape(split, canvas, margin=max_shift)
        sizes = (split.image_shape[1:], self.image_shape[1:])
        self.mover = Mover(Augment(shift=max_shift), *sizes, self.device)

    @property
    def task(self) -> Sets:
        """All objects of an image are asked for."""
        return Sets(self.split.task.names)

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw "many" [M], "index" [M, L] of the images and their movement, [M, L, …]."""
        generator = generator or fixed_generator()
        num, device = self.num_samples, generator.device
        low, most = self.many
        many = torch.randint(low, most + 1, (num,), generator=generator, device=device)
        index = torch.randint(len(self.split), (num, most), generator=generator, device=device)
        plan = {"many": many, "index": index}
        movement = self.mover.draw(num * most, generator)
        plan |= {name: x.unflatten(0, (num, most)) for name, x in movement.items()}
        return {name: values.to(self.device) for name, values in plan.items()}

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan: overlays, all labels, each object alone."""
        many = plan["many"]
        each = {name: x.flatten(0, 1) for name, x in plan.items() if name != "many"}
        moved = self.mover.move(taken(self.split, each) / self.split.white, each)
        there = torch.arange(self.many[1], device=self.device) < many[:, None]
        parts = moved.view(*there.shape, *self.image_shape) * there[:, :, None, None, None]
        labels = torch.where(there, self.split.labels[plan["index"]], NOBODY)
        return Batch(parts.sum(1).clamp(max=1), labels, parts)


def owners(parts: Tensor) -> tuple[Tensor, Tensor]:
    """Return who owns each pixel [N, H, W], NOBODY for the ground, and where several do.

    Args:
        parts: each object alone [N, L, C, H, W].

    Example:
        >>> parts = torch.tensor([[[1.0, 0.0, 0.7]], [[0.0, 0.0, 0.9]]])[None, :, None]
        >>> owners(parts)
        (tensor([[[ 0, -1,  1]]]), tensor([[[False, False,  True]]]))
    """
    ink = parts.amax(dim=2)
    brightest, owner = ink.max(dim=1)
    inked = ink >= INK
    return torch.where(brightest >= INK, owner, NOBODY), inked.sum(dim=1) > 1
