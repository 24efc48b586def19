"""What routings of votes have in common: what they ask, how they begin, how they are told.

check_votes(u_hat, a, num_iters); c = undecided(u_hat, share); trace = stacked_trace(u_hat, steps)
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.recompute import wide
from capsnet.ops.trace import DYNAMIC, RoutingTrace
from capsnet.ops.windows import Share


def check_votes(u_hat: Tensor, a: Tensor | None, num_iters: int = 1) -> None:
    """Raise a UserError unless these are votes [N, P, I, J, E], activations [N, P, I], a count.

    a is None where a routing has no use for activations.
    """
    if num_iters < 1:
        raise UserError(f"num_iters must be at least 1, not {num_iters}.")
    if u_hat.dim() != 5:
        raise UserError(f"u_hat of shape {tuple(u_hat.shape)} must be [N, P, I, J, E].")
    if not u_hat.is_floating_point():
        raise UserError(f"u_hat of type {u_hat.dtype} cannot be routed; give floating-point votes.")
    if a is not None and a.shape != u_hat.shape[:3]:
        raise UserError(
            f"Activations of shape {tuple(a.shape)} do not fit votes of {tuple(u_hat.shape)}; "
            f"give {list(u_hat.shape[:3])}."
        )


def check_capsules(u: Tensor, W: Tensor) -> None:
    """Raise a UserError unless these are capsules [N, I, D] and transformations [I, J, E, D]."""
    if W.dim() != 4:
        raise UserError(f"W of shape {tuple(W.shape)} must be [I, J, E, D].")
    if not u.is_floating_point():
        raise UserError(f"u of type {u.dtype} cannot be routed; give floating-point numbers.")
    I, D = W.shape[0], W.shape[3]
    if u.dim() != 3 or u.shape[1:] != (I, D):
        raise UserError(
            f"u of shape {tuple(u.shape)} does not fit W of shape {tuple(W.shape)}; "
            f"u must be [N, {I}, {D}]."
        )


def undecided(u_hat: Tensor, share: Share) -> Tensor:
    """Return the couplings [1, P, I, J] of logits that are all zero: the same for every sample."""
    logits = wide(u_hat[:1, :, :, :, :1]).new_zeros(1, *u_hat.shape[1:4])
    return share(logits)


def stacked_trace(
    u_hat: Tensor, steps: Sequence[tuple[Tensor, ...]], routing: str = DYNAMIC
) -> RoutingTrace:
    """Return iterations (b, c, s, v, a), each [N, P, …], as a trace where places are samples."""
    N = u_hat.shape[0]
    b, c, s, v, a = (
        torch.stack([x.expand(N, *x.shape[1:]) for x in values]).flatten(1, 2)
        for values in zip(*steps, strict=True)
    )
    return RoutingTrace(u_hat.flatten(0, 1), b, c, s, v, a, routing=routing)
