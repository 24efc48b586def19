"""EM routing: upper capsules are Gaussians that explain the votes of the lower ones.

v, a = em_routing(u_hat, a, beta_u, beta_a, num_iters=3)

reference.py is the procedure as the paper writes it; docs/routings/em.md says what we chose where
the paper leaves a choice.
"""

from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.em.reference import route, trace
from capsnet.ops.recompute import full_precision
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import check_votes
from capsnet.ops.windows import Share, over_parents

__all__ = ["em_routing", "em_routing_trace"]


def em_routing(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int = 3,
    *,
    lam: float = 1.0,
    share: Share = over_parents,
) -> tuple[Tensor, Tensor]:
    """Return the upper capsules that the votes of the lower ones cluster to.

    c = share(log a_j + log N(u_hat_ij; mu_j, sigma_j)); mu_j, sigma_j: mean and spread of votes,
    each counted c_ij a_i; a_j = sigmoid(lam_t (beta_a - sum_h (beta_u + log sigma^h) R_j)), with
    lam_t = lam (1 - 0.95^(t + 1)) and R_j = sum_i c_ij a_i over what j gets if all is even.

    Args:
        u_hat: votes [N, P, I, J, E] of the I children that each of P places sees.
        a: activations of the children [N, P, I], in 0 … 1.
        beta_u: what it costs to describe a child, [J].
        beta_a: what a parent may cost before it is rather off than on, [J].
        num_iters: iterations, at least 1.
        lam: the inverse temperature that is reached after many iterations.
        share: how the parents of a child share it, logits -> c; by default a softmax over j.

    Returns:
        Poses [N, P, J, E] and activations [N, P, J], in fp32 where the votes have half precision.

    Example:
        >>> votes, a = torch.randn(2, 1, 50, 10, 16), torch.rand(2, 1, 50)
        >>> v, a = em_routing(votes, a, torch.zeros(10), torch.zeros(10))
        >>> v.shape, a.shape
        (torch.Size([2, 1, 10, 16]), torch.Size([2, 1, 10]))
    """
    check_votes(u_hat, a, num_iters)
    check_betas(u_hat, beta_u, beta_a)
    with full_precision(u_hat):
        return route(u_hat, a, beta_u, beta_a, num_iters, lam, share)


def em_routing_trace(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int = 3,
    *,
    lam: float = 1.0,
    share: Share = over_parents,
) -> RoutingTrace:
    """Return what `em_routing` computes on its way, to look inside; each place is a sample.

    Args:
        u_hat: votes [N, P, I, J, E].
        a: activations of the children [N, P, I].
        beta_u: [J].
        beta_a: [J].
        num_iters: iterations, at least 1.
        lam: the inverse temperature.
        share: how the parents of a child share it.

    Returns:
        A `RoutingTrace` of N * P samples; b are the logits and s = v the means.

    Example:
        >>> votes, a = torch.randn(2, 1, 50, 10, 16), torch.rand(2, 1, 50)
        >>> em_routing_trace(votes, a, torch.zeros(10), torch.zeros(10)).c.shape
        torch.Size([3, 2, 50, 10])
    """
    check_votes(u_hat, a, num_iters)
    check_betas(u_hat, beta_u, beta_a)
    with full_precision(u_hat):
        return trace(u_hat, a, beta_u, beta_a, num_iters, lam, share)


def check_betas(u_hat: Tensor, beta_u: Tensor, beta_a: Tensor) -> None:
    """Raise a UserError unless there is one of each for every type of parent."""
    J = u_hat.shape[3]
    for name, beta in (("beta_u", beta_u), ("beta_a", beta_a)):
        if beta.shape != (J,):
            raise UserError(f"{name} of shape {tuple(beta.shape)} must be [{J}].")
