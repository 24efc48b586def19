"""The contract of a task, and the batch that data hands to a model.

Labels are tensors whose first dimension is the image; each task says of which type and shape.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple, Self

from torch import Tensor

from capsnet.errors import UserError
from capsnet.options import restored


class Batch(NamedTuple):
    """Images [N, C, H, W] in [0, 1], labels as the task has them, and what is to be drawn.

    Example:
        >>> Batch(torch.rand(2, 1, 28, 28), torch.tensor([[3], [7]])).labels.shape
        torch.Size([2, 1])
    """

    images: Tensor
    labels: Tensor
    parts: Tensor | None = None  # [N, L, C, H, W], each labelled object alone; None: the image
    weights: Tensor | None = None  # [N], what each image counts in the loss; None: all the same


def words(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of classes or numbers; a UserError unless they are different words."""
    found = tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in found):
        raise UserError(f'Names must be words, not {names!r}; give them as ("cat", "dog").')
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise UserError(f"Two are called '{twice}'; give each a name of its own.")
    return found


class Result(ABC):
    """Abstract: what came out over a data set, in numbers and in words."""

    num_images: int

    @property
    @abstractmethod
    def figure(self) -> float:
        """The one number that runs are compared by; lower is better."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""

    @abstractmethod
    def __str__(self) -> str: ...


class Task(ABC):
    """Abstract: what is asked of a model; final ones are frozen dataclasses.

    names: of the classes or numbers, one for each of the model's J answers.
    """

    kind: ClassVar[str]
    metric: ClassVar[str]  # the name of a result's figure in logs
    names: tuple[str, ...]

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options that make a model for this task, beside the shape of its images."""

    @abstractmethod
    def check(self, labels: Tensor, num_images: int) -> None:
        """Raise a UserError unless these are labels of so many images."""

    @abstractmethod
    def batched(self, labels: Tensor) -> Tensor:
        """Return labels of N images as a batch has them: [N, …]."""

    @abstractmethod
    def strata(self, labels: Tensor) -> Tensor:
        """Return a group [M] int64 for each image, whose shares a random choice keeps."""

    @abstractmethod
    def misses(self, answers: Tensor, labels: Tensor) -> Tensor:
        """Return [N]: how far answers [N, J] are from a batch's labels, 0 where they are right."""

    @abstractmethod
    def figure(self, miss: float) -> float:
        """Return the mean of `misses` in the unit of the metric."""

    @abstractmethod
    def tell(self, figure: float) -> str:
        """Return the metric with its name and unit, in a few words."""

    @abstractmethod
    def measure(self, answers: Tensor, labels: Tensor) -> Result:
        """Return the result of answers [M, J] to all images of a data set."""

    @abstractmethod
    def decide(self, answers: Tensor) -> str:
        """Return in words what answers [J] to one image say."""

    @abstractmethod
    def say(self, labels: Tensor) -> str:
        """Return in words the labels [...] that a batch has for one image."""

    def to_json(self) -> dict[str, Any]:
        """Return the task as plain JSON values."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Self:
        """Return the task that `to_json` wrote; a UserError if it did not."""
        return restored(cls, {name: x for name, x in facts.items() if name != "kind"})
