"""EM routing (Hinton, Sabour, Frosst 2018, Procedure 1), with the votes stored.

Each upper capsule is a Gaussian with a diagonal covariance; each lower one is a point for each.

v, a = route(u_hat, a, beta_u, beta_a, 3, 1.0, over_parents)
"""

from math import log, pi
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.gaussians import Beliefs, Moments, fit
from capsnet.ops.gaussians.reference import LEAST_SUM, logits_of, moments_of, votes_of
from capsnet.ops.recompute import wide
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import stacked_trace, undecided
from capsnet.ops.windows import Share

LEAST_VARIANCE = 5e-4  # keeps a parent with one child from shrinking to a point


class State(NamedTuple):
    """The upper capsules after an M-step; the whole state of the routing."""

    mu: Tensor  # [N, P, J, E], the poses
    log_variance: Tensor  # [N, P, J, E]
    log_a: Tensor  # [N, P, J], the logarithm of the activations


def inverse_temperature(t: int, lam: float) -> float:
    """Return lambda in iteration t = 0, 1, …: lam (1 - 0.95^(t + 1))."""
    return float(lam * (1 - 0.95 ** (t + 1)))


def beliefs_of(state: State) -> Beliefs:
    """Return what the E-step asks of the parents: logits_ij = log a_j + log p_ij.

    log p_ij = -1/2 sum_h [(V^h - mu^h)^2 / sigma^2^h + log(2 pi sigma^2^h)]
    """
    own = state.log_a - 0.5 * (state.log_variance + log(2 * pi)).sum(dim=-1)
    return Beliefs(state.mu, (-state.log_variance).exp(), own)


def m_step(moments: Moments, even: Tensor, beta_u: Tensor, beta_a: Tensor, lam: float) -> State:
    """Return the Gaussians that fit the votes, each counted rho_ij = c_ij a_i.

    mu_j = sum_i rho V / sum_i rho; sigma^2_j = sum_i rho (V - mu)^2 / sum_i rho
    cost_j = sum_h (beta_u + log sigma^h) R_j;  a_j = sigmoid(lam (beta_a - cost_j))

    R_j is sum_i rho in units of `even` [1, P, J], what j gets of children all there and undecided.
    """
    variance = moments.scatter / (moments.total + LEAST_SUM).unsqueeze(-1)
    log_variance = (variance + LEAST_VARIANCE).log()
    R = moments.total / (even + LEAST_SUM)
    cost = (beta_u.unsqueeze(-1) + 0.5 * log_variance).sum(dim=-1) * R
    return State(moments.mean, log_variance, F.logsigmoid(lam * (beta_a - cost)))


def route(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int,
    lam: float,
    share: Share,
) -> tuple[Tensor, Tensor]:
    """Return the poses [N, P, J, E] and activations [N, P, J] of the last M-step."""
    state, start = None, undecided(u_hat, share)
    for t in range(num_iters):
        beliefs = None if state is None else beliefs_of(state)
        moments = fit(u_hat, a, beliefs, start, share)
        state = m_step(moments, start.sum(dim=2), beta_u, beta_a, inverse_temperature(t, lam))
    assert state is not None
    return state.mu, state.log_a.exp()


def trace(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int,
    lam: float,
    share: Share,
) -> RoutingTrace:
    """Return everything that `route` computes on its way; places count as samples."""
    votes, start, steps = votes_of(u_hat), undecided(u_hat, share), []
    b, c = start * 0, start
    for t in range(num_iters):
        moments = moments_of(votes, c * wide(a).unsqueeze(-1))
        state = m_step(moments, start.sum(dim=2), beta_u, beta_a, inverse_temperature(t, lam))
        steps.append((b, c, state.mu, state.mu, state.log_a.exp()))
        b = logits_of(votes, beliefs_of(state))
        c = share(b)
    return stacked_trace(u_hat, steps, "EM routing")
