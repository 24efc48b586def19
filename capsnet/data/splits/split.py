"""A split: all images of a data set as bytes, their labels, and the names of the classes.

Usage: split = Split(images, labels, classes).to("cuda")
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from capsnet.errors import UserError


@dataclass(frozen=True, eq=False)
class Split:
    """Images uint8 [M, C, H, W], labels int64 [M] and the name of each class."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise UserError(
                f"Images must be uint8 [M, C, H, W], not {self.images.dtype} "
                f"{list(self.images.shape)}; convert them first."
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise UserError(
                f"Labels must be int64 [{len(self.images)}], one per image, not "
                f"{self.labels.dtype} {list(self.labels.shape)}; convert them first."
            )
        if len(self.labels) == 0:
            raise UserError("A data set needs at least one image; this one is empty.")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(self.classes):
            raise UserError(
                f"Labels must lie in 0..{len(self.classes) - 1} for {len(self.classes)} classes, "
                f"but run from {low} to {high}; correct the labels or name all classes."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape (C, H, W) of one image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def to(self, device: torch.device | str) -> "Split":
        """Return the split with its tensors on `device`."""
        return Split(self.images.to(device), self.labels.to(device), self.classes)

    def subset(self, indices: Tensor | Sequence[int]) -> "Split":
        """Return the images at `indices` [K], in that order."""
        indices = torch.as_tensor(indices, device=self.labels.device)
        return Split(self.images[indices], self.labels[indices], self.classes)

    def label_counts(self) -> tuple[int, ...]:
        """Return how many images each class has."""
        return tuple(torch.bincount(self.labels, minlength=len(self.classes)).tolist())


def stratified(labels: Tensor, num_chosen: int, seed: int) -> tuple[Tensor, Tensor]:
    """Part indices of labels [M] into (rest [M-K], chosen [K]), seeded, class shares kept.

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
