"""Decoders whose weights are the same for every class (DeepCaps).

pixels = ConvDecoder(dim=32, image_shape=(1, 28, 28))(v[:, 3])
pixels = SharedDecoder(ConvDecoder(32, (1, 28, 28)))(v, which=labels)
"""

from itertools import pairwise
from math import prod, sqrt
from typing import Literal

import torch
from torch import Tensor, nn

from capsnet.errors import UserError

SMALLEST_MAP = 8  # a side is halved until it is not longer than this: 28 -> 7, 64 -> 8
FEWEST_CHANNELS = 8


class ConvDecoder(nn.Module):
    """One capsule [..., E] -> its picture [..., C, H, W].

    A dense layer makes a small map, transposed 3×3 convolutions double it until it is not smaller
    than the picture, and what is too much at its lower and right edge is cut.

    Args:
        dim: E.
        image_shape: (C, H, W).
        width: channels of the first convolution; they halve with each doubling, down to 8.
        relu: a ReLU after each; the authors' code has none.
        end: "sigmoid" or the authors' "relu".

    Example:
        >>> ConvDecoder(dim=16, image_shape=(3, 50, 37))(torch.rand(2, 16)).shape
        torch.Size([2, 3, 50, 37])
    """

    def __init__(
        self,
        dim: int,
        image_shape: tuple[int, int, int],
        width: int = 64,
        relu: bool = True,
        end: Literal["sigmoid", "relu"] = "sigmoid",
    ) -> None:
        super().__init__()
        if min(dim, width, *image_shape) < 1:
            raise UserError(
                f"A decoder of capsules of {dim}, of width {width}, for pictures {image_shape} "
                "cannot be; give sizes of at least 1."
            )
        if end not in ("sigmoid", "relu"):
            raise UserError(f"A decoder ends in 'sigmoid' or 'relu', not {end!r}.")
        C, *sides = self.image_shape = image_shape
        doublings = [_doublings(side) for side in sides]
        rows, columns = (-(-side >> k) for side, k in zip(sides, doublings, strict=True))
        seed = max(width // 4, 1)
        self.start = nn.Sequential(
            nn.Linear(dim, seed * rows * columns),
            nn.ReLU(),
            nn.Unflatten(1, (seed, rows, columns)),
            nn.BatchNorm2d(seed, eps=1e-3, momentum=0.2),
        )
        few = min(width, FEWEST_CHANNELS)
        widths = [max(width >> k, few) for k in range(max(doublings) + 1)]
        layers: list[nn.Module] = []
        for k, (fan_in, fan_out) in enumerate(pairwise([seed, *widths])):
            higher, wider = (0 < k <= times for times in doublings)
            layers.append(_upscale(fan_in, fan_out, higher, wider))
            layers += [nn.ReLU()] if relu else []
        layers += [
            _upscale(widths[-1], C, False, False),
            nn.Sigmoid() if end == "sigmoid" else nn.ReLU(),
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, v: Tensor) -> Tensor:
        """Return the pictures [..., C, H, W] of capsules v [..., E]."""
        _, H, W = self.image_shape
        pictures = self.layers(self.start(v.flatten(0, -2)))[..., :H, :W]
        return pictures.reshape(*v.shape[:-1], *self.image_shape)


class SharedDecoder(nn.Module):
    """A decoder of one capsule as one of v [N, J, E]: it does not know which class it draws.

    All capsules together draw the picture of their sum: that of one capsule where all others are
    zero, as they are where the labelled capsules draw an image.

    Args:
        net: draws one capsule, [..., E] -> [..., C, H, W].

    Example:
        >>> decoder = SharedDecoder(ConvDecoder(dim=16, image_shape=(1, 28, 28)))
        >>> decoder(torch.rand(2, 10, 16), which=torch.tensor([3, 7])).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, v: Tensor, which: Tensor) -> Tensor:
        """Return the pictures of the classes `which`: [N] -> [N, C, H, W], [N, L] -> [N, L, …]."""
        chosen = which.unsqueeze(1) if which.dim() == 1 else which
        taken = torch.take_along_dim(v, chosen.unsqueeze(-1), dim=1)
        return self.net(taken.squeeze(1) if which.dim() == 1 else taken)

    def draw(self, v: Tensor) -> Tensor:
        """Return what all capsules of v [..., J, E] draw together, [..., C, H, W]."""
        return self.net(v.sum(dim=-2))


def _doublings(side: int) -> int:
    """Return how often a map is doubled to a side."""
    times = 0
    while side > SMALLEST_MAP << times:
        times += 1
    return times


def _upscale(fan_in: int, fan_out: int, higher: bool, wider: bool) -> nn.ConvTranspose2d:
    """Return a 3×3 convolution that makes a map twice as high, or wide, or leaves it so.

    It starts by He's rule: with torch's own start a few ReLUs in a row can be dead from the first.
    """
    stride, more = (1 + higher, 1 + wider), (int(higher), int(wider))
    conv = nn.ConvTranspose2d(fan_in, fan_out, 3, stride, padding=1, output_padding=more)
    nn.init.normal_(conv.weight, std=sqrt(2 * prod(stride) / (9 * fan_in)))
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
    return conv
