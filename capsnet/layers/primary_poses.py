"""Primary capsules with an activation of their own: a pose and how sure it is, at every place.

lower = PrimaryPoses(64, num_types=8)(features)        # Capsules: [N, H, W, 8, 16], [N, H, W, 8]
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers.capsules import Capsules
from capsnet.layers.conv import Conv2d
from capsnet.layers.type_norm import TypeNorm
from capsnet.ops.recompute import wide


class PrimaryPoses(nn.Module):
    """Features [N, C, H, W] -> capsules on a map: poses by one convolution, a by another's sigmoid.

    Args:
        in_channels: C.
        num_types: B, types of capsules at each place.
        dim: D, numbers in a pose.
        kernel_size: side of what a capsule sees.
        stride: places below from one capsule to the next.
        bias: of both convolutions.
        norm: normalise both for each type, before the sigmoid (`TypeNorm`); biases are left out.

    Example:
        >>> upper = PrimaryPoses(32, num_types=8, dim=16)(torch.rand(2, 32, 6, 6))
        >>> upper.pose.shape, upper.a.shape
        (torch.Size([2, 6, 6, 8, 16]), torch.Size([2, 6, 6, 8]))
    """

    def __init__(
        self,
        in_channels: int,
        num_types: int = 8,
        dim: int = 16,
        kernel_size: int = 1,
        stride: int = 1,
        bias: bool = True,
        norm: bool = False,
    ) -> None:
        super().__init__()
        self.dim, bias = dim, bias and not norm
        self.pose = Conv2d(in_channels, num_types * dim, kernel_size, stride, bias=bias)
        self.a = Conv2d(in_channels, num_types, kernel_size, stride, bias=bias)
        self.pose_norm = TypeNorm(num_types) if norm else nn.Identity()
        self.a_norm = TypeNorm(num_types, pose=False) if norm else nn.Identity()

    def forward(self, features: Tensor) -> Capsules:
        """Return poses [N, H, W, B, D] and activations [N, H, W, B]."""
        if features.dim() != 4:
            raise UserError(
                f"Features of shape {list(features.shape)} are no map; give [N, C, H, W]."
            )
        pose = self.pose(features).permute(0, 2, 3, 1).unflatten(-1, (-1, self.dim))
        a = self.a(features).permute(0, 2, 3, 1)
        return Capsules(self.pose_norm(pose), torch.sigmoid(wide(self.a_norm(a))))

    if TYPE_CHECKING:

        def __call__(self, features: Tensor) -> Capsules:  # noqa: D102
            ...
