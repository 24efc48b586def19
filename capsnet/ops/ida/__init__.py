"""Inverted dot-product attention: parents compete for each child by how well its vote fits them.

v = ida_routing(u_hat, weight, bias, num_iters=2)      # one layer after the other
v = ida_step(u_hat, v, weight, bias)                   # all layers at once, sweep by sweep
"""

from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.ida.reference import route_ida, step_ida, trace_ida
from capsnet.ops.recompute import full_precision, wide
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import check_votes
from capsnet.ops.windows import Share, over_parents

__all__ = ["ida_routing", "ida_step", "ida_trace"]


def ida_routing(
    u_hat: Tensor,
    weight: Tensor,
    bias: Tensor,
    num_iters: int = 2,
    *,
    share: Share = over_parents,
) -> Tensor:
    """Return the upper capsules that the votes u_hat agree on; they have no activation.

    v_j = LayerNorm(sum_i c_ij u_hat_ij), from c = share(0), then from
    c = share(b), b_ij = u_hat_ij . v_j / sqrt(E), until num_iters are done.

    Args:
        u_hat: votes [N, P, I, J, E] of the I children that each of P places of parents sees.
        weight: of the layer norm [E].
        bias: of the layer norm [E].
        num_iters: iterations, at least 1; the first has equal shares.
        share: makes c [N, P, I, J] of b; by default the softmax over the parents j of a place.

    Returns:
        v [N, P, J, E], in fp32 where the votes have half precision.

    Example:
        >>> ida_routing(torch.randn(2, 1, 5, 3, 16), torch.ones(16), torch.zeros(16)).shape
        torch.Size([2, 1, 3, 16])
    """
    _check(u_hat, None, weight, bias, num_iters)
    with full_precision(u_hat):
        return route_ida(u_hat, weight, bias, num_iters, share)


def ida_step(
    u_hat: Tensor,
    v: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    *,
    share: Share = over_parents,
) -> Tensor:
    """Return v after one iteration of `ida_routing` from the v before it.

    Args:
        u_hat: votes [N, P, I, J, E].
        v: the upper capsules of the iteration before [N, P, J, E], or None for the first.
        weight: of the layer norm [E].
        bias: of the layer norm [E].
        share: makes c [N, P, I, J] of b; by default the softmax over the parents j of a place.

    Returns:
        v [N, P, J, E], in fp32 where the votes have half precision.

    Example:
        >>> ida_step(torch.randn(2, 1, 5, 3, 16), None, torch.ones(16), torch.zeros(16)).shape
        torch.Size([2, 1, 3, 16])
    """
    _check(u_hat, v, weight, bias)
    with full_precision(u_hat):
        return step_ida(u_hat, None if v is None else wide(v), weight, bias, share)


def ida_trace(
    u_hat: Tensor,
    weight: Tensor,
    bias: Tensor,
    num_iters: int = 2,
    *,
    v: Tensor | None = None,
    share: Share = over_parents,
) -> RoutingTrace:
    """Return what `ida_routing` computes on its way, to look inside.

    Args:
        u_hat: votes [N, P, I, J, E]; each place of parents counts as a sample of the trace.
        weight: of the layer norm [E].
        bias: of the layer norm [E].
        num_iters: iterations R, at least 1.
        v: the upper capsules that the first of them starts from [N, P, J, E]; None: equal shares.
        share: makes c [N, P, I, J] of b; by default the softmax over the parents j of a place.

    Returns:
        The votes [N * P, I, J, E], and b, c [R, N * P, I, J], s, v [R, N * P, J, E],
        a [R, N * P, J] of every iteration; a is 1, since these capsules are always there.

    Example:
        >>> ida_trace(torch.randn(2, 1, 5, 3, 16), torch.ones(16), torch.zeros(16)).c.shape
        torch.Size([2, 2, 5, 3])
    """
    _check(u_hat, v, weight, bias, num_iters)
    with full_precision(u_hat):
        v = None if v is None else wide(v)
        return trace_ida(u_hat, v, weight, bias, num_iters, share)


def _check(
    u_hat: Tensor, v: Tensor | None, weight: Tensor, bias: Tensor, num_iters: int = 1
) -> None:
    check_votes(u_hat, None, num_iters)
    N, P, _, J, E = u_hat.shape
    if weight.shape != (E,) or bias.shape != (E,):
        raise UserError(
            f"weight and bias of shapes {tuple(weight.shape)} and {tuple(bias.shape)} must be "
            f"[{E}], as the votes' last dimension."
        )
    if v is not None and v.shape != (N, P, J, E):
        raise UserError(
            f"v of shape {tuple(v.shape)} does not fit votes of shape {tuple(u_hat.shape)}; "
            f"give {[N, P, J, E]}."
        )
