"""A split: all images of a data set as bytes, their labels, and the task these are labels of.

Usage: split = Split(images, labels, OneLabel(("cat", "dog"))).to("cuda")
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from capsnet.data.splits.factors import Factors
from capsnet.data.splits.mapped import Mapped
from capsnet.errors import UserError
from capsnet.pictures.reading import BYTE_WHITE, DEEP_WHITE
from capsnet.tasks import Labels, OneLabel, Task
from capsnet.tasks.task import words

CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Split:
    """Images [M, C, H, W], and labels [M, …] of a task.

    Args:
        images: uint8, or int16 of 15 bits where 8 would lose levels; `white` is the largest value.
            A tensor, or `Mapped` where they stay on the disk: images[index] is a tensor of both.
        labels: As the task has them.
        task: What is asked; names alone are those of `OneLabel`.
        files: Where the images are the user's pictures, the file of each.
        groups: Of whom or what each of these is.
        factors: Where the images were made by a rule, what each shows, as numbers.

    Example:
        >>> images = torch.zeros(4, 1, 28, 28, dtype=torch.uint8)
        >>> Split(images, torch.tensor([0, 1, 0, 1]), ("cat", "dog")).label_counts()
        (2, 2)
    """

    images: Tensor | Mapped
    labels: Tensor
    task: Task
    files: tuple[str, ...]
    groups: tuple[str, ...]
    factors: Factors | None

    def __init__(
        self,
        images: Tensor | Mapped,
        labels: Tensor,
        task: Task | Sequence[str],
        files: Sequence[str] = (),
        groups: Sequence[str] = (),
        factors: Factors | None = None,
    ) -> None:
        task = task if isinstance(task, Task) else OneLabel(words(task))
        if not isinstance(images, Tensor | Mapped) or not isinstance(labels, Tensor):
            raise UserError(
                f"Images and labels must be tensors, not {type(images).__name__} and "
                f"{type(labels).__name__}; convert them by torch.as_tensor."
            )
        if images.dtype not in (torch.uint8, torch.int16) or images.ndim != 4:
            raise UserError(
                f"Images must be uint8 or int16 [M, C, H, W], not {images.dtype} "
                f"{list(images.shape)}; convert them first."
            )
        if len(images) == 0:
            raise UserError("A data set needs at least one image; this one is empty.")
        task.check(labels, len(images))
        kept = {
            "images": images,
            "labels": labels,
            "task": task,
            "files": tuple(files),
            "groups": tuple(groups),
            "factors": factors,
        }
        assert factors is None or len(factors.values) == len(images)
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape (C, H, W) of one image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def white(self) -> int:
        """The value of a white pixel."""
        return BYTE_WHITE if self.images.dtype == torch.uint8 else DEEP_WHITE

    def to(self, device: torch.device | str) -> "Split":
        """Return the split with its tensors on `device`."""
        factors = self.factors.to(device) if self.factors is not None else None
        images, labels = self.images.to(device), self.labels.to(device)
        return Split(images, labels, self.task, self.files, self.groups, factors)

    def subset(self, indices: Tensor | Sequence[int]) -> "Split":
        """Return the images at `indices` [K], in that order."""
        indices = torch.as_tensor(indices, device=self.labels.device)
        rows = indices.tolist()
        files, groups = (tuple(x[k] for k in rows) if x else () for x in (self.files, self.groups))
        factors = self.factors.subset(indices) if self.factors is not None else None
        x, labels = self.images, self.labels[indices]
        images = x.subset(indices) if isinstance(x, Mapped) else x[indices]
        return Split(images, labels, self.task, files, groups, factors)

    def with_channels(self, channels: int) -> "Split":
        """Return grey images in several equal channels."""
        assert isinstance(self.images, Tensor)  # files are read in the channels that are asked for
        images = self.images.expand(-1, channels, -1, -1)
        return Split(images, self.labels, self.task, self.files, self.groups, self.factors)

    def asking_factors(self) -> "Split":
        """Return the same images, of which the factors are asked in place of the labels."""
        assert self.factors is not None
        task, labels = self.factors.asked()
        return Split(self.images, labels, task, self.files, self.groups, self.factors)

    def label_counts(self) -> tuple[int, ...]:
        """Return how many images each class has; nothing where labels are numbers."""
        if not isinstance(self.task, Labels):
            return ()
        parts = self.task.batched(self.labels).split(CHUNK)  # a table of all would be large
        counts = torch.stack([self.task.table(part).sum(dim=0).long() for part in parts])
        return tuple(counts.sum(dim=0).tolist())


def stratified(labels: Tensor, num_chosen: int, seed: int) -> tuple[Tensor, Tensor]:
    """Part indices of strata [M] into (rest [M-K], chosen [K]), seeded, their shares kept.

    Every class is shuffled and spread evenly over [0, 1); the K smallest places are chosen.

    Args:
        labels: The class of each image, int64 [M].
        num_chosen: K.
        seed: Of the choice.

    Returns:
        Indices of the rest [M-K] and of the chosen [K], each in order.

    Example:
        >>> rest, chosen = stratified(torch.tensor([0, 0, 0, 1, 1, 1]), 2, seed=0)
        >>> len(rest), len(chosen)
        (4, 2)
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
