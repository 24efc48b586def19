"""PrimaryCaps: a convolution whose channels, at each position, are grouped into capsules.

u = PrimaryCaps(256, num_types=32, dim=8)(features)
"""

from torch import Tensor, nn

from capsnet.ops import conv2d, squash


class PrimaryCaps(nn.Module):
    """Features [N, C, H, W] -> capsules u [N, I, D] with I = height * width * num_types.

    The D components of a capsule are D channels at one position; capsules are ordered by row,
    column and type. routed=True is the authors' code: the convolution is shared out among the
    types as by one routing pass with zero logits (divided by num_types, the bias added after).
    """

    def __init__(
        self,
        in_channels: int,
        num_types: int = 32,
        dim: int = 8,
        kernel_size: int = 9,
        stride: int = 2,
        routed: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.share = 1 / num_types if routed else 1.0
        self.conv = nn.Conv2d(in_channels, num_types * dim, kernel_size, stride)

    def forward(self, features: Tensor) -> Tensor:
        """Return the squashed capsules u [N, I, D]."""
        weight = self.conv.weight if self.share == 1 else self.conv.weight * self.share
        x = conv2d(features, weight, self.conv.bias, self.conv.stride[0])
        return squash(x.permute(0, 2, 3, 1).reshape(len(x), -1, self.dim))
