"""PrimaryCaps: a convolution whose channels, at each position, are grouped into capsules.

u = PrimaryCaps(256, num_types=32, dim=8)(features)
"""

from math import prod

from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers.conv import Conv2d
from capsnet.ops import squash


class PrimaryCaps(nn.Module):
    """Features [N, C, H, W] -> capsules u [N, I, D] with I = height * width * num_types.

    The D components of a capsule are D channels at one position; capsules are ordered by row,
    column and type.

    Args:
        in_channels: C.
        num_types: of capsules at each place.
        dim: D, numbers in a capsule.
        kernel_size: side of what a capsule sees.
        stride: places below from one capsule to the next.
        routed: as the authors' code: the convolution is shared out among the types as by one
            routing pass with zero logits (divided by num_types, the bias added after).
        spatial_dims: 1 for signals [N, C, L], 3 for volumes [N, C, D, H, W].

    Example:
        >>> PrimaryCaps(32, num_types=8, dim=8, kernel_size=5)(torch.rand(2, 32, 12, 12)).shape
        torch.Size([2, 128, 8])
    """

    def __init__(
        self,
        in_channels: int,
        num_types: int = 32,
        dim: int = 8,
        kernel_size: int = 9,
        stride: int = 2,
        routed: bool = False,
        spatial_dims: int = 2,
    ) -> None:
        super().__init__()
        self.dim, self.spatial_dims = dim, spatial_dims
        channels = num_types * dim
        self.conv: nn.Module
        if spatial_dims == 2:
            share = 1 / num_types if routed else 1.0
            self.conv = Conv2d(in_channels, channels, kernel_size, stride, scale=share)
        elif spatial_dims in (1, 3) and not routed:
            kind = nn.Conv1d if spatial_dims == 1 else nn.Conv3d
            self.conv = kind(in_channels, channels, kernel_size, stride)
        else:
            raise UserError(
                f"Primary capsules with spatial_dims={spatial_dims}, routed={routed} cannot be; "
                "use 1, 2 or 3, and routed with 2 alone."
            )

    def forward(self, features: Tensor) -> Tensor:
        """Return the squashed capsules u [N, I, D]."""
        if features.dim() != 2 + self.spatial_dims:
            raise UserError(
                f"Features of shape {list(features.shape)} do not fit capsules with "
                f"{self.spatial_dims} spatial dimensions; give [N, C, …] with as many."
            )
        return squash(as_capsules(self.conv(features), self.dim))


def as_capsules(features: Tensor, dim: int) -> Tensor:
    """Return a map [N, C, H, W] of any number of dimensions as capsules [N, I, dim].

    A capsule is `dim` neighbouring channels at one position, ordered by position, then type.
    """
    if features.shape[1] % dim:
        raise UserError(
            f"{features.shape[1]} channels do not make capsules of {dim}; give a multiple of it."
        )
    num_capsules = prod(features.shape[1:]) // dim
    return features.movedim(1, -1).reshape(features.shape[0], num_capsules, dim)
