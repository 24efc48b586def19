"""Inverted dot-product attention (Tsai et al. 2020), as in the paper, with the votes stored.

v = route_ida(u_hat, weight, bias, 2, over_parents)
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.recompute import recomputed, wide
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share


def attend(u_hat: Tensor, v: Tensor | None) -> Tensor:
    """Return b_ij = u_hat_ij . v_j / sqrt(E) [N, P, I, J]; without v as yet, zeros."""
    if v is None:
        return u_hat.new_zeros(u_hat.shape[:4])
    return torch.einsum("npije,npje->npij", u_hat, v) * u_hat.shape[-1] ** -0.5


def norm(s: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return v_j = LayerNorm(s_j) over the E numbers of each capsule."""
    return F.layer_norm(s, s.shape[-1:], wide(weight), wide(bias))


def iterate(
    u_hat: Tensor, v: Tensor | None, weight: Tensor, bias: Tensor, share: Share
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return b, c, s_j = sum_i c_ij u_hat_ij and v of one iteration, from the v before it."""
    u_hat = wide(u_hat)
    b = attend(u_hat, v)
    c = share(b)
    s = torch.einsum("npij,npije->npje", c, u_hat)
    return b, c, s, norm(s, weight, bias)


def step_ida(u_hat: Tensor, v: Tensor | None, weight: Tensor, bias: Tensor, share: Share) -> Tensor:
    """Return v [N, P, J, E] after one iteration from the v before it, or from none."""
    return iterate(u_hat, v, weight, bias, share)[3]


def route_ida(u_hat: Tensor, weight: Tensor, bias: Tensor, num_iters: int, share: Share) -> Tensor:
    """Return v [N, P, J, E] after num_iters iterations, the first with equal shares."""
    v = None
    for _ in range(num_iters):
        v = recomputed(step_ida, u_hat, v, weight, bias, share)
    assert v is not None
    return v


def trace_ida(
    u_hat: Tensor,
    v: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    num_iters: int,
    share: Share,
) -> RoutingTrace:
    """Return everything that iterations from v compute; places count as samples."""
    steps = []
    for _ in range(num_iters):
        steps.append(iterate(u_hat, v, weight, bias, share))
        v = steps[-1][3]
    b, c, s, v = (torch.stack(x).flatten(1, 2) for x in zip(*steps, strict=True))
    return RoutingTrace(
        wide(u_hat).flatten(0, 1),
        *(b, c, s, v),
        torch.ones_like(v[..., 0]),
        routing="inverted attention",
    )
