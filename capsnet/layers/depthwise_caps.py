"""Efficient-CapsNet's primary capsules: every channel has a kernel of its own, and no other.

u = DepthwiseCaps(128, dim=8, kernel_size=9)(features)
"""

from torch import Tensor, nn

from capsnet.layers.primary_caps import as_capsules
from capsnet.ops import exponential_squash


class DepthwiseCaps(nn.Module):
    """Features [N, C, H, W] -> capsules u [N, I, D] with I = height * width * C / D.

    A depthwise convolution; its D neighbouring channels at one position are a capsule. Capsules
    are ordered by row, column and type.

    Args:
        channels: C, a multiple of dim.
        dim: D, numbers in a capsule.
        kernel_size: side of what a capsule sees.
        stride: places below from one capsule to the next.

    Example:
        >>> DepthwiseCaps(128, dim=8, kernel_size=9)(torch.rand(2, 128, 9, 9)).shape
        torch.Size([2, 16, 8])
    """

    def __init__(self, channels: int, dim: int = 8, kernel_size: int = 9, stride: int = 1) -> None:
        super().__init__()
        self.dim = dim
        self.conv = nn.Conv2d(channels, channels, kernel_size, stride, groups=channels)

    def forward(self, features: Tensor) -> Tensor:
        """Return the squashed capsules u [N, I, D]."""
        return exponential_squash(as_capsules(self.conv(features), self.dim))
