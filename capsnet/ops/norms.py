"""Norms of capsules between layers, which keep a stack of them from shrinking to nothing.

u = norm_layer(u)        # the whole layer has one scale; long capsules stay longer than short ones
u = norm_capsules(u)     # every capsule has length one; its length says nothing any more
"""

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-12  # of a squared length: capsules of 1e-6 and less stay short


def norm_layer(u: Tensor) -> Tensor:
    """Return capsules u [N, I, D] divided by one number per sample: the root mean square length.

    u_i / sqrt(mean_k |u_k|^2): their mean squared length is 1, their ratios are what they were.

    Example:
        >>> norm_layer(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])).square().sum(-1).mean()
        tensor(1.)
    """
    with torch.autocast(u.device.type, enabled=False):
        wide = u.float() if u.dtype in (torch.float16, torch.bfloat16) else u
        square = wide.square().sum(dim=-1, keepdim=True).mean(dim=-2, keepdim=True)
        return (wide * (square + EPS).rsqrt()).to(u.dtype)


def norm_capsules(u: Tensor) -> Tensor:
    """Return each capsule of u [N, I, D] with mean zero and length one: a layer norm / sqrt(D).

    Example:
        >>> norm_capsules(torch.tensor([[[1.0, 3.0]]]))
        tensor([[[-0.7071,  0.7071]]])
    """
    D = u.shape[-1]
    with torch.autocast(u.device.type, enabled=False):
        wide = u.float() if u.dtype in (torch.float16, torch.bfloat16) else u
        return (F.layer_norm(wide, (D,), eps=EPS / D) * D**-0.5).to(u.dtype)
