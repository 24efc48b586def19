"""Variational-Bayes routing with what each upper type learns, and its norms.

upper = VbRouting(num_upper=16, num_iters=3)(u_hat, lower, windows.share)
"""

import torch
from torch import Tensor, nn

from capsnet.layers.capsules import Capsules
from capsnet.layers.routings.routing import Routing
from capsnet.layers.type_norm import TypeNorm
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.vb import vb_routing, vb_routing_trace
from capsnet.ops.windows import Share, over_parents


class VbRouting(Routing):
    """`capsnet.ops.vb_routing` with beta_u and beta_a [J] as parameters, which start at zero.

    Poses and the logits of the activations are normalised for each type (`TypeNorm`).
    """

    def __init__(self, num_upper: int, num_iters: int = 3) -> None:
        super().__init__()
        self.num_iters = num_iters
        self.beta_u = nn.Parameter(torch.zeros(num_upper))
        self.beta_a = nn.Parameter(torch.zeros(num_upper))
        self.pose_norm = TypeNorm(num_upper, affine=False)
        self.a_norm = TypeNorm(num_upper, pose=False, affine=False)

    def forward(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> Capsules:
        """Return the parents: pose [N, P, J, E], a [N, P, J]."""
        betas, finish = (self.beta_u, self.beta_a), self.normalised
        return Capsules(
            *vb_routing(u_hat, lower.a, *betas, self.num_iters, share=share, finish=finish)
        )

    def trace(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> RoutingTrace:
        """Return every iteration; places count as samples, [N * P, …]."""
        betas, finish = (self.beta_u, self.beta_a), self.normalised
        return vb_routing_trace(u_hat, lower.a, *betas, self.num_iters, share=share, finish=finish)

    def normalised(self, m: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norm of the means, and the sigmoid of that of the logits."""
        m, logits = m.to(self.beta_u.dtype), logits.to(self.beta_u.dtype)
        return self.pose_norm(m), torch.sigmoid(self.a_norm(logits))

    def extra_repr(self) -> str:
        """Say how often it repeats."""
        return f"num_iters={self.num_iters}"
