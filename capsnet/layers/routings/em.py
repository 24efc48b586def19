"""EM routing with the two numbers that each upper type learns.

upper = EmRouting(num_upper=16, num_iters=3)(u_hat, lower, windows.share)
"""

import torch
from torch import Tensor, nn

from capsnet.layers.capsules import Capsules
from capsnet.layers.routings.routing import Routing
from capsnet.ops.em import em_routing, em_routing_trace
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share, over_parents


class EmRouting(Routing):
    """`capsnet.ops.em_routing` with beta_u and beta_a [J] as parameters.

    beta_u is where the first starts, the other starts at zero: then a parent whose votes spread by
    exp(-beta_u), in units of the poses, is as much on as off.
    """

    def __init__(
        self, num_upper: int, num_iters: int = 3, lam: float = 1.0, beta_u: float = 2.0
    ) -> None:
        super().__init__()
        self.num_iters, self.lam = num_iters, lam
        self.beta_u = nn.Parameter(torch.full((num_upper,), beta_u))
        self.beta_a = nn.Parameter(torch.zeros(num_upper))

    def forward(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> Capsules:
        """Return the parents: pose [N, P, J, E], a [N, P, J]."""
        betas = (self.beta_u, self.beta_a)
        return Capsules(
            *em_routing(u_hat, lower.a, *betas, self.num_iters, lam=self.lam, share=share)
        )

    def trace(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> RoutingTrace:
        """Return every iteration; places count as samples, [N * P, …]."""
        betas = (self.beta_u, self.beta_a)
        return em_routing_trace(u_hat, lower.a, *betas, self.num_iters, lam=self.lam, share=share)

    def extra_repr(self) -> str:
        """Say how often it repeats and the temperature it goes to."""
        return f"num_iters={self.num_iters}, lam={self.lam:g}"
