"""Self-attention routing as Efficient-CapsNet has it (Mazzia, Salvetti, Chiaberge 2021).

v = route_votes(u_hat, bias, over_parents)

The agreement of a vote with all votes for the same parent, û_ij · Σ_k û_kj, needs their sum and no
matrix of pairs. Products are written out, so that autograd keeps u_hat itself and no copy of it.
"""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from capsnet.ops.squash.exponential import exponential_squash
from capsnet.ops.trace import RoutingTrace

Share = Callable[[Tensor], Tensor]


def transform(u: Tensor, W: Tensor) -> Tensor:
    """Return the votes u_hat_ij = W_ij u_i: [N, I, D], [I, J, E, D] -> [N, I, J, E]."""
    return torch.einsum("ijed,nid->nije", W.to(u.dtype), u)


def over_parents(b: Tensor) -> Tensor:
    """Return c = softmax over the parents j of the logits b [..., I, J]."""
    return b.softmax(dim=-1)


def attend(u_hat: Tensor) -> Tensor:
    """Return b_ij = u_hat_ij . sum_k u_hat_kj / sqrt(E): [..., I, J, E] -> [..., I, J]."""
    total = u_hat.sum(dim=-3, keepdim=True, dtype=torch.promote_types(u_hat.dtype, torch.float32))
    return (u_hat * (total / sqrt(max(u_hat.shape[-1], 1)))).sum(dim=-1)


def gather(u_hat: Tensor, c: Tensor, bias: Tensor | None) -> Tensor:
    """Return s_j = sum_i (c_ij + bias_ij) u_hat_ij: [..., I, J, E] -> [..., J, E]."""
    weight = c if bias is None else c + bias.to(c.dtype)
    return (weight.unsqueeze(-1) * u_hat).sum(dim=-3)


def route_votes(u_hat: Tensor, bias: Tensor | None, share: Share) -> Tensor:
    """Return v [..., J, E] of the votes u_hat [..., I, J, E], in fp32 or wider."""
    return exponential_squash(gather(u_hat, share(attend(u_hat)), bias))


def trace_votes(u_hat: Tensor, bias: Tensor | None) -> RoutingTrace:
    """Return everything that `route_votes` computes of u_hat [N, I, J, E] on its way."""
    b = attend(u_hat)
    c = over_parents(b)
    s = gather(u_hat, c, bias)
    v = exponential_squash(s)
    a = torch.linalg.vector_norm(v, dim=-1)
    b, c, s, v, a = (x.unsqueeze(0) for x in (b, c, s, v, a))
    return RoutingTrace(u_hat, b, c, s, v, a, biased=bias is not None, routing="self-attention")
