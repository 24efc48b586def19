"""EM routing (Hinton, Sabour, Frosst 2018, Procedure 1), with the votes stored.

Each upper capsule is a Gaussian with a diagonal covariance; each lower one is a point for each.

state = first_state(u_hat, a, beta_u, beta_a, share, lam); v, log_a = state.mu, state.log_a
"""

from math import log, pi
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.recompute import recomputed, wide
from capsnet.ops.trace import RoutingTrace
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

    R_j is sum_i rho, in units of what j would get `even`ly, [P, J]: of all children, none decided.
    """
    rho = c * a.unsqueeze(-1)
    total = rho.sum(dim=2)
    weights = rho / (total.unsqueeze(2) + LEAST_SUM)
    mu = torch.einsum("npij,npije->npje", weights, u_hat)
    variance = torch.einsum("npij,npije->npje", weights, (u_hat - mu.unsqueeze(2)).square())
    log_variance = (variance + LEAST_VARIANCE).log()
    cost = (beta_u.unsqueeze(-1) + 0.5 * log_variance).sum(dim=-1) * (total / even)
    return State(mu, log_variance, F.logsigmoid(lam * (beta_a - cost)))


def even_parts(u_hat: Tensor, share: Share) -> Tensor:
    """Return what each parent gets if no child has decided and all are there, [1, P, J]."""
    logits = u_hat.new_zeros(1, *u_hat.shape[1:4], dtype=torch.float32).to(wide(u_hat[:0]).dtype)
    return share(logits).sum(dim=2)


def iterate(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    before: State | None,
    share: Share,
    lam: float,
) -> State:
    """Return the state after one iteration: an E-step, but in the first one, and an M-step."""
    return m_step(*_shared_out(u_hat, a, before, share)[:4], beta_u, beta_a, lam)


def _shared_out(
    u_hat: Tensor, a: Tensor, before: State | None, share: Share
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return votes and activations in full precision, couplings, even parts and logits."""
    even = even_parts(u_hat, share)
    u_hat, a = F.hardtanh(wide(u_hat), -LARGEST_VOTE, LARGEST_VOTE), wide(a)
    logits = u_hat.new_zeros(u_hat.shape[:4]) if before is None else e_step(u_hat, before)
    return u_hat, a, share(logits), even, logits


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
    state = None
    for t in range(num_iters):
        lam_t = inverse_temperature(t, lam)
        state = recomputed(iterate, u_hat, a, beta_u, beta_a, state, share, lam_t)
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
    state, steps = None, []
    for t in range(num_iters):
        votes, a_lower, c, even, logits = _shared_out(u_hat, a, state, share)
        state = m_step(votes, a_lower, c, even, beta_u, beta_a, inverse_temperature(t, lam))
        steps.append((logits, c, state.mu, state.mu, state.log_a.exp()))
    b, c, s, v, a_upper = (torch.stack(x).flatten(1, 2) for x in zip(*steps, strict=True))
    return RoutingTrace(u_hat.flatten(0, 1), b, c, s, v, a_upper)
