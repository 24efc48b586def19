"""3-D convolutional routing: types of lower capsules share themselves out over a map of parents.

v = routing_3d(u, W, num_iters=3, bias=bias)

reference.py is all there is; the votes are kept once, whatever the number of iterations.
"""

from typing import Literal

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.routing_3d.reference import convolve, route_votes, trace_votes
from capsnet.ops.trace import RoutingTrace

__all__ = ["routing_3d", "routing_3d_trace", "routing_3d_votes"]

SquashOver = Literal["capsule", "map"]


def routing_3d(
    u: Tensor,
    W: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    squash_over: SquashOver = "capsule",
) -> Tensor:
    """Return v, the map of upper capsules that the types of lower capsules u agree on.

    c_i = softmax_pj(b_i), s_pj = sum_i c_pij u_hat_pij + bias_j, v = squash(s),
    b_pij += u_hat_pij . v_pj, num_iters times from b = 0; p are the places, and the votes
    u_hat_pij = W_j * u_i are a convolution with the same kernels for all types i.

    Args:
        u: a map of lower capsules [N, H, W, I, D], I types of D numbers.
        W: kernels [J, E, D, K, K] with an odd side K; zeros lie around the map.
        num_iters: iterations, at least 1.
        bias: [J, E], added to s in every iteration.
        squash_over: what has a length below one: each "capsule", or the "map" of all capsules of a
            type together, as in the authors' code.

    Returns:
        v [N, H, W, J, E] in the wider dtype of u and W; sums and softmax are fp32 at least.

    Example:
        >>> u, W = torch.rand(2, 4, 4, 5, 8), 0.1 * torch.randn(6, 8, 8, 3, 3)
        >>> routing_3d(u, W).shape
        torch.Size([2, 4, 4, 6, 8])
    """
    _check(num_iters, squash_over)
    _check_shapes(u, W)
    _check_bias(bias, *W.shape[:2])
    v = route_votes(convolve(u, W), num_iters, bias, squash_over)
    return v.unflatten(1, u.shape[1:3]).to(torch.promote_types(u.dtype, W.dtype))


def routing_3d_votes(
    u_hat: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    squash_over: SquashOver = "capsule",
) -> Tensor:
    """Return `routing_3d` of votes that come from elsewhere than from such a convolution.

    Args:
        u_hat: votes [N, P, I, J, E] of every lower capsule i for every type j at every place p.
        num_iters: iterations, at least 1.
        bias: [J, E], added to s in every iteration.
        squash_over: what has a length below one, each "capsule" or the "map" of a type.

    Returns:
        v [N, P, J, E] in fp32, or in the dtype of u_hat where that is wider.

    Example:
        >>> routing_3d_votes(torch.randn(2, 16, 5, 6, 8)).shape
        torch.Size([2, 16, 6, 8])
    """
    _check(num_iters, squash_over)
    if u_hat.dim() != 5 or not u_hat.is_floating_point():
        raise UserError(
            f"u_hat of shape {tuple(u_hat.shape)} and type {u_hat.dtype} must be [N, P, I, J, E], "
            "of floating-point numbers."
        )
    _check_bias(bias, *u_hat.shape[3:])
    return route_votes(u_hat, num_iters, bias, squash_over)


def routing_3d_trace(
    u: Tensor,
    W: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    squash_over: SquashOver = "capsule",
) -> RoutingTrace:
    """Return what `routing_3d` computes on its way, to look inside.

    Args:
        u: a map of lower capsules [N, H, W, I, D].
        W: kernels [J, E, D, K, K] with an odd side K.
        num_iters: iterations R, at least 1.
        bias: [J, E], added to s in every iteration.
        squash_over: what has a length below one, each "capsule" or the "map" of a type.

    Returns:
        The trace between the I types and the H * W * J parents, by row, column and type.

    Example:
        >>> u, W = torch.rand(2, 4, 4, 5, 8), 0.1 * torch.randn(6, 8, 8, 3, 3)
        >>> routing_3d_trace(u, W).c.sum(dim=-1).allclose(torch.ones(3, 2, 5))
        True
    """
    _check(num_iters, squash_over)
    _check_shapes(u, W)
    _check_bias(bias, *W.shape[:2])
    trace = trace_votes(convolve(u, W), num_iters, bias, squash_over)
    dtype = torch.promote_types(u.dtype, W.dtype)
    return trace._replace(**{name: getattr(trace, name).to(dtype) for name in "bcsva"})


def _check(num_iters: int, squash_over: str) -> None:
    if num_iters < 1:
        raise UserError(f"num_iters must be at least 1, not {num_iters}.")
    if squash_over not in ("capsule", "map"):
        raise UserError(f"squash_over must be 'capsule' or 'map', not {squash_over!r}.")


def _check_shapes(u: Tensor, W: Tensor) -> None:
    if W.dim() != 5 or W.shape[3] != W.shape[4] or W.shape[3] % 2 == 0:
        raise UserError(f"W of shape {tuple(W.shape)} must be [J, E, D, K, K] with an odd K.")
    if not u.is_floating_point():
        raise UserError(f"u of type {u.dtype} cannot be routed; give floating-point numbers.")
    if u.dim() != 5 or u.shape[4] != W.shape[2]:
        raise UserError(
            f"u of shape {tuple(u.shape)} does not fit W of shape {tuple(W.shape)}; "
            f"u must be [N, H, W, I, {W.shape[2]}]."
        )


def _check_bias(bias: Tensor | None, J: int, E: int) -> None:
    if bias is not None and bias.shape != (J, E):
        raise UserError(f"bias of shape {tuple(bias.shape)} must be [{J}, {E}].")
