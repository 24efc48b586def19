"""Synchrony: capsules whose votes agree come to swing in phase, and so say who belongs together.

x = synchronise(x, agreement(u_hat, a), c, num_steps=8); shares = read_phases(x, anchors)

Each capsule has an oscillator x_i on a sphere. Pairs attract as far as their votes agree more than
votes do on average, and repel each other as far as they agree less (docs/routings/synchrony.md).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.recompute import full_precision, wide
from capsnet.ops.synchrony.reference import (
    centred,
    energy,
    pull,
    read_plain,
    synchronise_plain,
    turn,
)

__all__ = ["SynchronyTrace", "agreement", "read_phases", "synchronise", "synchrony_trace"]


class SynchronyTrace(NamedTuple):
    """The oscillators at the start and after each of T steps, and their energy.

    Example:
        >>> f, x = agreement(torch.rand(2, 5, 3)), torch.rand(2, 5, 4)
        >>> trace = synchrony_trace(x, f, torch.zeros(2, 5, 4), num_steps=8)
        >>> trace.x.shape, trace.energy.shape
        (torch.Size([9, 2, 5, 4]), torch.Size([9, 2]))
    """

    x: Tensor  # [T + 1, N, I, n], of length 1
    energy: Tensor  # [T + 1, N]


def agreement(u_hat: Tensor, a: Tensor | None = None) -> Tensor:
    """Return features whose products are the couplings: J_ik = <f_i, f_k>, symmetric.

    f_i = sqrt(a_i) (u_hat_i - m), m = sum_i a_i u_hat_i / sum_i a_i, all divided by one number so
    that sum_i |f_i|^2 = 1. Only how votes differ from each other counts.

    Args:
        u_hat: one vote of each capsule [N, I, R].
        a: how sure each capsule is to be there [N, I], not negative; all the same if left out.

    Returns:
        f [N, I, R], in fp32 where the votes have half precision.

    Example:
        >>> f = agreement(torch.tensor([[[1.0], [1.0], [-1.0], [-1.0]]]))
        >>> (f[0] @ f[0].T)[0]  # attracted by the second, repelled by the others
        tensor([ 0.2500,  0.2500, -0.2500, -0.2500])
    """
    if u_hat.dim() != 3 or not u_hat.is_floating_point():
        raise UserError(f"Votes of {u_hat.dtype} {list(u_hat.shape)} must be floats [N, I, R].")
    if a is not None and a.shape != u_hat.shape[:2]:
        raise UserError(
            f"Activations of shape {list(a.shape)} do not fit votes of {list(u_hat.shape)}; "
            f"give {list(u_hat.shape[:2])}."
        )
    with full_precision(u_hat):
        votes = wide(u_hat)
        return centred(votes, torch.ones_like(votes[..., 0]) if a is None else wide(a))


def synchronise(x: Tensor, f: Tensor, c: Tensor, num_steps: int = 8, gamma: float = 1.0) -> Tensor:
    """Return oscillators after num_steps steps towards those that they are coupled to.

    x_i <- normalise(x_i + gamma (y_i - <y_i, x_i> x_i)),  y_i = sum_k <f_i, f_k> x_k + c_i

    Args:
        x: where the oscillators are [N, I, n]; they are brought to length 1 first.
        f: features of the capsules [N, I, R], as from `agreement`; the cost grows with I R n.
        c: where each capsule is pulled by itself [N, I, n].
        num_steps: how many; 0 leaves x where it is.
        gamma: how far a step goes.

    Returns:
        x [N, I, n], in fp32 where these have half precision.

    Example:
        >>> f = agreement(torch.tensor([[[1.0], [1.0], [-1.0], [-1.0]]]))
        >>> start = torch.tensor([[[1.0, 0.2], [1.0, -0.2], [-1.0, 0.2], [-1.0, -0.2]]])
        >>> x = synchronise(start, f, torch.zeros_like(start), num_steps=20)
        >>> x[0, :, 0]
        tensor([ 1.,  1., -1., -1.])
    """
    _check(x, f, c, num_steps)
    with full_precision(x):
        start = torch.nn.functional.normalize(wide(x), dim=-1)
        return synchronise_plain(start, wide(f), wide(c), num_steps, gamma)


def synchrony_trace(
    x: Tensor, f: Tensor, c: Tensor, num_steps: int = 8, gamma: float = 1.0
) -> SynchronyTrace:
    """Return every step of `synchronise`, to look inside.

    Args:
        x: where the oscillators are [N, I, n].
        f: features of the capsules [N, I, R].
        c: where each capsule is pulled by itself [N, I, n].
        num_steps: how many.
        gamma: how far a step goes.

    Returns:
        x and energy of the start and of each step.

    Example:
        >>> f, x = agreement(torch.rand(2, 5, 3)), torch.rand(2, 5, 4)
        >>> energy = synchrony_trace(x, f, torch.zeros(2, 5, 4), 4, gamma=0.1).energy
        >>> bool((energy[1:] <= energy[:-1]).all())
        True
    """
    _check(x, f, c, num_steps)
    with full_precision(x):
        f, c = wide(f), wide(c)
        steps = [torch.nn.functional.normalize(wide(x), dim=-1)]
        for _ in range(num_steps):
            steps.append(turn(steps[-1], pull(steps[-1], f, c), gamma))
        return SynchronyTrace(torch.stack(steps), torch.stack([energy(x, f, c) for x in steps]))


def read_phases(
    x: Tensor,
    anchors: Tensor,
    sharpness: float | Tensor = 1.0,
    a: Tensor | None = None,
    num_moves: int = 0,
) -> Tensor:
    """Return the part of each capsule that belongs to each slot, by the nearness of its phase.

    c_ik = softmax_k(sharpness <x_i, anchor_k>), anchors brought to length 1. Then, num_moves times,
    anchors move to the mean phase of what they have, and c is computed anew:
    anchor_k <- normalise(sum_i c_ik a_i x_i / sum_i c_ik a_i + 0.1 anchor_k at the start).

    Args:
        x: oscillators of length 1 [N, I, n].
        anchors: one phase for each slot [K, n], of any length.
        sharpness: how much nearness counts.
        a: how sure each capsule is to be there [N, I]; all the same if left out.
        num_moves: how often the anchors move, in each image by itself; 0 if they stay.

    Returns:
        c [N, I, K], which sum to 1 over the slots.

    Example:
        >>> x = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
        >>> read_phases(x, torch.eye(2), sharpness=200.0)
        tensor([[[1., 0.],
                 [0., 1.]]])
    """
    if anchors.dim() != 2 or x.dim() != 3 or x.shape[2] != anchors.shape[1]:
        raise UserError(
            f"Oscillators of shape {list(x.shape)} do not fit anchors of {list(anchors.shape)}; "
            "give x [N, I, n] and anchors [K, n]."
        )
    if a is not None and a.shape != x.shape[:2]:
        raise UserError(
            f"Activations of shape {list(a.shape)} do not fit oscillators of {list(x.shape)}; "
            f"give {list(x.shape[:2])}."
        )
    if num_moves < 0:
        raise UserError(f"num_moves must be 0 or more, not {num_moves}.")
    with full_precision(x):
        weights = torch.ones_like(wide(x)[..., 0]) if a is None else wide(a)
        return read_plain(wide(x), wide(anchors), sharpness, weights, num_moves)


def _check(x: Tensor, f: Tensor, c: Tensor, num_steps: int) -> None:
    if num_steps < 0:
        raise UserError(f"num_steps must be 0 or more, not {num_steps}.")
    if x.dim() != 3 or f.dim() != 3 or c.shape != x.shape or f.shape[:2] != x.shape[:2]:
        raise UserError(
            f"Oscillators of {list(x.shape)}, features of {list(f.shape)} and pulls of "
            f"{list(c.shape)} do not fit; give x [N, I, n], f [N, I, R] and c [N, I, n]."
        )
