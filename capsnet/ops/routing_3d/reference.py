"""Routing between maps of capsules by 3-D convolution (DeepCaps: Rajasegaran et al. 2019).

u_hat = convolve(u, W); v = route_votes(u_hat, 3, bias, "capsule")

A 3-D kernel as deep as a capsule, moved by whole capsules, is one 2-D kernel for all types of
lower capsules. Each type i then votes once for each type j at each place p, and shares itself out
among all of them. Products are written out, so that autograd keeps u_hat itself and no copy of it.
"""

import torch
from torch import Tensor

from capsnet.ops.conv import conv2d
from capsnet.ops.squash import squash
from capsnet.ops.trace import RoutingTrace


def convolve(u: Tensor, W: Tensor) -> Tensor:
    """Return the votes of every type i at every place p, zeros around the map.

    u_hat_pije = sum_dkl W_jedkl u_(p + kl)id: [N, H, W, I, D], [J, E, D, K, K] -> [N, P, I, J, E]
    """
    N, H, wide, I, D = u.shape
    J, E, _, K, _ = W.shape
    x = u.permute(0, 3, 4, 1, 2).reshape(N * I, D, H, wide)
    y = conv2d(x, W.flatten(0, 1).to(x.dtype), padding=K // 2)
    return y.reshape(N, I, J, E, H * wide).permute(0, 4, 1, 2, 3)


def over_places_and_parents(b: Tensor) -> Tensor:
    """Return c = softmax over all (p, j) of the logits b [N, P, I, J]: softmax_3D of the paper."""
    P, J = b.shape[1], b.shape[3]
    return b.transpose(1, 2).flatten(2).softmax(dim=-1).unflatten(2, (P, J)).transpose(1, 2)


def squash_map(s: Tensor, over: str) -> Tensor:
    """Return s [N, P, J, E], each vector squashed, or all places of a type as one long vector."""
    if over == "capsule":
        return squash(s)
    long = squash(s.transpose(1, 2).flatten(2))
    return long.unflatten(2, (s.shape[1], s.shape[3])).transpose(1, 2)


def iterate(
    u_hat: Tensor, b: Tensor, bias: Tensor | None, over: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return one iteration: c = softmax_pj(b), s_pj = sum_i c_pij u_hat_pij + bias_j, v."""
    c = over_places_and_parents(b)
    s = (c.unsqueeze(-1) * u_hat).sum(dim=2)
    if bias is not None:
        s = s + bias.to(s.dtype)
    return c, s, squash_map(s, over)


def agree(u_hat: Tensor, A: Tensor) -> Tensor:
    """Return b_pij = u_hat_pij . A_pj, where A [N, P, J, E] is the sum of all v before."""
    return (u_hat * A.unsqueeze(2)).sum(dim=-1)


def route_votes(u_hat: Tensor, num_iters: int, bias: Tensor | None, over: str) -> Tensor:
    """Return v [N, P, J, E] of the votes u_hat [N, P, I, J, E], in fp32 or wider."""
    b = _zeros(u_hat)
    A: Tensor | None = None
    for _ in range(num_iters - 1):
        _, _, v = iterate(u_hat, b, bias, over)
        A = v if A is None else A + v
        b = agree(u_hat, A)
    return iterate(u_hat, b, bias, over)[2]


def trace_votes(u_hat: Tensor, num_iters: int, bias: Tensor | None, over: str) -> RoutingTrace:
    """Return everything that `route_votes` computes; parents are numbered by place, then type."""
    b = _zeros(u_hat)
    A: Tensor | None = None
    steps = []
    for _ in range(num_iters):
        c, s, v = iterate(u_hat, b, bias, over)
        steps.append((b.transpose(1, 2).flatten(2), c.transpose(1, 2).flatten(2), s, v))
        A = v if A is None else A + v
        b = agree(u_hat, A)
    b, c, s, v = (torch.stack(x) for x in zip(*steps, strict=True))
    s, v = s.flatten(2, 3), v.flatten(2, 3)
    a = torch.linalg.vector_norm(v, dim=-1)
    votes = u_hat.transpose(1, 2).flatten(2, 3)
    return RoutingTrace(votes, b, c, s, v, a, biased=bias is not None, routing="3-D routing")


def _zeros(u_hat: Tensor) -> Tensor:
    """Return the first logits [N, P, I, J]."""
    dtype = torch.promote_types(u_hat.dtype, torch.float32)
    return torch.zeros(u_hat.shape[:-1], dtype=dtype, device=u_hat.device)
