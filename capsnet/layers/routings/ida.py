"""Inverted dot-product attention inside a layer: its parameters are those of a layer norm.

upper = IdaRouting(dim=16, num_iters=2)(u_hat, lower)      # the layer's iterations
v = routing.step(u_hat, v, share)                          # one of them, of all layers at once
"""

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers.capsules import Capsules
from capsnet.layers.routings.competing import Compete, shared
from capsnet.layers.routings.routing import Routing
from capsnet.ops.ida import ida_routing, ida_step, ida_trace
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share, over_parents


class IdaRouting(Routing):
    """`capsnet.ops.ida_routing`; its capsules are always there, a = 1, and lower.a is not used.

    compete: the parents of one "place" share a child, as in the authors' code; or all on the "map"
    that see it.
    """

    def __init__(self, dim: int = 16, num_iters: int = 2, compete: Compete = "place") -> None:
        super().__init__()
        if num_iters < 1:
            raise UserError(f"num_iters must be at least 1, not {num_iters}.")
        self.num_iters, self.compete = num_iters, compete
        self.norm = nn.LayerNorm(dim)

    def forward(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> Capsules:
        """Return the parents: pose v [N, P, J, E], a = 1 [N, P, J]."""
        share = shared(self.compete, share)
        v = ida_routing(u_hat, self.norm.weight, self.norm.bias, self.num_iters, share=share)
        return Capsules(v, torch.ones_like(v[..., 0]))

    def step(self, u_hat: Tensor, v: Tensor | None, share: Share = over_parents) -> Tensor:
        """Return v [N, P, J, E] after one iteration from the v before it, or from none."""
        share = shared(self.compete, share)
        return ida_step(u_hat, v, self.norm.weight, self.norm.bias, share=share)

    def trace(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> RoutingTrace:
        """Return every iteration; places count as samples, [N * P, …]."""
        share = shared(self.compete, share)
        weight, bias = self.norm.weight, self.norm.bias
        return ida_trace(u_hat, weight, bias, self.num_iters, share=share)

    def extra_repr(self) -> str:
        """Say how often it repeats and who competes."""
        return f"num_iters={self.num_iters}, compete={self.compete}"
