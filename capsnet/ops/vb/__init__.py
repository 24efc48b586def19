"""Variational-Bayes routing: upper capsules are posteriors of a mixture of Gaussians.

v, a = vb_routing(u_hat, a, beta_u, beta_a, num_iters=3)

reference.py is the procedure; docs/routings/vb.md says what we chose where there was a choice.
"""

import torch
from torch import Tensor

from capsnet.ops.em import check_betas
from capsnet.ops.recompute import full_precision
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.vb.reference import Finish, route, trace
from capsnet.ops.votes import check_votes
from capsnet.ops.windows import Share, over_parents

__all__ = ["vb_routing", "vb_routing_trace"]


def plain_finish(m: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means as they are, and the sigmoid of the logits."""
    return m, torch.sigmoid(logits)


def vb_routing(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int = 3,
    *,
    share: Share = over_parents,
    finish: Finish = plain_finish,
) -> tuple[Tensor, Tensor]:
    """Return the upper capsules that best explain the votes, priors included.

    c = share(E ln pi_j + E ln N(u_hat_ij; mu_j, Lambda_j)); the posteriors of pi, mu and Lambda
    from the votes, each counted c_ij a_i; a_j = sigmoid(beta_a - (e^(E ln pi_j) H_j + beta_u)).

    Args:
        u_hat: votes [N, P, I, J, E] of the I children that each of P places sees.
        a: activations of the children [N, P, I], in 0 … 1.
        beta_u: what it costs to describe a parent, [J].
        beta_a: what a parent may cost before it is rather off than on, [J].
        num_iters: iterations, at least 1.
        share: how the parents of a child share it, logits -> c; by default a softmax over j.
        finish: means and logits of activations -> poses and activations, such as norms of both;
            by default the means themselves and a sigmoid.

    Returns:
        Poses [N, P, J, E] and activations [N, P, J], in fp32 where the votes have half precision.

    Example:
        >>> votes, a = torch.randn(2, 1, 50, 10, 16), torch.rand(2, 1, 50)
        >>> v, a = vb_routing(votes, a, torch.zeros(10), torch.zeros(10))
        >>> v.shape, a.shape
        (torch.Size([2, 1, 10, 16]), torch.Size([2, 1, 10]))
    """
    check_votes(u_hat, a, num_iters)
    check_betas(u_hat, beta_u, beta_a)
    with full_precision(u_hat):
        return route(u_hat, a, beta_u, beta_a, num_iters, share, finish)


def vb_routing_trace(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int = 3,
    *,
    share: Share = over_parents,
    finish: Finish = plain_finish,
) -> RoutingTrace:
    """Return what `vb_routing` computes on its way, to look inside; each place is a sample.

    Args:
        u_hat: votes [N, P, I, J, E].
        a: activations of the children [N, P, I].
        beta_u: [J].
        beta_a: [J].
        num_iters: iterations, at least 1.
        share: how the parents of a child share it.
        finish: means and logits of activations -> poses and activations.

    Returns:
        A `RoutingTrace` of N * P samples; b are the logits and s the means.

    Example:
        >>> votes, a = torch.randn(2, 1, 50, 10, 16), torch.rand(2, 1, 50)
        >>> vb_routing_trace(votes, a, torch.zeros(10), torch.zeros(10)).c.shape
        torch.Size([3, 2, 50, 10])
    """
    check_votes(u_hat, a, num_iters)
    check_betas(u_hat, beta_u, beta_a)
    with full_precision(u_hat):
        return trace(u_hat, a, beta_u, beta_a, num_iters, share, finish)
