"""Gaussians fitted to votes, one for each parent: what EM and variational-Bayes routing share.

moments = fit_reference(u_hat, a, beliefs, start, share)
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.recompute import wide
from capsnet.ops.windows import Share

LEAST_SUM = 1e-6  # of the parts that a parent gets: one that gets nothing has the mean zero
LARGEST_VOTE = 1e6  # its square, divided by all that is least, is still a number


class Beliefs(NamedTuple):
    """What the parents expect of votes: logits_ij = own_j - 1/2 sum_h precision (V - mean)^2."""

    mean: Tensor  # [N, P, J, E]
    precision: Tensor  # [N, P, J, E]
    own: Tensor  # [N, P, J]


class Moments(NamedTuple):
    """What the parents got: rho_ij = c_ij a_i is the part of child i that goes to j."""

    total: Tensor  # [N, P, J], sum_i rho
    mean: Tensor  # [N, P, J, E], sum_i rho V / sum_i rho
    scatter: Tensor  # [N, P, J, E], sum_i rho (V - mean)^2


def votes_of(u_hat: Tensor) -> Tensor:
    """Return the votes in full precision, those without bound cut off."""
    return F.hardtanh(wide(u_hat), -LARGEST_VOTE, LARGEST_VOTE)


def logits_of(votes: Tensor, beliefs: Beliefs) -> Tensor:
    """Return [N, P, I, J], how well each parent explains each child."""
    squares = (votes - beliefs.mean.unsqueeze(2)).square()
    distance = torch.einsum("npije,npje->npij", squares, beliefs.precision)
    return beliefs.own.unsqueeze(2) - 0.5 * distance


def moments_of(votes: Tensor, rho: Tensor) -> Moments:
    """Return the moments of votes [N, P, I, J, E], each counted rho [N, P, I, J]."""
    total = rho.sum(dim=2)
    mean = torch.einsum("npij,npije->npje", rho / (total.unsqueeze(2) + LEAST_SUM), votes)
    squares = (votes - mean.unsqueeze(2)).square()
    return Moments(total, mean, torch.einsum("npij,npije->npje", rho, squares))


def fit_reference(
    u_hat: Tensor, a: Tensor, beliefs: Beliefs | None, start: Tensor, share: Share
) -> Moments:
    """Return the moments after one iteration: couplings by the beliefs, or `start` without."""
    votes = votes_of(u_hat)
    c = start if beliefs is None else share(logits_of(votes, beliefs))
    return moments_of(votes, c * wide(a).unsqueeze(-1))
