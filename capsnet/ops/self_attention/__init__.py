"""Self-attention routing: votes that agree with all others count more, in one pass.

v = self_attention_routing(u, W, bias=bias)

reference.py is all there is: nothing is repeated, and the votes are kept once.
"""

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.self_attention.reference import (
    Share,
    over_parents,
    route_votes,
    trace_votes,
    transform,
)
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import check_capsules

__all__ = [
    "over_parents",
    "self_attention_routing",
    "self_attention_routing_votes",
    "self_attention_trace",
]


def self_attention_routing(u: Tensor, W: Tensor, *, bias: Tensor | None = None) -> Tensor:
    """Return v, the upper capsules that the lower ones u agree on, in one pass.

    b_ij = u_hat_ij . sum_k u_hat_kj / sqrt(E), c_i = softmax_j(b_i),
    v_j = exponential_squash(sum_i (c_ij + bias_ij) u_hat_ij), with the votes u_hat_ij = W_ij u_i.

    Args:
        u: lower capsules [N, I, D].
        W: transformations [I, J, E, D], of any dtype.
        bias: [I, J], added to the couplings after the softmax.

    Returns:
        v [N, J, E] in the wider dtype of u and W; sums and softmax are fp32 at least.

    Example:
        >>> u, W = torch.rand(32, 16, 8), 0.04 * torch.randn(16, 10, 16, 8)
        >>> self_attention_routing(u, W).shape
        torch.Size([32, 10, 16])
    """
    check_capsules(u, W)
    _check_bias(bias, *W.shape[:2])
    v = route_votes(transform(u, W), bias, over_parents)
    return v.to(torch.promote_types(u.dtype, W.dtype))


def self_attention_routing_votes(
    u_hat: Tensor, *, bias: Tensor | None = None, share: Share = over_parents
) -> Tensor:
    """Return `self_attention_routing` of votes that come from elsewhere than from a W.

    Args:
        u_hat: votes [..., I, J, E] of every lower capsule i for every upper capsule j.
        bias: [I, J], added to the couplings after the softmax.
        share: logits [..., I, J] -> couplings; by default the softmax over j.

    Returns:
        v [..., J, E] in fp32, or in the dtype of u_hat where that is wider.

    Example:
        >>> self_attention_routing_votes(torch.randn(32, 16, 10, 16)).shape
        torch.Size([32, 10, 16])
    """
    if u_hat.dim() < 3 or not u_hat.is_floating_point():
        raise UserError(
            f"u_hat of shape {tuple(u_hat.shape)} and type {u_hat.dtype} must be [..., I, J, E], "
            "of floating-point numbers."
        )
    _check_bias(bias, *u_hat.shape[-3:-1])
    return route_votes(u_hat, bias, share)


def self_attention_trace(u: Tensor, W: Tensor, *, bias: Tensor | None = None) -> RoutingTrace:
    """Return what `self_attention_routing` computes on its way, to look inside.

    Args:
        u: lower capsules [N, I, D].
        W: transformations [I, J, E, D], of any dtype.
        bias: [I, J], added to the couplings after the softmax.

    Returns:
        The trace of the one pass. c is the softmax alone; what the bias adds to it is in s.

    Example:
        >>> trace = self_attention_trace(torch.rand(2, 5, 8), torch.rand(5, 3, 16, 8))
        >>> trace.c.shape, trace.c[0].sum(dim=-1).allclose(torch.ones(2, 5))
        (torch.Size([1, 2, 5, 3]), True)
    """
    check_capsules(u, W)
    _check_bias(bias, *W.shape[:2])
    trace = trace_votes(transform(u, W), bias)
    dtype = torch.promote_types(u.dtype, W.dtype)
    return trace._replace(**{name: getattr(trace, name).to(dtype) for name in "bcsva"})


def _check_bias(bias: Tensor | None, I: int, J: int) -> None:
    if bias is not None and bias.shape != (I, J):
        raise UserError(f"bias of shape {tuple(bias.shape)} must be [{I}, {J}].")
