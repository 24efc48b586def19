"""Factors: where, how large and how turned the object of each image is, beside its labels.

Usage: split.factors.names, split.factors.values[k]; task, labels = split.factors.asked()
"""

from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from capsnet.tasks import Numbers


@dataclass(frozen=True, eq=False)
class Factors:
    """Values float32 [M, K] of named factors; NaN where an image has no such object.

    ranges: where the values of each factor lie. periods float32 [M, K]: after how much a value is
    the same again, as an angle is; 0: never. A square looks the same after 90°, a heart after 360°,
    so the period belongs to the image.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    values: Tensor
    periods: Tensor

    def __post_init__(self) -> None:
        assert self.values.shape == self.periods.shape == (len(self.values), len(self.names))
        assert len(self.ranges) == len(self.names)

    def subset(self, indices: Tensor) -> "Factors":
        """Return the factors of the images at `indices` [L]."""
        return Factors(self.names, self.ranges, self.values[indices], self.periods[indices])

    def to(self, device: torch.device | str) -> "Factors":
        """Return the factors with their tensors on `device`."""
        return Factors(self.names, self.ranges, self.values.to(device), self.periods.to(device))

    def asked(self) -> tuple[Numbers, Tensor]:
        """Return the factors as a task and its labels float32 [M, L].

        A circular factor is asked as sine and cosine of t = 2 pi value / period, so that what looks
        the same has the same numbers.
        """
        names: list[str] = []
        ranges: list[tuple[float, float]] = []
        columns: list[Tensor] = []
        for k, name in enumerate(self.names):
            value, period = self.values[:, k], self.periods[:, k]
            if period.any():
                turn = 2 * pi * value / period
                names += [f"sin {name}", f"cos {name}"]
                ranges += [(-1.0, 1.0), (-1.0, 1.0)]
                columns += [turn.sin(), turn.cos()]
            else:
                names.append(name)
                ranges.append(self.ranges[k])
                columns.append(value)
        task = Numbers(tuple(names), ("",) * len(names), tuple(ranges))
        return task, torch.stack(columns, dim=1)
