"""ClassCaps (the paper's DigitCaps): one capsule per class, fed by routing-by-agreement.

v = ClassCaps(num_lower=1152, lower_dim=8, num_classes=10, dim=16)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.ops import RoutingTrace, dynamic_routing, routing_trace
from capsnet.ops.routing import Backend, Gradient


class ClassCaps(nn.Module):
    """Capsules u [N, I, D] -> v [N, J, E]; options as in `capsnet.ops.dynamic_routing`."""

    def __init__(
        self,
        num_lower: int,
        lower_dim: int,
        num_classes: int = 10,
        dim: int = 16,
        num_iters: int = 3,
        routing_bias: bool = False,
        gradient: Gradient = "full",
        leaky: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.num_iters, self.leaky = num_iters, leaky
        self.gradient, self.backend = gradient, backend
        self.W = nn.Parameter(0.1 * torch.randn(num_lower, num_classes, dim, lower_dim))
        self.bias = nn.Parameter(torch.full((num_classes, dim), 0.1)) if routing_bias else None

    def forward(self, u: Tensor) -> Tensor:
        """Return the routed capsules v [N, J, E]."""
        return dynamic_routing(
            u,
            self.W,
            self.num_iters,
            bias=self.bias,
            gradient=self.gradient,
            leaky=self.leaky,
            backend=self.backend,
        )

    def trace(self, u: Tensor) -> RoutingTrace:
        """Return every iteration of the routing of u, to look inside."""
        return routing_trace(u, self.W, self.num_iters, bias=self.bias, leaky=self.leaky)
