"""EM routing (Hinton, Sabour, Frosst 2018, Procedure 1), with the votes stored.

Each upper capsule is a Gaussian with a diagonal covariance; each lower one is a point for each.

v, a = route_reference(u_hat, a, beta_u, beta_a, 3, 1.0, over_parents)
"""

from math import log, pi
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.recompute import recomputed, wide
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.votes import stacked_trace, undecided
from capsnet.ops.windows import Share

LEAST_VARIANCE = 5e-4  # keeps a parent with one child from shrinking to a point
LEAST_SUM = 1e-6  # of the parts that a parent gets: one that gets nothing has the pose zero
LARGEST_VOTE = 1e6  # its square, divided by all that is least, is still a number


class State(NamedTuple):
    """The upper capsules after an M-step; the whole state of the routing."""

    mu: Tensor  # [N, P, J, E], the poses
    log_variance: Tensor  # [N, P, J, E]
    log_a: Tensor  # [N, P, J], the logarithm of the activations


def inverse_temperature(t: int, lam: float) -> float:
    """Return lambda in iteration t = 0, 1, …: lam (1 - 0.95^(t + 1))."""
    return float(lam * (1 - 0.95 ** (t + 1)))


def e_step(u_hat: Tensor, state: State) -> Tensor:
    """Return the logits log a_j + log p_ij [N, P, I, J] of votes u_hat [N, P, I, J, E].

    log p_ij = -1/2 sum_h [(V^h - mu^h)^2 / sigma^2^h + log(2 pi sigma^2^h)]
    """
    mu, log_variance, log_a = state
    squares = (u_hat - mu.unsqueeze(2)).square()
    distance = torch.einsum("npije,npje->npij", squares, (-log_variance).exp())
    own = log_a - 0.5 * (log_variance + log(2 * pi)).sum(dim=-1)
    return own.unsqueeze(2) - 0.5 * distance


def m_step(
    u_hat: Tensor, a: Tensor, c: Tensor, even: Tensor, beta_u: Tensor, beta_a: Tensor, lam: float
) -> State:
    """Return the Gaussians that fit votes u_hat [N, P, I, J, E], each counted c_ij a_i.

    rho_ij = c_ij a_i; mu_j = sum_i rho V / sum_i rho; sigma^2_j = sum_i rho (V - mu)^2 / sum_i rho
    cost_j = sum_h (beta_u + log sigma^h) R_j;  a_j = sigmoid(lam (beta_a - cost_j))

    R_j is sum_i rho in units of `even` [1, P, J], what j gets of children all there and undecided.
    """
    rho = c * a.unsqueeze(-1)
    total = rho.sum(dim=2)
    weights = rho / (total.unsqueeze(2) + LEAST_SUM)
    mu = torch.einsum("npij,npije->npje", weights, u_hat)
    variance = torch.einsum("npij,npije->npje", weights, (u_hat - mu.unsqueeze(2)).square())
    log_variance = (variance + LEAST_VARIANCE).log()
    cost = (beta_u.unsqueeze(-1) + 0.5 * log_variance).sum(dim=-1) * (total / (even + LEAST_SUM))
    return State(mu, log_variance, F.logsigmoid(lam * (beta_a - cost)))


def iterate(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    before: State | None,
    start: Tensor,
    share: Share,
    lam: float,
) -> State:
    """Return the state after one iteration: an E-step, but in the first one, and an M-step."""
    u_hat, a, _, c = shared_out(u_hat, a, before, start, share)
    return m_step(u_hat, a, c, start.sum(dim=2), beta_u, beta_a, lam)


def shared_out(
    u_hat: Tensor, a: Tensor, before: State | None, start: Tensor, share: Share
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return votes and activations in full precision, logits and couplings."""
    u_hat, a = F.hardtanh(wide(u_hat), -LARGEST_VOTE, LARGEST_VOTE), wide(a)
    if before is None:
        return u_hat, a, torch.zeros_like(start), start
    logits = e_step(u_hat, before)
    return u_hat, a, logits, share(logits)


def route_reference(
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
        lam_t = inverse_temperature(t, lam)
        state = recomputed(iterate, u_hat, a, beta_u, beta_a, state, start, share, lam_t)
    assert state is not None
    return state.mu, state.log_a.exp()


def trace_reference(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int,
    lam: float,
    share: Share,
) -> RoutingTrace:
    """Return everything that `route_reference` computes on its way; places count as samples."""
    state, start, steps = None, undecided(u_hat, share), []
    for t in range(num_iters):
        votes, a_lower, b, c = shared_out(u_hat, a, state, start, share)
        lam_t = inverse_temperature(t, lam)
        state = m_step(votes, a_lower, c, start.sum(dim=2), beta_u, beta_a, lam_t)
        steps.append((b, c, state.mu, state.mu, state.log_a.exp()))
    return stacked_trace(u_hat, steps)
