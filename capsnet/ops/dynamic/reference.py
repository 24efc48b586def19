"""Procedure 1, written down as in the paper, with the votes stored: the truth for all others.

v = route_reference(u, W, 3, None, "full", False)

Half precision is routed in fp32: iterations amplify the rounding of a vote, to 0.7 where |v| < 1.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.squash import HALF, squash, widened
from capsnet.ops.trace import RoutingTrace


def transform(u: Tensor, W: Tensor) -> Tensor:
    """Return the votes u_hat_ij = W_ij u_i (Eq. 2): [N, I, D], [I, J, E, D] -> [N, I, J, E].

    They have the dtype of u.
    """
    return torch.einsum("ijed,nid->nije", W.to(u.dtype), u)


def couple(b: Tensor, leaky: bool) -> Tensor:
    """Return c = softmax over the parents j of the logits b [N, I, J] (Eq. 3).

    leaky adds one more parent with logit zero that takes its share and is dropped.
    """
    if leaky:
        return F.pad(b, (1, 0)).softmax(dim=-1)[..., 1:]
    return b.softmax(dim=-1)


def route_reference(
    u: Tensor, W: Tensor, num_iters: int, bias: Tensor | None, gradient: str, leaky: bool
) -> Tensor:
    """Return v [N, J, E] of u [N, I, D] and W [I, J, E, D] in the dtype of u."""
    u_hat = transform(widened(u), W)
    v = route_votes(u_hat, num_iters, bias, gradient, leaky)
    return v.to(u.dtype) if u.dtype in HALF else v


def route_votes(
    u_hat: Tensor, num_iters: int, bias: Tensor | None, gradient: str, leaky: bool
) -> Tensor:
    """Return v [N, J, E] from the votes u_hat [N, I, J, E] by routing-by-agreement.

    gradient="last" lets the gradient through the last iteration only.
    """
    # Autocast would take the products of a wider copy in half precision again.
    if u_hat.dtype in HALF and (u_hat.is_meta or not torch.is_autocast_enabled(u_hat.device.type)):
        return route_votes(u_hat.float(), num_iters, bias, gradient, leaky).to(u_hat.dtype)
    b = u_hat.new_zeros(u_hat.shape[:3])
    early = (lambda x: x.detach()) if gradient == "last" else (lambda x: x)
    for _ in range(num_iters - 1):
        _, _, v = iterate(early(u_hat), b, None if bias is None else early(bias), leaky)
        b = b + torch.einsum("nije,nje->nij", early(u_hat), v)
    _, _, v = iterate(u_hat, b, bias, leaky)
    return v


def iterate(
    u_hat: Tensor, b: Tensor, bias: Tensor | None, leaky: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return one iteration: c = softmax_j(b), s_j = sum_i c_ij u_hat_ij, v = squash(s)."""
    c = couple(b, leaky)
    s = torch.einsum("nij,nije->nje", c, u_hat)
    if bias is not None:
        s = s + bias.to(s.dtype)
    return c, s, squash(s)


def trace_votes(
    u_hat: Tensor,
    num_iters: int,
    bias: Tensor | None,
    leaky: bool,
    dtype: torch.dtype | None = None,
) -> RoutingTrace:
    """Return everything that `route_votes` computes on its way, by default in the votes' dtype."""
    dtype, u_hat = dtype or u_hat.dtype, widened(u_hat)
    b = u_hat.new_zeros(u_hat.shape[:3])
    steps = []
    for _ in range(num_iters):
        c, s, v = iterate(u_hat, b, bias, leaky)
        steps.append((b, c, s, v))
        b = b + torch.einsum("nije,nje->nij", u_hat, v)
    b, c, s, v = (torch.stack(x) for x in zip(*steps, strict=True))
    a = torch.linalg.vector_norm(v, dim=-1)
    u_hat, b, c, s, v, a = (x.to(dtype) for x in (u_hat, b, c, s, v, a))
    return RoutingTrace(u_hat, b, c, s, v, a, leaky, bias is not None)
