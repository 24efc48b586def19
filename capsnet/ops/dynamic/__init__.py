"""Routing-by-agreement: one function, several exact implementations.

v = dynamic_routing(u, W, num_iters=3)

reference.py is Procedure 1 as the paper writes it. fused.py (GPU kernels) and chunked.py (plain
torch) compute the same function and gradient without ever forming the votes (README.md).
"""

from typing import Literal, get_args

from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.dynamic.chunked import route_chunked
from capsnet.ops.dynamic.reference import (
    route_reference,
    route_votes,
    trace_votes,
    transform,
)
from capsnet.ops.gpu import INTERPRETED, TRITON
from capsnet.ops.plain import needs_plain
from capsnet.ops.squash import HALF, widened
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import check_capsules

__all__ = ["dynamic_routing", "dynamic_routing_votes", "routing_trace"]

Gradient = Literal["full", "last"]
Backend = Literal["auto", "reference", "chunked", "fused"]


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
    """Return v, the upper capsules that the lower ones u agree on (Procedure 1).

    c_i = softmax_j(b_i), s_j = sum_i c_ij u_hat_ij, v_j = squash(s_j), b_ij += u_hat_ij . v_j,
    num_iters times from b = 0, with the votes u_hat_ij = W_ij u_i.

    Args:
        u: lower capsules [N, I, D].
        W: transformations [I, J, E, D], of any dtype.
        num_iters: iterations, at least 1.
        bias: [J, E], added to s in every iteration.
        gradient: "full", or "last" to cut the gradient in all but the last iteration.
        leaky: give each lower capsule one more parent, which is dropped.
        backend: what runs. "reference" stores the votes; "chunked" never does, in plain torch;
            "fused" neither, in Triton kernels on a GPU, and is refused where they cannot run.
            "auto" takes the fastest that can: "fused", else "chunked" on a CPU and "reference" on
            a GPU; "reference" also wherever torch looks at the operations themselves: torch.func,
            torch.export, torch.jit.trace.

    Returns:
        v [N, J, E] in the dtype of u; under autocast "reference" and "fused" give autocast's.

    Example:
        >>> u, W = torch.rand(32, 1152, 8), 0.1 * torch.randn(1152, 10, 16, 8)
        >>> dynamic_routing(u, W, num_iters=3).shape
        torch.Size([32, 10, 16])
    """
    _check(num_iters, gradient)
    check_capsules(u, W)
    _check_bias(bias, *W.shape[1:3])
    runs = _choose(backend, u, W)
    if runs == "fused":
        from capsnet.ops.dynamic.fused import route_fused

        return route_fused(u, W, num_iters, bias, gradient, leaky)
    route = route_chunked if runs == "chunked" else route_reference
    return route(u, W, num_iters, bias, gradient, leaky)


def dynamic_routing_votes(
    u_hat: Tensor,
    num_iters: int = 3,
    *,
    bias: Tensor | None = None,
    gradient: Gradient = "full",
    leaky: bool = False,
) -> Tensor:
    """Return `dynamic_routing` of votes that come from elsewhere than from a W.

    Args:
        u_hat: votes [N, I, J, E] of every lower capsule i for every upper capsule j.
        num_iters: iterations, at least 1.
        bias: [J, E], added to s in every iteration.
        gradient: "full", or "last" to cut the gradient in all but the last iteration.
        leaky: give each lower capsule one more parent, which is dropped.

    Returns:
        v [N, J, E] in the dtype of u_hat.

    Example:
        >>> dynamic_routing_votes(torch.randn(32, 1152, 10, 16)).shape
        torch.Size([32, 10, 16])
    """
    _check(num_iters, gradient)
    if u_hat.dim() != 4:
        raise UserError(f"u_hat of shape {tuple(u_hat.shape)} must be [N, I, J, E].")
    if not u_hat.is_floating_point():
        raise UserError(f"u_hat of type {u_hat.dtype} cannot be routed; give floating-point votes.")
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
    """Return what `dynamic_routing` computes on its way, to look inside.

    Args:
        u: lower capsules [N, I, D].
        W: transformations [I, J, E, D], of any dtype.
        num_iters: iterations R, at least 1.
        bias: [J, E], added to s in every iteration.
        leaky: give each lower capsule one more parent, which is dropped.

    Returns:
        The votes u_hat [N, I, J, E], and b, c [R, N, I, J], s, v [R, N, J, E], a [R, N, J] of every
        iteration, in the dtype of u; b is what an iteration started from.

    Example:
        >>> trace = routing_trace(torch.rand(2, 5, 8), torch.rand(5, 3, 16, 8), num_iters=3)
        >>> trace.c[-1].sum(dim=-1).allclose(torch.ones(2, 5))  # every i is shared out among the j
        True
    """
    _check(num_iters, "full")
    check_capsules(u, W)
    _check_bias(bias, *W.shape[1:3])
    dtype = u.dtype if u.dtype in HALF else None
    return trace_votes(transform(widened(u), W), num_iters, bias, leaky, dtype)


def why_not_fused(u: Tensor, W: Tensor) -> str | None:
    """Return why the GPU kernels cannot route these, or None; Triton is imported to find out."""
    if not (u.is_cuda or INTERPRETED):
        return f"runs on a GPU, and u is on {u.device}"
    if not TRITON:
        return "needs Triton and torch 2.8 or newer"
    from capsnet.ops.dynamic import fused

    return fused.why_not_fused(u, W)


def _choose(backend: Backend, u: Tensor, W: Tensor) -> Literal["reference", "chunked", "fused"]:
    """Return which implementation runs."""
    if backend not in get_args(Backend):
        raise UserError(
            f"backend must be 'auto', 'reference', 'chunked' or 'fused', not {backend!r}."
        )
    plain = needs_plain()
    if plain and backend in ("chunked", "fused"):
        raise UserError(
            f"backend='{backend}' cannot be transformed, traced or exported; "
            "use 'auto' or 'reference' there."
        )
    if backend == "fused" and (why := why_not_fused(u, W)):
        raise UserError(f"backend='fused' {why}; use 'auto' or 'chunked'.")
    if plain or backend == "reference" or 0 in (*u.shape, *W.shape):
        return "reference"
    if backend != "auto":
        return backend
    if not u.is_cuda:
        return "chunked"
    return "reference" if why_not_fused(u, W) else "fused"


def _check(num_iters: int, gradient: str) -> None:
    if num_iters < 1:
        raise UserError(f"num_iters must be at least 1, not {num_iters}.")
    if gradient not in ("full", "last"):
        raise UserError(f"gradient must be 'full' or 'last', not {gradient!r}.")


def _check_bias(bias: Tensor | None, J: int, E: int) -> None:
    if bias is not None and bias.shape != (J, E):
        raise UserError(f"bias of shape {tuple(bias.shape)} must be [{J}, {E}].")
