"""Self-routing: each lower capsule chooses its parents alone, from its own pose, at once.

b = self_routing_logits(u, W, bias); v, a_upper = self_routing(u_hat, a, b)

There are no iterations and no agreement: a layer is a mixture of experts (docs/routings/).
"""

from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.recompute import full_precision, wide
from capsnet.ops.self_routing.reference import choose, route_self, trace_self, weigh
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import check_votes
from capsnet.ops.windows import Share, over_parents

__all__ = [
    "self_routing",
    "self_routing_activations",
    "self_routing_logits",
    "self_routing_trace",
]


def self_routing_logits(u: Tensor, W: Tensor, bias: Tensor) -> Tensor:
    """Return how much each lower capsule wants each parent: b_ij = W_ij . u_i + bias_ij.

    Args:
        u: lower capsules [N, P, I, D], as each of P places of parents sees them.
        W: [I, J, D], what each child looks for in itself.
        bias: [I, J].

    Returns:
        b [N, P, I, J], in fp32 where these have half precision.

    Example:
        >>> u = torch.rand(2, 1, 5, 8)
        >>> self_routing_logits(u, torch.rand(5, 3, 8), torch.zeros(5, 3)).shape
        torch.Size([2, 1, 5, 3])
    """
    if W.dim() != 3 or u.dim() != 4 or u.shape[2:] != (W.shape[0], W.shape[2]):
        raise UserError(
            f"u of shape {tuple(u.shape)} does not fit W of shape {tuple(W.shape)}; "
            "give u [N, P, I, D] and W [I, J, D]."
        )
    if bias.shape != W.shape[:2]:
        raise UserError(f"bias of shape {tuple(bias.shape)} must be {list(W.shape[:2])}.")
    with full_precision(u):
        return choose(wide(u), wide(W), wide(bias))


def self_routing(
    u_hat: Tensor, a: Tensor, b: Tensor, *, share: Share = over_parents
) -> tuple[Tensor, Tensor]:
    """Return the upper capsules: means of the votes, weighted by who chose them.

    c = share(b); v_j = sum_i a_i c_ij u_hat_ij / sum_i a_i c_ij; a_j = sum_i a_i c_ij / sum_i a_i

    Args:
        u_hat: votes [N, P, I, J, E] of the I children that each of P places of parents sees.
        a: activations of the children [N, P, I], in 0 … 1.
        b: how much each child wants each parent [N, P, I, J] (`self_routing_logits`).
        share: makes c [N, P, I, J] of b; by default the softmax over the parents j of a place.

    Returns:
        v [N, P, J, E] and a [N, P, J], in fp32 where these have half precision. Where no child is
        active, or none chooses a parent, both are 0.

    Example:
        >>> u_hat, a, b = torch.ones(2, 1, 5, 3, 4), torch.rand(2, 1, 5), torch.zeros(2, 1, 5, 3)
        >>> v, a_upper = self_routing(u_hat, a, b)
        >>> v.shape, a_upper[0, 0]
        (torch.Size([2, 1, 3, 4]), tensor([0.3333, 0.3333, 0.3333]))
    """
    _check(u_hat, a, b)
    with full_precision(u_hat):
        return route_self(wide(u_hat), wide(a), wide(b), share)


def self_routing_activations(a: Tensor, b: Tensor, *, share: Share = over_parents) -> Tensor:
    """Return the activations alone, of parents that have no pose, as the authors' classes.

    a_j = sum_i a_i c_ij / sum_i a_i with c = share(b); they sum to 1 over the parents of a place.

    Args:
        a: activations of the children [N, P, I], in 0 … 1.
        b: how much each child wants each parent [N, P, I, J] (`self_routing_logits`).
        share: makes c [N, P, I, J] of b; by default the softmax over the parents j of a place.

    Returns:
        a [N, P, J], in fp32 where these have half precision.

    Example:
        >>> self_routing_activations(torch.rand(1, 1, 5), torch.zeros(1, 1, 5, 4))
        tensor([[[0.2500, 0.2500, 0.2500, 0.2500]]])
    """
    _check_choice(a, b)
    with full_precision(a):
        return weigh(wide(a), share(wide(b)))[2]


def self_routing_trace(
    u_hat: Tensor, a: Tensor, b: Tensor, *, share: Share = over_parents
) -> RoutingTrace:
    """Return what `self_routing` computes on its way, as one iteration, to look inside.

    Args:
        u_hat: votes [N, P, I, J, E]; each place of parents counts as a sample of the trace.
        a: activations of the children [N, P, I].
        b: how much each child wants each parent [N, P, I, J].
        share: makes c [N, P, I, J] of b; by default the softmax over the parents j of a place.

    Returns:
        The votes [N * P, I, J, E], and b, c [1, N * P, I, J], s, v [1, N * P, J, E],
        a [1, N * P, J]; s is v.

    Example:
        >>> u_hat, a, b = torch.ones(2, 1, 5, 3, 4), torch.rand(2, 1, 5), torch.zeros(2, 1, 5, 3)
        >>> self_routing_trace(u_hat, a, b).c.shape
        torch.Size([1, 2, 5, 3])
    """
    _check(u_hat, a, b)
    with full_precision(u_hat):
        return trace_self(wide(u_hat), wide(a), wide(b), share)


def _check(u_hat: Tensor, a: Tensor, b: Tensor) -> None:
    check_votes(u_hat, a)
    _check_choice(a, b)
    if b.shape != u_hat.shape[:4]:
        raise UserError(
            f"Logits of shape {tuple(b.shape)} do not fit votes of {tuple(u_hat.shape)}; "
            f"give {list(u_hat.shape[:4])}."
        )


def _check_choice(a: Tensor, b: Tensor) -> None:
    if b.dim() != 4 or a.shape != b.shape[:3]:
        raise UserError(
            f"Activations of shape {tuple(a.shape)} do not fit logits of shape "
            f"{tuple(b.shape)}; give a [N, P, I] and b [N, P, I, J]."
        )
