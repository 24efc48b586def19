"""The same fit with its gradient written down: fewer passes over the votes, and nothing kept.

moments = fit_by_hand(u_hat, a, beliefs, start, share)                          (README.md)
"""

from typing import Any

import torch
from torch import Tensor

from capsnet.ops.gaussians.reference import (
    LARGEST_VOTE,
    LEAST_SUM,
    Beliefs,
    Moments,
    fit_reference,
    logits_of,
    moments_of,
    votes_of,
)
from capsnet.ops.plain import needs_plain_backward
from capsnet.ops.recompute import wide
from capsnet.ops.windows import Share


def fit_by_hand(
    u_hat: Tensor, a: Tensor, beliefs: Beliefs | None, start: Tensor, share: Share
) -> Moments:
    """Return `fit_reference`, of which only u_hat and smaller tensors are kept."""
    believed = (None, None, None) if beliefs is None else beliefs
    return Moments(*_Fit.apply(u_hat, a, *believed, start, share))


class _Fit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        u_hat: Tensor,
        a: Tensor,
        mean: Tensor | None,
        precision: Tensor | None,
        own: Tensor | None,
        start: Tensor,
        share: Share,
    ) -> tuple[Tensor, Tensor, Tensor]:
        votes, logits = votes_of(u_hat), start
        if mean is not None and precision is not None and own is not None:
            logits = logits_of(votes, Beliefs(mean, precision, own))
        c = start if mean is None else share(logits)
        moments = moments_of(votes, c * wide(a).unsqueeze(-1))
        ctx.save_for_backward(u_hat, a, mean, precision, own, start, logits, *moments[:2])
        ctx.share = share
        return moments.total, moments.mean, moments.scatter

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad
        if needs_plain_backward():
            return (*_plain(ctx.saved_tensors, needed, ctx.share, grads), None, None)
        with torch.autocast(grads[0].device.type, enabled=False):
            return (*_gradients(ctx.saved_tensors, ctx.share, grads), None, None)


def _gradients(
    saved: tuple[Any, ...], share: Share, grads: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Return the gradients of u_hat, a, mean, precision and own."""
    u_hat, a, mean, precision, _, start, logits, total, new_mean = saved
    dtotal, dmean, dscatter = grads
    votes, a_wide = votes_of(u_hat), wide(a)
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        c_again = start if mean is None else share(leaf)
    c = c_again.detach()

    # sum_i rho (V - mean) is LEAST_SUM * mean, which is all that the scatter asks of the mean.
    dmean = (dmean - 2 * LEAST_SUM * new_mean * dscatter) / (total + LEAST_SUM).unsqueeze(-1)
    d = votes - new_mean.unsqueeze(2)
    slope = torch.addcmul(dmean.unsqueeze(2), d, dscatter.unsqueeze(2))
    drho = (d * slope).sum(dim=-1) + dtotal.unsqueeze(2)
    du = slope.addcmul_(d, dscatter.unsqueeze(2)).mul_((c * a_wide.unsqueeze(-1)).unsqueeze(-1))
    da = (drho * c).sum(dim=-1).to(a.dtype)
    believed: tuple[Tensor | None, ...] = (None, None, None)
    if mean is not None:
        (dlogits,) = torch.autograd.grad(c_again, leaf, drho * a_wide.unsqueeze(-1))
        torch.sub(votes, mean.unsqueeze(2), out=d)
        dbelief = torch.einsum("npij,npije->npje", dlogits, d)
        dprecision = -0.5 * torch.einsum("npij,npije->npje", dlogits, d.square())
        d.mul_(precision.unsqueeze(2)).mul_(dlogits.unsqueeze(-1))
        du.sub_(d)
        believed = (precision * dbelief, dprecision, dlogits.sum(dim=2))
    du = torch.ops.aten.hardtanh_backward(du, wide(u_hat), -LARGEST_VOTE, LARGEST_VOTE)
    return (du.to(u_hat.dtype), da, *believed)


def _plain(
    saved: tuple[Any, ...], needed: tuple[bool, ...], share: Share, grads: tuple[Tensor, ...]
) -> list[Tensor | None]:
    """Return the same gradients by torch, which can be differentiated again."""
    *inputs, start = saved[:6]
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad(), torch.autocast(grads[0].device.type, enabled=False):
        # Views, so that an input computed from another one does not count for both.
        seen = [x.view_as(x) for x in inputs if x is not None]
        beliefs = Beliefs(*seen[2:]) if len(seen) > 2 else None
        moments = fit_reference(seen[0], seen[1], beliefs, start, share)
        wanted = [x for x, need in zip(seen, needed, strict=False) if need]
        found = iter(torch.autograd.grad(moments, wanted, grads, create_graph=create_graph))
    return [next(found) if need else None for need in needed[:5]]
