"""Self-routing (Hahn, Pyeon, Kim 2019), written down as in the paper, with the votes stored.

v, a_upper = route_self(u_hat, a, choose(u, W, bias), over_parents)
"""

import torch
from torch import Tensor

from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share

EPS = 1e-12  # what a sum of activations is at least, where it divides


def choose(u: Tensor, W: Tensor, bias: Tensor) -> Tensor:
    """Return b_ij = W_ij . u_i + bias_ij: [N, P, I, D], [I, J, D], [I, J] -> [N, P, I, J]."""
    return torch.einsum("npid,ijd->npij", u, W) + bias


def weigh(a: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a_i c_ij [N, P, I, J], its sum over i, and the upper a_j [N, P, J]."""
    shares = a.unsqueeze(-1) * c
    sums = shares.sum(dim=2)
    return shares, sums, sums / a.sum(dim=2, keepdim=True).clamp(min=EPS)


def route_self(u_hat: Tensor, a: Tensor, b: Tensor, share: Share) -> tuple[Tensor, Tensor]:
    """Return v_j = sum_i a_i c_ij u_hat_ij / sum_i a_i c_ij and a_j, with c = share(b)."""
    shares, sums, a_upper = weigh(a, share(b))
    s = torch.einsum("npij,npije->npje", shares, u_hat)
    return s / sums.clamp(min=EPS).unsqueeze(-1), a_upper


def trace_self(u_hat: Tensor, a: Tensor, b: Tensor, share: Share) -> RoutingTrace:
    """Return everything that `route_self` computes, as one iteration; places count as samples."""
    v, a_upper = route_self(u_hat, a, b, share)
    b, c, v, a_upper = (x.flatten(0, 1).unsqueeze(0) for x in (b, share(b), v, a_upper))
    return RoutingTrace(u_hat.flatten(0, 1), b, c, v, v, a_upper, routing="self-routing")
