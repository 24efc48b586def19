"""The task of telling all objects of an image, of which several may be of one class.

Sets(("circle", "square")).misses(counts, labels)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from capsnet.errors import UserError
from capsnet.tasks.labels import Labels

NOBODY = -1  # a label of no object


@dataclass(frozen=True)
class Sets(Labels):
    """Any number of objects up to L: labels int64 [M, L], NOBODY where there is none.

    Answers [N, J] are how many there are of each class.

    Example:
        >>> task = Sets(("circle", "square"))
        >>> answers, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([[0, 0, NOBODY]])
        >>> task.measure(answers, labels).error_percent
        0.0
    """

    kind: ClassVar[str] = "sets"

    def check(self, labels: Tensor, num_images: int) -> None:
        """Raise a UserError unless labels are int64 [M, L] and name classes, or nobody."""
        if labels.dtype != torch.int64 or labels.dim() != 2 or len(labels) != num_images:
            raise UserError(
                f"Labels of sets must be int64 [{num_images}, L], not {labels.dtype} "
                f"{list(labels.shape)}; convert them first."
            )
        if ((labels < NOBODY) | (labels >= len(self.names))).any():
            raise UserError(
                f"Labels of sets must lie in 0..{len(self.names) - 1}, or be {NOBODY} for nobody; "
                "correct the labels or name all classes."
            )

    def batched(self, labels: Tensor) -> Tensor:
        """Return labels [N, L] as they are."""
        return labels

    def counts(self, labels: Tensor) -> Tensor:
        """Return how many objects of each class there are, [N, J]."""
        there = labels != NOBODY
        each = one_hot(labels.clamp(min=0), len(self.names)) * there.unsqueeze(-1)
        return each.sum(dim=1)

    def table(self, labels: Tensor) -> Tensor:
        """Return T [N, J]: which classes are there at all."""
        return (self.counts(labels) > 0).float()

    def strata(self, labels: Tensor) -> Tensor:
        """Return which set each image has."""
        return self.counts(labels).unique(dim=0, return_inverse=True)[1]

    def misses(self, answers: Tensor, labels: Tensor) -> Tensor:
        """Return [N]: whether the nearest whole numbers are not just how many there are."""
        return (answers.round() != self.counts(labels)).any(dim=1)

    def decide(self, answers: Tensor) -> str:
        """Return all objects, as "3 + 7 + 7"."""
        return self._told(answers.round().long())

    def say(self, labels: Tensor) -> str:
        """Return all objects, as "3 + 7 + 7"."""
        return self._told(self.counts(labels[None])[0])

    def _told(self, counts: Tensor) -> str:
        said = [name for name, n in zip(self.names, counts.tolist(), strict=True) for _ in range(n)]
        return " + ".join(said) or "none"
