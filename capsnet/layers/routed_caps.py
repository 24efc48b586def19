"""Class capsules by any routing, on the same votes: what ClassCaps is for dynamic routing.

v = RoutedCaps(num_lower=288, lower_dim=8, num_classes=10, dim=16, routing=EmRouting(10))(u)
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capsnet.layers.capsules import Capsules
from capsnet.layers.routings import Routing
from capsnet.ops import RoutingTrace
from capsnet.ops.dynamic.reference import transform
from capsnet.ops.recompute import full_precision
from capsnet.ops.votes import check_capsules


class RoutedCaps(nn.Module):
    """Capsules u [N, I, D] -> v [N, J, E], whose length is the activation that the routing gives.

    Votes are W_ij u_i and the lower activations |u_i|, as in dynamic routing; of the pose that the
    routing gives a parent, v has the direction.

    Args:
        num_lower: I.
        lower_dim: D.
        num_classes: J.
        dim: E.
        routing: one of `capsnet.layers.routings`.
        readout: the activation is read from the pose, a sigmoid of one number that all parents
            share, where the routing has none of its own.

    Example:
        >>> head = RoutedCaps(32, 8, num_classes=5, dim=16, routing=EmRouting(5))
        >>> head(torch.rand(2, 32, 8)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        num_lower: int,
        lower_dim: int,
        num_classes: int,
        dim: int,
        routing: Routing,
        readout: bool = False,
    ) -> None:
        super().__init__()
        self.W = nn.Parameter(0.1 * torch.randn(num_lower, num_classes, dim, lower_dim))
        self.routing = routing
        self.readout = nn.Linear(dim, 1) if readout else None

    def forward(self, u: Tensor) -> Tensor:
        """Return the routed capsules v [N, J, E]."""
        pose, a = self.routing(*self.votes(u))
        return self.with_length(pose, a).squeeze(1)

    def trace(self, u: Tensor) -> RoutingTrace:
        """Return every iteration of the routing, to look inside."""
        trace = self.routing.trace(*self.votes(u))
        v = self.with_length(trace.v, trace.a)
        return trace._replace(v=v, a=torch.linalg.vector_norm(v, dim=-1))

    def votes(self, u: Tensor) -> tuple[Tensor, Capsules]:
        """Return the votes [N, 1, I, J, E], and the lower capsules as the one place sees them."""
        check_capsules(u, self.W)
        lower = Capsules(u.unsqueeze(1), torch.linalg.vector_norm(u, dim=-1).unsqueeze(1))
        return transform(u, self.W).unsqueeze(1), lower

    def with_length(self, pose: Tensor, a: Tensor) -> Tensor:
        """Return vectors in the direction of poses [..., J, E], as long as activations [..., J]."""
        with full_precision(pose):
            pose = pose.to(self.W.dtype)
            if self.readout is not None:
                a = torch.sigmoid(self.readout(pose)).squeeze(-1)
            return F.normalize(pose, dim=-1) * a.to(pose.dtype).unsqueeze(-1)

    def extra_repr(self) -> str:
        """Say the sizes."""
        I, J, E, D = self.W.shape
        return f"{I} capsules of {D} -> {J} of {E}"
