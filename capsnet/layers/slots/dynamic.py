"""Slots by the paper's routing: all class capsules of all slots compete for each capsule.

v, shares = DynamicSlots(grid=(6, 6, 16), lower_dim=8, num_slots=3, num_classes=10)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.layers.slots.places import NUMBERS, Grid, with_places
from capsnet.ops import dynamic_routing, routing_trace


class DynamicSlots(nn.Module):
    """Capsules u [N, I, D] -> v [N, K, J, E] of K slots, and whose they are [N, I, K].

    The transformations are the same for all places, of capsules that know theirs (`with_places`).
    The classes of different slots have their own: without, all slots would see the same votes and
    stay the same.
    """

    def __init__(
        self,
        grid: Grid,
        lower_dim: int,
        num_slots: int = 3,
        num_classes: int = 10,
        dim: int = 16,
        num_iters: int = 3,
    ) -> None:
        super().__init__()
        self.grid, self.num_slots, self.num_iters = grid, num_slots, num_iters
        sizes = (grid[2], num_slots * num_classes, dim, lower_dim + NUMBERS)
        self.W = nn.Parameter(0.1 * torch.randn(*sizes))

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return v [N, K, J, E] and the share of each capsule that each slot has [N, I, K]."""
        placed = with_places(u, self.grid).flatten(1, 2)
        W = self.W.repeat(self.grid[0] * self.grid[1], 1, 1, 1)
        v = dynamic_routing(placed, W, self.num_iters).unflatten(1, (self.num_slots, -1))
        if self.training:  # nobody asks, and the couplings are never stored
            return v, u.new_full((*u.shape[:2], self.num_slots), 1 / self.num_slots)
        c = routing_trace(placed, W, self.num_iters).c[-1]
        return v, c.unflatten(2, (self.num_slots, -1)).sum(dim=-1)
