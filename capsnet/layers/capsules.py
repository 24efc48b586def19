"""Capsules that have an activation of their own beside their pose.

lower = Capsules(pose, a); upper = ConvCaps(…)(lower)
"""

from typing import NamedTuple

from torch import Tensor


class Capsules(NamedTuple):
    """What one layer of capsules tells the next: how each looks, and how sure it is to be there.

    The dimensions before the last one of `pose` are those of `a`: [N, I] for capsules in a row,
    [N, H, W, B] for B types of them at each place of a map.

    Example:
        >>> Capsules(pose=torch.rand(2, 4, 4, 8, 16), a=torch.rand(2, 4, 4, 8)).a.shape
        torch.Size([2, 4, 4, 8])
    """

    pose: Tensor  # [N, I, D] or [N, H, W, B, D]
    a: Tensor  # [N, I] or [N, H, W, B], in 0 … 1
