"""Gaussians fitted to votes: one iteration of EM and of variational-Bayes routing.

moments = fit(u_hat, a, beliefs, start, share)
"""

import torch
from torch import Tensor

from capsnet.ops.gaussians.by_hand import fit_by_hand
from capsnet.ops.gaussians.reference import Beliefs, Moments, fit_reference
from capsnet.ops.plain import needs_plain
from capsnet.ops.recompute import recomputed
from capsnet.ops.windows import Share

__all__ = ["Beliefs", "Moments", "fit"]


def fit(u_hat: Tensor, a: Tensor, beliefs: Beliefs | None, start: Tensor, share: Share) -> Moments:
    """Return what each parent gets of the votes u_hat [N, P, I, J, E] of children with a [N, P, I].

    c = share(own - 1/2 sum precision (V - mean)^2), or `start` without beliefs; rho = c a;
    the sums, means and scatters of the votes, each counted rho. Nothing as large as the votes is
    kept for the backward pass beside themselves.
    """
    if needs_plain() or not torch.is_grad_enabled():
        return fit_reference(u_hat, a, beliefs, start, share)
    if torch.compiler.is_compiling():
        return recomputed(fit_reference, u_hat, a, beliefs, start, share)
    return fit_by_hand(u_hat, a, beliefs, start, share)
