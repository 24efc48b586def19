"""Coupled oscillators on a sphere, as AKOrN has them, with couplings from votes that agree.

x = synchronise_plain(x, f, c, num_steps=8, gamma=1.0)
"""

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-12  # what a sum that divides is at least
STAYS = 0.1  # of an anchor's first phase, which a slot keeps that has nothing


def centred(u_hat: Tensor, a: Tensor) -> Tensor:
    """Return f [N, I, R]: sqrt(a_i) (u_hat_i - the mean vote), sum_i |f_i|^2 = 1."""
    share = (a / a.sum(dim=1, keepdim=True).clamp(min=EPS)).unsqueeze(-1)
    away = u_hat - (share * u_hat).sum(dim=1, keepdim=True)
    squares = (share * away.square()).sum(dim=(1, 2), keepdim=True)
    # Where nobody differs the root of the share is left out: its slope at 0 is not finite.
    weight = torch.where(share > 0, share, 1).sqrt() * (share > 0)
    return weight * away * squares.clamp(min=EPS).rsqrt()


def pull(x: Tensor, f: Tensor, c: Tensor) -> Tensor:
    """Return y_i = sum_k <f_i, f_k> x_k + c_i [N, I, n], at a cost linear in I."""
    return torch.einsum("nir,nrs->nis", f, torch.einsum("nkr,nks->nrs", f, x)) + c


def turn(x: Tensor, y: Tensor, gamma: float) -> Tensor:
    """Return x moved along the sphere towards y: normalise(x + gamma (y - <y, x> x))."""
    along = (y * x).sum(dim=-1, keepdim=True)
    return F.normalize(x + gamma * (y - along * x), dim=-1)


def synchronise_plain(x: Tensor, f: Tensor, c: Tensor, num_steps: int, gamma: float) -> Tensor:
    """Return the oscillators [N, I, n] after so many steps."""
    for _ in range(num_steps):
        x = turn(x, pull(x, f, c), gamma)
    return x


def energy(x: Tensor, f: Tensor, c: Tensor) -> Tensor:
    """Return E [N] = -1/2 sum_ik <f_i, f_k> <x_i, x_k> - sum_i <c_i, x_i>, which steps lower."""
    together = torch.einsum("nir,nis->nrs", f, x).square().sum(dim=(1, 2))
    return -together / 2 - (c * x).sum(dim=(1, 2))


def read_plain(
    x: Tensor, anchors: Tensor, sharpness: float | Tensor, a: Tensor, num_moves: int
) -> Tensor:
    """Return whose the oscillators are [N, I, K], after so many moves of the anchors."""
    first = F.normalize(anchors, dim=-1)
    c = torch.softmax(sharpness * x @ first.T, dim=-1)
    for _ in range(num_moves):
        held = c * a.unsqueeze(-1)
        held = held / held.sum(dim=1, keepdim=True).clamp(min=EPS)
        now = F.normalize(held.mT @ x + STAYS * first, dim=-1)  # [N, K, n]
        c = torch.softmax(sharpness * x @ now.mT, dim=-1)
    return c
