"""The task of telling numbers: regression, judged by mean absolute error and R².

task = Numbers(("rotation",), ("°",), ((-45.0, 45.0),)); task.measure(output.answers, labels)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.tasks.task import Result, Task, words


@dataclass(frozen=True)
class NumbersResult(Result):
    """How far the answers were from the truth, for each number."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    mean_absolute_errors: tuple[float, ...]  # each in its unit
    r_squared: tuple[float | None, ...]  # 1 - squared error / variance; None: nothing varies
    num_images: int

    @property
    def figure(self) -> float:
        """The mean absolute error, averaged over the numbers."""
        return sum(self.mean_absolute_errors) / len(self.mean_absolute_errors)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return {
            "mean_absolute_error": self.figure,
            "mean_absolute_errors": dict(zip(self.names, self.mean_absolute_errors, strict=True)),
            "r_squared": dict(zip(self.names, self.r_squared, strict=True)),
            "num_images": self.num_images,
        }

    def __str__(self) -> str:
        rows = zip(self.names, self.units, self.mean_absolute_errors, self.r_squared, strict=True)
        told = [
            f"{name}: mean absolute error {error:.4g}{unit}, R² {'–' if r is None else f'{r:.3f}'}"
            for name, unit, error, r in rows
        ]
        return f"{'; '.join(told)} over {self.num_images:,} images"


@dataclass(frozen=True)
class Numbers(Task):
    """One or more numbers for each image: labels and answers are float [M, K].

    Args:
        names: Of the numbers.
        units: What is written after each number.
        ranges: Where the numbers of the training data lie.

    Example:
        >>> task = Numbers(("rotation",), ("°",), ((-45.0, 45.0),))
        >>> str(task.measure(torch.tensor([[3.0], [8.0]]), torch.tensor([[5.0], [10.0]])))
        'rotation: mean absolute error 2°, R² 0.360 over 2 images'
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    kind: ClassVar[str] = "numbers"
    metric: ClassVar[str] = "mean_absolute_error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", words(self.names))
        object.__setattr__(self, "units", tuple(self.units))
        object.__setattr__(self, "ranges", tuple(map(tuple, self.ranges)))
        if not len(self.names) == len(self.units) == len(self.ranges) > 0:
            raise UserError("Numbers need a name, a unit and a range each; give as many of each.")
        for name, (low, high) in zip(self.names, self.ranges, strict=True):
            if not low < high:
                raise UserError(f"The range of {name} is empty: {low} to {high}; give low, high.")

    @property
    def options(self) -> dict[str, Any]:
        """The ranges that answers are scaled to."""
        return {"ranges": self.ranges}

    def check(self, labels: Tensor, num_images: int) -> None:
        """Raise a UserError unless labels are finite floats [M, K]."""
        shape = (num_images, len(self.names))
        if not labels.is_floating_point() or labels.shape != shape or not labels.isfinite().all():
            raise UserError(
                f"Numbers must be finite floats {list(shape)}, not {labels.dtype} "
                f"{list(labels.shape)}; convert them first."
            )

    def batched(self, labels: Tensor) -> Tensor:
        """Return labels [N, K] as they are."""
        return labels

    def strata(self, labels: Tensor) -> Tensor:
        """Return one group for all."""
        return torch.zeros(len(labels), dtype=torch.int64, device=labels.device)

    def misses(self, answers: Tensor, labels: Tensor) -> Tensor:
        """Return [N]: the mean absolute difference."""
        return (answers - labels).abs().mean(dim=1)

    def figure(self, miss: float) -> float:
        """Return the mean absolute error itself."""
        return miss

    def tell(self, figure: float) -> str:
        """Return "mean absolute error 3.2°"."""
        unit = self.units[0] if len({*self.units}) == 1 else ""
        return f"mean absolute error {figure:.4g}{unit}"

    def measure(self, answers: Tensor, labels: Tensor) -> NumbersResult:
        """Return mean absolute error and R² of each number."""
        answers, labels = answers.double(), labels.double()
        errors = (answers - labels).abs().mean(dim=0)
        left = (answers - labels).square().sum(dim=0)
        whole = (labels - labels.mean(dim=0)).square().sum(dim=0)
        r_squared = [
            1 - a / b if b > 0 else None for a, b in zip(left.tolist(), whole.tolist(), strict=True)
        ]
        return NumbersResult(
            self.names, self.units, tuple(errors.tolist()), tuple(r_squared), len(labels)
        )

    def decide(self, answers: Tensor) -> str:
        """Return each number with its name and unit."""
        rows = zip(self.names, answers.tolist(), self.units, strict=True)
        return ", ".join(f"{name} {x:.4g}{unit}" for name, x, unit in rows)

    def say(self, labels: Tensor) -> str:
        """Return each number with its name and unit."""
        return self.decide(labels)
