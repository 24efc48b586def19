"""Maps of capsules made by convolution (DeepCaps): squashed, or routed.

x = CapsConv(256, types=32, dim=8, stride=2)(x); x = RoutedConv(8, types=32, dim=8)(x)

A map of capsules is [N, types * dim, H, W]: dim neighbouring channels at one place are a capsule.
"""

from math import sqrt

import torch
from torch import Tensor, nn

from capsnet.layers.conv import Conv2d
from capsnet.ops import routing_3d, squash
from capsnet.ops.routing_3d import SquashOver


class CapsConv(nn.Module):
    """Features [N, C, H, W] -> squashed capsules [N, types * dim, H / stride, W / stride].

    A convolution without bias, zeros around. Its weights start uniform with the variance
    1 / (K sqrt(C types dim)), as in the authors' code: at less, the squash of a squash of a squash
    leaves nothing.

    Args:
        in_channels: C.
        types: of capsules at each place.
        dim: numbers in a capsule.
        kernel_size: side of what a capsule sees.
        stride: places below from one capsule to the next.

    Example:
        >>> CapsConv(16, types=4, dim=8, stride=2)(torch.rand(2, 16, 7, 9)).shape
        torch.Size([2, 32, 4, 5])
    """

    def __init__(
        self, in_channels: int, types: int, dim: int, kernel_size: int = 3, stride: int = 1
    ) -> None:
        super().__init__()
        self.dim = dim
        channels, padding = types * dim, kernel_size // 2
        self.conv = Conv2d(in_channels, channels, kernel_size, stride, padding, bias=False)
        bound = sqrt(3 / (kernel_size * sqrt(in_channels * channels)))
        nn.init.uniform_(self.conv.weight, -bound, bound)

    def forward(self, features: Tensor) -> Tensor:
        """Return the map of squashed capsules."""
        return as_map(squash(as_capsule_map(self.conv(features), self.dim)))


class RoutedConv(nn.Module):
    """Capsules [N, I * D, H, W] -> [N, types * dim, H, W] by `capsnet.ops.routing_3d`.

    Args:
        lower_dim: D, numbers in a capsule below.
        types: of capsules above, at each place.
        dim: numbers in a capsule above.
        kernel_size: side of what a capsule above sees.
        num_iters: iterations of the routing.
        squash_over: as in `capsnet.ops.routing_3d`.

    Example:
        >>> RoutedConv(8, types=4, dim=6)(torch.rand(2, 5 * 8, 7, 9)).shape
        torch.Size([2, 24, 7, 9])
    """

    def __init__(
        self,
        lower_dim: int,
        types: int,
        dim: int,
        kernel_size: int = 3,
        num_iters: int = 3,
        squash_over: SquashOver = "capsule",
    ) -> None:
        super().__init__()
        self.num_iters, self.squash_over = num_iters, squash_over
        std = sqrt(2 / (lower_dim * kernel_size**2))
        self.W = nn.Parameter(std * torch.randn(types, dim, lower_dim, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.full((types, dim), 0.1))

    def forward(self, features: Tensor) -> Tensor:
        """Return the map of routed capsules."""
        u = as_capsule_map(features, self.W.shape[2])
        over = self.squash_over
        return as_map(routing_3d(u, self.W, self.num_iters, bias=self.bias, squash_over=over))

    def extra_repr(self) -> str:
        """Say the sizes and how it routes."""
        J, E, D, K, _ = self.W.shape
        words = f"capsules of {D} -> {J} of {E}, kernel_size={K}, num_iters={self.num_iters}"
        return words + ("" if self.squash_over == "capsule" else ", squash_over=map")


def as_capsule_map(features: Tensor, dim: int) -> Tensor:
    """Return a map [N, B * dim, H, W] as capsules [N, H, W, B, dim]."""
    return features.permute(0, 2, 3, 1).unflatten(3, (-1, dim))


def as_map(capsules: Tensor) -> Tensor:
    """Return capsules [N, H, W, B, dim] as a map [N, B * dim, H, W]."""
    return capsules.flatten(3).permute(0, 3, 1, 2)
