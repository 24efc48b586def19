"""Self-routing inside a layer, and a layer of classes made of it alone.

upper = SelfRouting(num_children=9 * 32, num_upper=32, lower_dim=16)(u_hat, lower)
classes = SelfRoutedClasses(num_lower=2048, lower_dim=16, num_classes=10)(lower)
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from capsnet.layers.capsules import Capsules
from capsnet.layers.routings.competing import Compete, shared
from capsnet.layers.routings.routing import Routing
from capsnet.ops.self_routing import (
    self_routing,
    self_routing_activations,
    self_routing_logits,
    self_routing_trace,
)
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share, over_parents


class SelfRouting(Routing):
    """`capsnet.ops.self_routing` with what each child looks for as parameters, zero at the start.

    num_children: all that a place sees, K * K * B. compete: the parents of one "place" share a
    child, as in the paper; or all on the "map" that see it.
    """

    def __init__(
        self, num_children: int, num_upper: int, lower_dim: int = 16, compete: Compete = "place"
    ) -> None:
        super().__init__()
        self.compete = compete
        self.W = nn.Parameter(torch.zeros(num_children, num_upper, lower_dim))
        self.bias = nn.Parameter(torch.zeros(num_children, num_upper))

    def forward(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> Capsules:
        """Return the parents: pose [N, P, J, E], a [N, P, J]."""
        b = self_routing_logits(lower.pose, self.W, self.bias)
        return Capsules(*self_routing(u_hat, lower.a, b, share=shared(self.compete, share)))

    def trace(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> RoutingTrace:
        """Return the one iteration there is; places count as samples, [N * P, …]."""
        b = self_routing_logits(lower.pose, self.W, self.bias)
        return self_routing_trace(u_hat, lower.a, b, share=shared(self.compete, share))

    def extra_repr(self) -> str:
        """Say the sizes and who competes."""
        I, J, D = self.W.shape
        return f"{I} children of {D} -> {J}, compete={self.compete}"


class SelfRoutedClasses(nn.Module):
    """Capsules in a row -> one activation for each class; these parents have no poses.

    A child's vote for a class is the share c_ij that it gives it, and a class is the mean of its
    votes, weighted by the children's activations.
    """

    def __init__(self, num_lower: int, lower_dim: int, num_classes: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(num_lower, num_classes, lower_dim))
        self.bias = nn.Parameter(torch.zeros(num_lower, num_classes))

    def forward(self, lower: Capsules) -> Capsules:
        """Return pose = a [N, J, 1] and a [N, J] of capsules on a map [N, H, W, B, D]."""
        seen, b = self.logits(lower)
        a = self_routing_activations(seen.a, b).squeeze(1)
        return Capsules(a.unsqueeze(-1), a)

    def trace(self, lower: Capsules) -> RoutingTrace:
        """Return the one iteration there is, with the shares as votes [N, I, J, 1]."""
        seen, b = self.logits(lower)
        a = self_routing_activations(seen.a, b).squeeze(1).unsqueeze(0)
        b = b.squeeze(1).unsqueeze(0)
        c, v = over_parents(b), a.unsqueeze(-1)
        return RoutingTrace(c[0].unsqueeze(-1), b, c, v, v, a, routing="self-routing")

    def logits(self, lower: Capsules) -> tuple[Capsules, Tensor]:
        """Return the capsules as one place sees them, [N, 1, I, D], and b [N, 1, I, J]."""
        seen = Capsules(*(x.flatten(1, 3).unsqueeze(1) for x in lower))
        return seen, self_routing_logits(seen.pose, self.W, self.bias)

    def extra_repr(self) -> str:
        """Say the sizes."""
        I, J, D = self.W.shape
        return f"{I} capsules of {D} -> {J} classes"

    if TYPE_CHECKING:

        def __call__(self, lower: Capsules) -> Capsules:  # noqa: D102
            ...
