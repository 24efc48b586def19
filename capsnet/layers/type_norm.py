"""Batch norm of capsules: one mean and one spread for each type, over samples, places and pose.

pose = TypeNorm(16)(pose)            # [N, H, W, 16, D]; with pose=False, activations [N, H, W, 16]
"""

import torch.nn.functional as F
from torch import Tensor, nn


class TypeNorm(nn.BatchNorm1d):
    """Norm of poses [..., B, D], or of activations [..., B] (pose=False), for each of B types.

    Where a batch has a single number for each type, the running statistics stand in for its own.

    Args:
        num_types: B.
        pose: whether poses or activations are normalised.
        affine: learn a scale and a shift for each type.

    Example:
        >>> TypeNorm(8)(torch.rand(2, 6, 6, 8, 16)).shape
        torch.Size([2, 6, 6, 8, 16])
    """

    def __init__(self, num_types: int, pose: bool = True, affine: bool = True) -> None:
        super().__init__(num_types, affine=affine)
        self.pose = pose

    def forward(self, x: Tensor) -> Tensor:
        """Return x with mean zero and spread one for each type, in training."""
        rows = x.reshape(-1, *x.shape[-2:]) if self.pose else x.reshape(-1, x.shape[-1], 1)
        if rows.shape[0] * rows.shape[2] > 1 or not self.training:
            return super().forward(rows).reshape(x.shape)
        y = F.batch_norm(rows, self.running_mean, self.running_var, self.weight, self.bias, False)
        return y.reshape(x.shape)
