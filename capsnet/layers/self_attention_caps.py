"""Class capsules by self-attention routing (Efficient-CapsNet).

v = SelfAttentionCaps(num_lower=16, lower_dim=8, num_classes=10, dim=16)(u)
"""

from math import sqrt

import torch
from torch import Tensor, nn

from capsnet.ops import RoutingTrace, self_attention_routing, self_attention_trace


class SelfAttentionCaps(nn.Module):
    """Capsules u [N, I, D] -> v [N, J, E]; as `capsnet.ops.self_attention_routing`.

    W starts as the authors' code starts it, with standard deviation sqrt(2 / (I J D)), the bias
    of the couplings at zero.

    Args:
        num_lower: I.
        lower_dim: D.
        num_classes: J.
        dim: E.

    Example:
        >>> SelfAttentionCaps(num_lower=16, lower_dim=8)(torch.rand(2, 16, 8)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self, num_lower: int, lower_dim: int, num_classes: int = 10, dim: int = 16
    ) -> None:
        super().__init__()
        std = sqrt(2 / (num_lower * num_classes * lower_dim))
        self.W = nn.Parameter(std * torch.randn(num_lower, num_classes, dim, lower_dim))
        self.bias = nn.Parameter(torch.zeros(num_lower, num_classes))

    def forward(self, u: Tensor) -> Tensor:
        """Return the routed capsules v [N, J, E]."""
        return self_attention_routing(u, self.W, bias=self.bias)

    def trace(self, u: Tensor) -> RoutingTrace:
        """Return the one pass of the routing, to look inside."""
        return self_attention_trace(u, self.W, bias=self.bias)

    def extra_repr(self) -> str:
        """Say the sizes."""
        I, J, E, D = self.W.shape
        return f"{I} capsules of {D} -> {J} of {E}"
