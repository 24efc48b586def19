"""Dynamic routing of votes at many places at once, whose parents share children by any rule.

v, a = dynamic_routing_places(u_hat, num_iters=3, share=windows.share)
"""

import torch
from torch import Tensor

from capsnet.ops.recompute import full_precision, recomputed, wide
from capsnet.ops.squash import squash
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import check_votes, stacked_trace, undecided
from capsnet.ops.windows import Share, over_parents


def dynamic_routing_places(
    u_hat: Tensor, num_iters: int = 3, *, share: Share = over_parents
) -> tuple[Tensor, Tensor]:
    """Return the upper capsules and their lengths by routing-by-agreement.

    c = share(b), s_j = sum_i c_ij u_hat_ij, v_j = squash(s_j), b_ij += u_hat_ij . v_j: as
    `dynamic_routing_votes`, where the parents of a child may be at several places.

    Args:
        u_hat: votes [N, P, I, J, E] of the I children that each of P places sees.
        num_iters: iterations, at least 1.
        share: how the parents of a child share it, logits -> c; by default a softmax over j.

    Returns:
        v [N, P, J, E] and |v| [N, P, J], in fp32 where the votes have half precision.

    Example:
        >>> v, a = dynamic_routing_places(torch.randn(2, 4, 9, 10, 16))
        >>> v.shape, a.shape
        (torch.Size([2, 4, 10, 16]), torch.Size([2, 4, 10]))
    """
    check_votes(u_hat, None, num_iters)
    with full_precision(u_hat):
        A, v = None, None  # b is linear in the votes: A, the sum of v so far, is the whole state
        start = undecided(u_hat, share)
        for _ in range(num_iters):
            v = recomputed(_iterate, u_hat, A, start, share)
            A = v if A is None else A + v
        assert v is not None
        return v, torch.linalg.vector_norm(v, dim=-1)


def dynamic_routing_places_trace(
    u_hat: Tensor, num_iters: int = 3, *, share: Share = over_parents
) -> RoutingTrace:
    """Return what `dynamic_routing_places` computes on its way; each place is a sample."""
    check_votes(u_hat, None, num_iters)
    with full_precision(u_hat):
        votes, A, start, steps = wide(u_hat), None, undecided(u_hat, share), []
        for _ in range(num_iters):
            b, c, s = _shared_out(votes, A, start, share)
            v = squash(s)
            steps.append((b, c, s, v, torch.linalg.vector_norm(v, dim=-1)))
            A = v if A is None else A + v
    return stacked_trace(u_hat, steps)


def _iterate(u_hat: Tensor, A: Tensor | None, start: Tensor, share: Share) -> Tensor:
    return squash(_shared_out(wide(u_hat), A, start, share)[2])


def _shared_out(
    u_hat: Tensor, A: Tensor | None, start: Tensor, share: Share
) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits b, couplings c and sums s of one iteration."""
    if A is None:
        b, c = torch.zeros_like(start), start
    else:
        b = torch.einsum("npije,npje->npij", u_hat, A)
        c = share(b)
    return b, c, torch.einsum("npij,npije->npje", c.expand(u_hat.shape[:4]), u_hat)
