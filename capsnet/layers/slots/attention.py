"""Slots by attention (Locatello et al. 2020): slots compete for capsules and take their mean.

v, shares = AttentionSlots(grid=(6, 6, 16), lower_dim=8, num_slots=3, num_classes=10)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.layers.slots.places import NUMBERS, Grid, with_places
from capsnet.layers.slots.synchrony import slot_capsules

EPS = 1e-8


class AttentionSlots(nn.Module):
    """Capsules u [N, I, D] -> v [N, K, J, E] of K slots, and whose they are [N, I, K].

    A slot is a vector that asks; capsules answer with keys and values, made of a capsule and its
    place by transformations of its type as votes are, and are shared out by a softmax over the
    slots. The last shares, not the vectors, vote for the classes, by the same rule as in
    `SynchronySlots`.
    """

    def __init__(
        self,
        grid: Grid,
        lower_dim: int,
        num_slots: int = 3,
        num_classes: int = 10,
        dim: int = 16,
        num_iters: int = 3,
        slot_dim: int = 16,
    ) -> None:
        super().__init__()
        self.grid, self.num_iters = grid, num_iters
        T, D = grid[2], lower_dim + NUMBERS
        self.W = nn.Parameter(0.1 * torch.randn(T, num_classes, dim, D))
        self.key = nn.Parameter(torch.randn(T, slot_dim, D))
        self.rest = nn.Parameter(0.1 * torch.randn(T, slot_dim))
        self.start = nn.Parameter(torch.randn(num_slots, slot_dim))
        self.norm_keys, self.norm_slots = nn.LayerNorm(slot_dim), nn.LayerNorm(slot_dim)
        self.value = nn.Linear(slot_dim, slot_dim, bias=False)
        self.ask = nn.Linear(slot_dim, slot_dim, bias=False)
        self.update = nn.GRUCell(slot_dim, slot_dim)
        self.mlp = nn.Sequential(
            nn.LayerNorm(slot_dim),
            nn.Linear(slot_dim, 2 * slot_dim),
            nn.ReLU(),
            nn.Linear(2 * slot_dim, slot_dim),
        )

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return v [N, K, J, E] and the share of each capsule that each slot has [N, I, K]."""
        shares = self.shares(u)
        return slot_capsules(with_places(u, self.grid), shares, self.W), shares

    def shares(self, u: Tensor) -> Tensor:
        """Return the share of each capsule that each slot has [N, I, K]."""
        made = torch.einsum("tsd,nptd->npts", self.key, with_places(u, self.grid)) + self.rest
        keys = self.norm_keys(made.flatten(1, 2))
        values, scale = self.value(keys), keys.shape[-1] ** -0.5
        a = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        slots = self.start.to(keys.dtype).expand(u.shape[0], -1, -1)
        for _ in range(self.num_iters):
            shares = self._attend(keys, slots, scale)
            weights = shares * a
            weights = weights / (weights.sum(dim=1, keepdim=True) + EPS)
            news = torch.einsum("nik,nis->nks", weights, values)
            slots = self.update(news.flatten(0, 1), slots.flatten(0, 1)).view_as(news)
            slots = slots + self.mlp(slots)
        return self._attend(keys, slots, scale)

    def _attend(self, keys: Tensor, slots: Tensor, scale: float) -> Tensor:
        asked = self.ask(self.norm_slots(slots))
        return torch.softmax(scale * torch.einsum("nis,nks->nik", keys, asked), dim=-1)
