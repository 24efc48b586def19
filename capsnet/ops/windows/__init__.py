"""Windows: which lower capsules of a map each place of parents sees, and who sees each of them.

windows = Windows((14, 14), kernel=3, stride=2)
lower = windows.gather(pose)         # [N, H, W, B, …] -> [N, P, K * K * B, …]
c = windows.share(logits)            # softmax over all parents that see a child, type and place

Everything is made of slices, pads and sums, forwards and backwards: the same bits every time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.errors import UserError

__all__ = ["Share", "Windows", "over_parents"]

Share = Callable[[Tensor], Tensor]  # logits [N, P, I, J] -> couplings c of the same shape


def over_parents(logits: Tensor) -> Tensor:
    """Return c = softmax over the parents j of the same place.

    Args:
        logits: [N, P, I, J].

    Returns:
        c [N, P, I, J], which sums to 1 over j.

    Example:
        >>> over_parents(torch.zeros(1, 1, 2, 4))[0, 0, 0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return logits.softmax(dim=-1)


@dataclass(frozen=True)
class Windows:
    """Square windows on a map of H × W places, none over its edge.

    A child at row h is seen by the parents at rows o with o * stride <= h < o * stride + kernel;
    one that the last stride leaves over is seen by none.

    Example:
        >>> windows = Windows((14, 14), kernel=3, stride=2)
        >>> windows.gather(torch.rand(2, 14, 14, 8, 16)).shape
        torch.Size([2, 36, 72, 16])
    """

    size: tuple[int, int]
    kernel: int
    stride: int = 1

    def __post_init__(self) -> None:
        if self.kernel < 1 or self.stride < 1:
            raise UserError(
                f"Windows of kernel {self.kernel} and stride {self.stride} cannot be; "
                "give numbers of at least 1."
            )
        if min(self.size) < self.kernel:
            raise UserError(
                f"A window of {self.kernel}×{self.kernel} does not fit a map of "
                f"{self.size[0]}×{self.size[1]}; give larger images or a smaller kernel."
            )

    @property
    def places(self) -> tuple[int, int]:
        """The rows and columns of parents, OH and OW."""
        height, width = ((side - self.kernel) // self.stride + 1 for side in self.size)
        return height, width

    def gather(self, x: Tensor) -> Tensor:
        """Return what each place sees: [N, H, W, B, …] -> [N, P, K * K * B, …].

        Places and children are ordered by row, column and type.
        """
        if x.dim() < 4 or tuple(x.shape[1:3]) != self.size:
            raise UserError(
                f"A map of shape {list(x.shape)} does not fit windows on "
                f"[N, {self.size[0]}, {self.size[1]}, B, …]; make windows of its size."
            )
        x = self._cut(x, 1)  # N, OH, K, W, B, …
        x = self._cut(x, 3).transpose(2, 3)  # N, OH, OW, K, K, B, …
        return x.flatten(3, 5).flatten(1, 2)

    def share(self, logits: Tensor) -> Tensor:
        """Return c [N, P, K * K * B, J]: softmax over all parents (place and type) of each child.

        c_ij = exp(b_ij) / sum over the parents k that see i of exp(b_ik), in log space.
        """
        (height, width), K = self.places, self.kernel
        of_place = logits.logsumexp(dim=-1)
        x = of_place.unflatten(1, (height, width)).unflatten(3, (K, K, -1))
        x = self._lay(x.transpose(2, 3), 1)  # N, H, R, OW, K, B: the R rows of places that see it
        x = self._lay(x, 3)  # N, H, R, W, R, B
        of_child = x.logsumexp(dim=(2, 4))
        return (logits - self.gather(of_child).unsqueeze(-1)).exp()

    @property
    def _reach(self) -> int:
        """How many places, at most, see a child along one side; R, with K <= R * stride."""
        return -(-self.kernel // self.stride)

    def _cut(self, x: Tensor, dim: int) -> Tensor:
        """Return dimension `dim` of H as two, [O, K]: row k of window o is row o * stride + k.

        The map is a row of blocks of `stride`, and window o begins with block o.
        """
        O, S, R = self.places[dim // 2], self.stride, self._reach
        blocks = _fit(x, dim, (O + R - 1) * S, 0.0).unflatten(dim, (O + R - 1, S))
        windows = [blocks.narrow(dim, r, O) for r in range(R)]
        return torch.cat(windows, dim + 1).narrow(dim + 1, 0, self.kernel)

    def _lay(self, x: Tensor, dim: int) -> Tensor:
        """Return dimensions [O, K] from `dim` as [H, R]: what the R windows over each row hold.

        Where there is no window, it is the smallest number.
        """
        S, R = self.stride, self._reach
        least = torch.finfo(x.dtype).min
        blocks = _fit(x, dim + 1, R * S, least).unflatten(dim + 1, (R, S))
        laid = []
        for r, block in enumerate(blocks.unbind(dim + 1)):
            block = _pad(block, dim, r, R - 1 - r, least)
            laid.append(_fit(block.flatten(dim, dim + 1), dim, self.size[dim // 2], least))
        return torch.stack(laid, dim + 1)


def _fit(x: Tensor, dim: int, size: int, fill: float) -> Tensor:
    """Return x with `size` entries along `dim`: cut off, or filled up at the end."""
    if x.shape[dim] >= size:
        return x.narrow(dim, 0, size)
    return _pad(x, dim, 0, size - x.shape[dim], fill)


def _pad(x: Tensor, dim: int, before: int, after: int, fill: float) -> Tensor:
    """Return x with so many entries of `fill` before and after those along `dim`."""
    if before == after == 0:
        return x
    return F.pad(x, (0, 0) * (x.dim() - 1 - dim) + (before, after), value=fill)
