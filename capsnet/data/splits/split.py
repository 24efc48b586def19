"""A split: all images of a data set as bytes, their labels, and the task these are labels of.

Usage: split = Split(images, labels, OneLabel(("cat", "dog"))).to("cuda")
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.tasks import Labels, OneLabel, Task


@dataclass(frozen=True, eq=False)
class Split:
    """Images uint8 [M, C, H, W], and labels [M, …] of a task; names alone are those of OneLabel."""

    images: Tensor
    labels: Tensor
    task: Task

    def __init__(self, images: Tensor, labels: Tensor, task: Task | Sequence[str]) -> None:
        task = task if isinstance(task, Task) else OneLabel(tuple(task))
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise UserError(
                f"Images must be uint8 [M, C, H, W], not {images.dtype} "
                f"{list(images.shape)}; convert them first."
            )
        if len(images) == 0:
            raise UserError("A data set needs at least one image; this one is empty.")
        task.check(labels, len(images))
        for name, value in (("images", images), ("labels", labels), ("task", task)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape (C, H, W) of one image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def to(self, device: torch.device | str) -> "Split":
        """Return the split with its tensors on `device`."""
        return Split(self.images.to(device), self.labels.to(device), self.task)

    def subset(self, indices: Tensor | Sequence[int]) -> "Split":
        """Return the images at `indices` [K], in that order."""
        indices = torch.as_tensor(indices, device=self.labels.device)
        return Split(self.images[indices], self.labels[indices], self.task)

    def label_counts(self) -> tuple[int, ...]:
        """Return how many images each class has; nothing where labels are numbers."""
        if not isinstance(self.task, Labels):
            return ()
        table = self.task.table(self.task.batched(self.labels))
        return tuple(table.sum(dim=0).long().tolist())


def stratified(labels: Tensor, num_chosen: int, seed: int) -> tuple[Tensor, Tensor]:
    """Part indices of strata [M] into (rest [M-K], chosen [K]), seeded, their shares kept.

    Every class is shuffled and spread evenly over [0, 1); the K smallest places are chosen.
    """
    if not 0 <= num_chosen <= len(labels):
        raise UserError(
            f"Cannot take {num_chosen} of {len(labels)} images; ask for at most {len(labels)}."
        )
    labels = labels.cpu()
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    counts = torch.bincount(labels)
    starts = counts.cumsum(0) - counts
    kind = labels[by_class]
    rank = torch.arange(len(labels)) - starts[kind]
    place = (rank.double() + 0.5) / counts[kind]
    chosen = by_class[place.argsort(stable=True)[:num_chosen]]
    keep = torch.ones(len(labels), dtype=torch.bool)
    keep[chosen] = False
    return keep.nonzero().flatten(), chosen.sort().values
