"""Tasks whose answers are classes: one label, several, or a pair of objects over each other.

OneLabel(("cat", "dog")).misses(lengths, labels)
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.tasks.task import Result, Task, words

THRESHOLD = 0.5  # of a class that is said to be there: midway between the margins of Eq. 4


@dataclass(frozen=True, eq=False)
class LabelsResult(Result):
    """Errors over a data set; an image with several labels is right only if all are found."""

    wrong: Tensor  # [M], which images
    per_class_error_percent: tuple[float | None, ...]  # of the images that show it; None: no image

    @property
    def num_images(self) -> int:  # type: ignore[override]
        """The number of images."""
        return len(self.wrong)

    @property
    def num_wrong(self) -> int:
        """The number of wrong answers."""
        return int(self.wrong.sum())

    @property
    def error_percent(self) -> float:
        """The share of wrong answers in per cent."""
        return 100 * self.num_wrong / self.num_images

    @property
    def figure(self) -> float:
        """The share of wrong answers in per cent."""
        return self.error_percent

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        names = ("error_percent", "num_images", "num_wrong", "per_class_error_percent")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        return (
            f"{self.error_percent:.2f} % error, {self.num_wrong:,} of {self.num_images:,} images "
            "wrong"
        )


@dataclass(frozen=True)
class Labels(Task):
    """Abstract: classes by name; answers [N, J] are their probabilities."""

    names: tuple[str, ...]
    metric: ClassVar[str] = "error_percent"

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", words(self.names))

    @property
    def options(self) -> dict[str, Any]:
        """The number of classes."""
        return {"num_classes": len(self.names)}

    @abstractmethod
    def table(self, labels: Tensor) -> Tensor:
        """Return T [N, J] of a batch's labels: one where a class is there and zero elsewhere."""

    @abstractmethod
    def misses(self, answers: Tensor, labels: Tensor) -> Tensor:
        """Return [N]: whether the classes said are not just the labels."""

    def figure(self, miss: float) -> float:
        """Return a share in per cent."""
        return 100 * miss

    def tell(self, figure: float) -> str:
        """Return "error 0.25 %"."""
        return f"error {figure:.2f} %"

    def say(self, labels: Tensor) -> str:
        """Return the names of the classes that are there."""
        shown = self.table(labels[None])[0].nonzero().flatten().tolist()
        return "+".join(self.names[k] for k in shown)

    def measure(self, answers: Tensor, labels: Tensor) -> LabelsResult:
        """Return the errors, in all and for each class."""
        wrong = self.misses(answers, labels)
        shows = self.table(labels).bool()
        of_class = [wrong[shows[:, k]] for k in range(len(self.names))]
        per_class = [float(100 * x.float().mean()) if len(x) else None for x in of_class]
        return LabelsResult(wrong, tuple(per_class))


@dataclass(frozen=True)
class _Objects(Labels):
    """Abstract: a known number of objects in each image; a batch has their classes [N, L]."""

    def table(self, labels: Tensor) -> Tensor:
        """Return T [N, J] of labels [N, L]."""
        return present(labels, len(self.names))

    def misses(self, answers: Tensor, labels: Tensor) -> Tensor:
        """Return [N]: whether the L most probable classes are not just the labels [N, L]."""
        return wrong(answers, labels)

    def _check(self, labels: Tensor, shape: tuple[int, ...]) -> None:
        if labels.dtype != torch.int64 or labels.shape != shape:
            raise UserError(
                f"Labels must be int64 {list(shape)}, one per object of each image, not "
                f"{labels.dtype} {list(labels.shape)}; convert them first."
            )
        low, high = (int(labels.min()), int(labels.max())) if labels.numel() else (0, 0)
        if low < 0 or high >= len(self.names):
            raise UserError(
                f"Labels must lie in 0..{len(self.names) - 1} for {len(self.names)} classes, "
                f"but run from {low} to {high}; correct the labels or name all classes."
            )


@dataclass(frozen=True)
class OneLabel(_Objects):
    """One class for each image: labels int64 [M], in a batch [N, 1].

    Example:
        >>> task = OneLabel(("cat", "dog"))
        >>> answers, labels = torch.tensor([[0.9, 0.2], [0.7, 0.1]]), torch.tensor([[0], [1]])
        >>> task.measure(answers, labels).error_percent
        50.0
    """

    kind: ClassVar[str] = "one_label"

    @classmethod
    def numbered(cls, num_classes: int) -> "OneLabel":
        """Return the task of classes that are called 0, 1, 2, …"""
        return cls(tuple(map(str, range(num_classes))))

    def check(self, labels: Tensor, num_images: int) -> None:
        """Raise a UserError unless labels are int64 [M] and name classes."""
        self._check(labels, (num_images,))

    def batched(self, labels: Tensor) -> Tensor:
        """Return labels [N] as [N, 1]."""
        return labels[:, None]

    def strata(self, labels: Tensor) -> Tensor:
        """Return the classes themselves."""
        return labels

    def decide(self, answers: Tensor) -> str:
        """Return the most probable class."""
        return self.names[int(answers.argmax())]


@dataclass(frozen=True)
class Pairs(_Objects):
    """Two objects of different classes in each image: labels int64 [M, 2].

    Example:
        >>> Pairs(("0", "1", "2")).table(torch.tensor([[2, 0]])).tolist()
        [[1.0, 0.0, 1.0]]
    """

    kind: ClassVar[str] = "pairs"

    def check(self, labels: Tensor, num_images: int) -> None:
        """Raise a UserError unless labels are int64 [M, 2] and name classes."""
        self._check(labels, (num_images, 2))
        if (labels[:, 0] == labels[:, 1]).any():
            raise UserError(
                "Pairs must be of two different classes; leave out images of the same class twice, "
                "or ask for Sets."
            )

    def batched(self, labels: Tensor) -> Tensor:
        """Return labels [N, 2] as they are."""
        return labels

    def strata(self, labels: Tensor) -> Tensor:
        """Return which two classes each image has, in any order."""
        return labels.amin(dim=1) * len(self.names) + labels.amax(dim=1)

    def decide(self, answers: Tensor) -> str:
        """Return the two most probable classes."""
        return " + ".join(self.names[k] for k in answers.topk(2).indices.sort().values.tolist())


@dataclass(frozen=True)
class SeveralLabels(Labels):
    """Any number of classes in each image: labels are a table of zeros and ones [M, J].

    Example:
        >>> task = SeveralLabels(("cat", "dog", "tree"))
        >>> task.measure(torch.tensor([[0.9, 0.2, 0.8]]), torch.tensor([[1, 0, 1]])).error_percent
        0.0
    """

    kind: ClassVar[str] = "several_labels"

    def check(self, labels: Tensor, num_images: int) -> None:
        """Raise a UserError unless labels are a table [M, J] of zeros and ones."""
        if (
            labels.shape != (num_images, len(self.names))
            or not ((labels == 0) | (labels == 1)).all()
        ):
            raise UserError(
                f"Several labels must be a table [{num_images}, {len(self.names)}] of zeros and "
                f"ones, not {labels.dtype} {list(labels.shape)}; convert them first."
            )

    def batched(self, labels: Tensor) -> Tensor:
        """Return the rows of the table as numbers."""
        return labels.float()

    def strata(self, labels: Tensor) -> Tensor:
        """Return which combination of classes each image has."""
        return labels.unique(dim=0, return_inverse=True)[1]

    def table(self, labels: Tensor) -> Tensor:
        """Return the table itself."""
        return labels.float()

    def misses(self, answers: Tensor, labels: Tensor) -> Tensor:
        """Return [N]: whether the classes with a probability above one half are others."""
        return ((answers > THRESHOLD) != (labels > THRESHOLD)).any(dim=1)

    def decide(self, answers: Tensor) -> str:
        """Return all classes with a probability above one half."""
        found = [self.names[k] for k in (answers > THRESHOLD).nonzero().flatten().tolist()]
        return ", ".join(found) or "none"


def present(labels: Tensor, num_classes: int) -> Tensor:
    """Return T [N, J], one where a class is among the labels [N, L] and zero elsewhere."""
    return torch.zeros(len(labels), num_classes, device=labels.device).scatter_(1, labels, 1)


def wrong(lengths: Tensor, labels: Tensor) -> Tensor:
    """Return [N]: whether the L longest of lengths [N, J] are not just the labels [N, L].

    A label that is only as long as another class is wrong.
    """
    shortest = lengths.gather(1, labels).amin(dim=1, keepdim=True)
    return (lengths >= shortest).sum(dim=1) != labels.shape[1]
