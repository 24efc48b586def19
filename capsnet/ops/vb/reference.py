"""Variational-Bayes routing (Ribeiro, Leontidis, Kollias 2020), with the votes stored.

The parents are a mixture of Gaussians with priors on weights, means and precisions, so that no
parent can shrink to a point: Dirichlet alpha_0 = 1, Normal m_0 = 0, kappa_0 = 1, Wishart
Psi_0 = 1, nu_0 = E + 1, the precisions diagonal.
"""

from collections.abc import Callable
from math import e, log, pi
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.em.reference import LARGEST_VOTE, LEAST_SUM
from capsnet.ops.recompute import recomputed, wide
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.vb.digamma import digamma
from capsnet.ops.votes import stacked_trace, undecided
from capsnet.ops.windows import Share

Finish = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # m, logits of a -> v, a


class State(NamedTuple):
    """The posteriors of the parents, which are the whole state of the routing."""

    R: Tensor  # [N, P, J], how many children a parent has
    m: Tensor  # [N, P, J, E], the means
    log_psi: Tensor  # [N, P, J, E], the logarithm of Psi^-1, of the scale of the votes' spread


def update_parents(u_hat: Tensor, a: Tensor, c: Tensor) -> State:
    """Return the posteriors given couplings c [N, P, I, J] of votes u_hat [N, P, I, J, E].

    R~_ij = c_ij a_i; R_j = sum_i R~; mu_j = sum_i R~ V / R_j; kappa_j = 1 + R_j;
    m_j = R_j mu_j / kappa_j; Psi_j^-1 = 1 + sum_i R~ (V - mu)^2 + (R_j / kappa_j) mu^2
    """
    parts = c * a.unsqueeze(-1)
    R = parts.sum(dim=2)
    mu = torch.einsum("npij,npije->npje", parts / (R.unsqueeze(2) + LEAST_SUM), u_hat)
    spread = torch.einsum("npij,npije->npje", parts, (u_hat - mu.unsqueeze(2)).square())
    kept = (R / (1 + R)).unsqueeze(-1)  # R_j / kappa_j
    return State(R, kept * mu, (1 + spread + kept * mu.square()).log())


def expected_logs(state: State) -> tuple[Tensor, Tensor]:
    """Return E[ln pi_j] and E[ln |Lambda_j|], both [N, P, J].

    E ln pi = psi(alpha_j) - psi(sum_k alpha_k) over the parents of a place, alpha_j = 1 + R_j;
    E ln |Lambda| = sum_(d < E) psi((nu_j - d) / 2) + E ln 2 + ln |Psi_j|, nu_j = E + 1 + R_j
    """
    E = state.m.shape[-1]
    alpha = 1 + state.R
    log_pi = digamma(alpha) - digamma(alpha.sum(dim=-1, keepdim=True))
    d = torch.arange(E, device=alpha.device, dtype=alpha.dtype)
    degrees = digamma((E + alpha.unsqueeze(-1) - d) / 2).sum(dim=-1)
    return log_pi, degrees + E * log(2) - state.log_psi.sum(dim=-1)


def logits_of(u_hat: Tensor, state: State) -> Tensor:
    """Return E[ln pi_j] + E[ln p_ij] [N, P, I, J], whose softmax over the parents is c.

    E ln p_ij = 1/2 E ln|Lambda_j| - E/2 ln(2 pi) - 1/2 [E / kappa_j + nu_j sum (V - m)^2 Psi_j]
    """
    E = u_hat.shape[-1]
    log_pi, log_lambda = expected_logs(state)
    squares = (u_hat - state.m.unsqueeze(2)).square()
    nu_Psi = (-state.log_psi).exp() * (E + 1 + state.R).unsqueeze(-1)
    distance = torch.einsum("npije,npje->npij", squares, nu_Psi)
    own = log_pi + 0.5 * (log_lambda - E * log(2 * pi) - E / (1 + state.R))
    return own.unsqueeze(2) - 0.5 * distance


def evidence(state: State, beta_u: Tensor, beta_a: Tensor) -> Tensor:
    """Return the logits of the activations [N, P, J]: beta_a - (e^(E ln pi) H + beta_u).

    H = E/2 ln(2 pi e) - 1/2 E ln|Lambda|, the entropy of what a parent expects to see.
    """
    log_pi, log_lambda = expected_logs(state)
    H = 0.5 * (state.m.shape[-1] * log(2 * pi * e) - log_lambda)
    return beta_a - (log_pi.exp() * H + beta_u)


def iterate(u_hat: Tensor, a: Tensor, before: State | None, start: Tensor, share: Share) -> State:
    """Return the posteriors after one iteration."""
    u_hat, a, _, c = shared_out(u_hat, a, before, start, share)
    return update_parents(u_hat, a, c)


def shared_out(
    u_hat: Tensor, a: Tensor, before: State | None, start: Tensor, share: Share
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return votes and activations in full precision, logits and couplings."""
    u_hat, a = F.hardtanh(wide(u_hat), -LARGEST_VOTE, LARGEST_VOTE), wide(a)
    if before is None:
        return u_hat, a, torch.zeros_like(start), start
    logits = logits_of(u_hat, before)
    return u_hat, a, logits, share(logits)


def route_reference(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int,
    share: Share,
    finish: Finish,
) -> tuple[Tensor, Tensor]:
    """Return the parents [N, P, J, E] and their activations [N, P, J], as `finish` makes them."""
    state, start = None, undecided(u_hat, share)
    for _ in range(num_iters):
        state = recomputed(iterate, u_hat, a, state, start, share)
    assert state is not None
    return finish(state.m, evidence(state, beta_u, beta_a))


def trace_reference(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int,
    share: Share,
    finish: Finish,
) -> RoutingTrace:
    """Return everything that `route_reference` computes on its way; places count as samples."""
    state, start, steps = None, undecided(u_hat, share), []
    for _ in range(num_iters):
        votes, a_lower, b, c = shared_out(u_hat, a, state, start, share)
        state = update_parents(votes, a_lower, c)
        steps.append((b, c, state.m, *finish(state.m, evidence(state, beta_u, beta_a))))
    return stacked_trace(u_hat, steps)
