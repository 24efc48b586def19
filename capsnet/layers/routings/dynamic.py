"""Routing-by-agreement inside a layer: it has no parameters.

upper = DynamicRouting(num_iters=3)(u_hat, lower, windows.share)
"""

from torch import Tensor

from capsnet.layers.capsules import Capsules
from capsnet.layers.routings.routing import Routing
from capsnet.ops.dynamic.placed import dynamic_routing_places, dynamic_routing_places_trace
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share, over_parents


class DynamicRouting(Routing):
    """`capsnet.ops.dynamic.placed`: a capsule's length is its activation, lower.a is not used."""

    def __init__(self, num_iters: int = 3) -> None:
        super().__init__()
        self.num_iters = num_iters

    def forward(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> Capsules:
        """Return the parents: pose v [N, P, J, E] and a = |v| [N, P, J]."""
        return Capsules(*dynamic_routing_places(u_hat, self.num_iters, share=share))

    def trace(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> RoutingTrace:
        """Return every iteration; places count as samples, [N * P, …]."""
        return dynamic_routing_places_trace(u_hat, self.num_iters, share=share)

    def extra_repr(self) -> str:
        """Say how often it repeats."""
        return f"num_iters={self.num_iters}"
