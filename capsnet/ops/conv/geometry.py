"""Sizes of a convolution, and tensors seen as matrices over images.

s = shape_of(x, weight, stride); matrix = as_rows(x)  # [N, H * W * C]
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor


class Shape(NamedTuple):
    """x [N, C, H, W] * weight [O, C, KH, KW] -> y [N, O, OH, OW]."""

    N: int
    H: int
    W: int
    C: int
    O: int
    KH: int
    KW: int
    stride: int
    padding: int = 0  # zeros around x that are not part of H and W

    @property
    def OH(self) -> int:
        """Height of the output."""
        return (self.H + 2 * self.padding - self.KH) // self.stride + 1

    @property
    def OW(self) -> int:
        """Width of the output."""
        return (self.W + 2 * self.padding - self.KW) // self.stride + 1

    @property
    def positions(self) -> int:
        """Number of positions of the output."""
        return self.OH * self.OW

    @property
    def sizes(self) -> dict[str, int]:
        """Arguments all passes over the taps share."""
        names = {"W": self.W, "C": self.C, "O": self.O, "OW": self.OW}
        return {**names, "KH": self.KH, "KW": self.KW, "STRIDE": self.stride}


def shape_of(x: Tensor, weight: Tensor, stride: int) -> Shape:
    """Return the sizes of x [N, C, H, W] convolved with weight [O, C, KH, KW]."""
    N, C, H, W = x.shape
    O, _, KH, KW = weight.shape
    return Shape(N, H, W, C, O, KH, KW, stride)


def as_rows(x: Tensor) -> Tensor:
    """Return x [N, C, H, W] as the matrix [N, H * W * C]; no copy if it is channels-last."""
    rows = x.permute(0, 2, 3, 1).reshape(len(x), -1)
    return rows.clone() if rows.data_ptr() % 16 else rows


def as_images(rows: Tensor, C: int, H: int, W: int) -> Tensor:
    """Return the matrix [N, H * W * C] as [N, C, H, W], channels-last."""
    return rows.view(len(rows), H, W, C).permute(0, 3, 1, 2)


def blocks(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    """Return the matrix as the copy engine reads and writes it, in blocks [rows, columns]."""
    return TensorDescriptor.from_tensor(matrix, [rows, columns])


def divisor(channels: int, most: int) -> int:
    """Return the largest power of two up to `most` that divides `channels`."""
    return min(most, channels & -channels)


@contextmanager
def device_of(x: Tensor) -> Iterator[None]:
    """Make the device of x the current one, also in a thread that has not used it yet.

    Triton 3.6 describes tensors to the copy engine before it sees to that; recording an event does.
    """
    with torch.cuda.device_of(x):
        if x.is_cuda:
            torch.cuda.Event().record()
        yield
