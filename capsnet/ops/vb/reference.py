"""Variational-Bayes routing (Ribeiro, Leontidis, Kollias 2020), with the votes stored.

The parents are a mixture of Gaussians with priors on weights, means and precisions, so that no
parent can shrink to a point: Dirichlet alpha_0 = 1, Normal m_0 = 0, kappa_0 = 1, Wishart
Psi_0 = 1, nu_0 = E + 1, the precisions diagonal.

v, a = route(u_hat, a, beta_u, beta_a, 3, over_parents, finish)
"""

from collections.abc import Callable
from math import e, log, pi
from typing import NamedTuple

import torch
from torch import Tensor

from capsnet.ops.gaussians import Beliefs, Moments, fit
from capsnet.ops.gaussians.reference import logits_of, moments_of, votes_of
from capsnet.ops.recompute import wide
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


def update_parents(moments: Moments) -> State:
    """Return the posteriors, given the votes that each parent got, each counted r_ij = c_ij a_i.

    R_j = sum_i r; mu_j = sum_i r V / R_j; kappa_j = 1 + R_j; m_j = R_j mu_j / kappa_j;
    Psi_j^-1 = 1 + sum_i r (V - mu)^2 + (R_j / kappa_j) mu^2
    """
    R, mu, scatter = moments
    kept = (R / (1 + R)).unsqueeze(-1)  # R_j / kappa_j
    return State(R, kept * mu, (1 + scatter + kept * mu.square()).log())


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


def beliefs_of(state: State) -> Beliefs:
    """Return what children are asked for: logits_ij = E ln pi_j + E ln p_ij.

    E ln p_ij = 1/2 E ln|Lambda_j| - E/2 ln(2 pi) - 1/2 [E / kappa_j + nu_j sum (V - m)^2 Psi_j]
    """
    E = state.m.shape[-1]
    log_pi, log_lambda = expected_logs(state)
    own = log_pi + 0.5 * (log_lambda - E * log(2 * pi) - E / (1 + state.R))
    nu_Psi = (E + 1 + state.R).unsqueeze(-1) * (-state.log_psi).exp()
    return Beliefs(state.m, nu_Psi, own)


def evidence(state: State, beta_u: Tensor, beta_a: Tensor) -> Tensor:
    """Return the logits of the activations [N, P, J]: beta_a - (e^(E ln pi) H + beta_u).

    H = E/2 ln(2 pi e) - 1/2 E ln|Lambda|, the entropy of what a parent expects to see.
    """
    log_pi, log_lambda = expected_logs(state)
    H = 0.5 * (state.m.shape[-1] * log(2 * pi * e) - log_lambda)
    return beta_a - (log_pi.exp() * H + beta_u)


def route(
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
        beliefs = None if state is None else beliefs_of(state)
        state = update_parents(fit(u_hat, a, beliefs, start, share))
    assert state is not None
    return finish(state.m, evidence(state, beta_u, beta_a))


def trace(
    u_hat: Tensor,
    a: Tensor,
    beta_u: Tensor,
    beta_a: Tensor,
    num_iters: int,
    share: Share,
    finish: Finish,
) -> RoutingTrace:
    """Return everything that `route` computes on its way; places count as samples."""
    votes, start, steps = votes_of(u_hat), undecided(u_hat, share), []
    b, c = start * 0, start
    for _ in range(num_iters):
        state = update_parents(moments_of(votes, c * wide(a).unsqueeze(-1)))
        steps.append((b, c, state.m, *finish(state.m, evidence(state, beta_u, beta_a))))
        b = logits_of(votes, beliefs_of(state))
        c = share(b)
    return stacked_trace(u_hat, steps, "variational-Bayes routing")
