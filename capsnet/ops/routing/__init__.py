"""Routing-by-agreement: one function, several exact implementations.

v = dynamic_routing(u, W, num_iters=3)

reference.py is Procedure 1 as the paper writes it. fused.py (GPU kernels) and chunked.py (plain
torch) compute the same function and gradient without ever forming the votes (README.md).
"""

from typing import Literal

from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.gpu import TRITON
from capsnet.ops.routing.chunked import route_chunked
from capsnet.ops.routing.reference import RoutingTrace, route_votes, trace_votes, transform

__all__ = ["RoutingTrace", "dynamic_routing", "dynamic_routing_votes", "routing_trace"]

Gradient = Literal["full", "last"]
Backend = Literal["auto", "reference", "fused"]


def dynamic_routing(
    u: Tensor,
    W: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    gradient: Gradient = "full",
    leaky: bool = False,
    backend: Backend = "auto",
) -> Tensor:
    """Return v [N, J, E] routed from u [N, I, D] through W [I, J, E, D] (Procedure 1).

    bias [J, E] is added to s in every iteration. gradient="last" cuts the gradient in all but
    the last iteration. leaky gives each lower capsule one more parent, which is dropped.
    backend "reference" stores the votes, "fused" never does; "auto" takes the fastest.
    """
    _check(num_iters, gradient)
    _check_shapes(u, W)
    _check_bias(bias, *W.shape[1:3])
    if backend not in ("auto", "reference", "fused"):
        raise UserError(f"backend must be 'auto', 'reference' or 'fused', not {backend!r}.")
    if backend != "reference" and _has_kernels(u, W):
        from capsnet.ops.routing.fused import route_fused

        return route_fused(u, W, num_iters, bias, gradient, leaky)
    if backend == "fused" or (backend == "auto" and not u.is_cuda):
        return route_chunked(u, W, num_iters, bias, gradient, leaky)
    return route_votes(transform(u, W), num_iters, bias, gradient, leaky)


def dynamic_routing_votes(
    u_hat: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    gradient: Gradient = "full",
    leaky: bool = False,
) -> Tensor:
    """Return v [N, J, E] routed from votes u_hat [N, I, J, E] that come from elsewhere."""
    _check(num_iters, gradient)
    if u_hat.dim() != 4:
        raise UserError(f"u_hat of shape {tuple(u_hat.shape)} must be [N, I, J, E].")
    _check_bias(bias, *u_hat.shape[2:])
    return route_votes(u_hat, num_iters, bias, gradient, leaky)


def routing_trace(
    u: Tensor,
    W: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    leaky: bool = False,
) -> RoutingTrace:
    """Return u_hat and b, c, s, v of every iteration of `dynamic_routing`, to look inside."""
    _check(num_iters, "full")
    _check_shapes(u, W)
    _check_bias(bias, *W.shape[1:3])
    return trace_votes(transform(u, W), num_iters, bias, leaky)


def _has_kernels(u: Tensor, W: Tensor) -> bool:
    """Return whether the GPU kernels can route these; Triton is imported only to find out."""
    if not (u.is_cuda and TRITON):
        return False
    from capsnet.ops.routing.fused import fused_available

    return fused_available(u, W)


def _check(num_iters: int, gradient: str) -> None:
    if num_iters < 1:
        raise UserError(f"num_iters must be at least 1, not {num_iters}.")
    if gradient not in ("full", "last"):
        raise UserError(f"gradient must be 'full' or 'last', not {gradient!r}.")


def _check_shapes(u: Tensor, W: Tensor) -> None:
    if W.dim() != 4:
        raise UserError(f"W of shape {tuple(W.shape)} must be [I, J, E, D].")
    I, D = W.shape[0], W.shape[3]
    if u.dim() != 3 or u.shape[1:] != (I, D):
        raise UserError(
            f"u of shape {tuple(u.shape)} does not fit W of shape {tuple(W.shape)}; "
            f"u must be [N, {I}, {D}]."
        )


def _check_bias(bias: Tensor | None, J: int, E: int) -> None:
    if bias is not None and bias.shape != (J, E):
        raise UserError(f"bias of shape {tuple(bias.shape)} must be [{J}, {E}].")
