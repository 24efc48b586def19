"""Small residual trunks (He et al. 2016, as for CIFAR) that capsules stand on.

features = ResNet(3, (16, 32, 64), (3, 3, 3))(images)      # [N, 64, H / 4, W / 4]
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Shortcut = Literal["pad", "conv"]


class ResNet(nn.Sequential):
    """A 3×3 convolution, then stages of residual blocks; each stage but the first halves the map.

    shortcut: where the size changes, "pad" takes every second place and adds channels of zeros
    on both sides; "conv" has a 1×1 convolution with batch norm.
    """

    def __init__(
        self,
        in_channels: int,
        channels: tuple[int, ...],
        blocks: tuple[int, ...],
        shortcut: Shortcut = "pad",
    ) -> None:
        layers: list[nn.Module] = [*conv_norm(in_channels, channels[0], 3), nn.ReLU()]
        before = channels[0]
        for stage, (width, count) in enumerate(zip(channels, blocks, strict=True)):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Block(before, width, stride, shortcut))
                before = width
        super().__init__(*layers)
        self.channels, self.stride = before, 2 ** (len(channels) - 1)

    def size(self, side: int) -> int:
        """Return the side of the map that is left of a picture's side."""
        return -(-side // self.stride)


class Block(nn.Module):
    """Two 3×3 convolutions with batch norm, and their input added: relu(f(x) + x)."""

    def __init__(self, before: int, width: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *conv_norm(before, width, 3, stride), nn.ReLU(), *conv_norm(width, width, 3)
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = (
                nn.Sequential(*conv_norm(before, width, 1, stride))
                if shortcut == "conv"
                else Padded(before, width, stride)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, width, H / stride, W / stride] of x [N, before, H, W]."""
        return F.relu(self.layers(x) + self.shortcut(x))


class Padded(nn.Module):
    """A shortcut without weights: every stride-th place, with channels of zeros on both sides."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = width - before, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return x [N, before, H, W] as [N, width, H / stride, W / stride]."""
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))


def conv_norm(
    before: int, width: int, kernel: int, stride: int = 1
) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """Return a convolution without a bias that keeps the size, stride aside, and its batch norm."""
    conv = nn.Conv2d(before, width, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_uniform_(conv.weight)
    return conv, nn.BatchNorm2d(width)
