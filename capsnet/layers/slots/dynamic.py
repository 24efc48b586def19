"""Slots by the paper's routing: all class capsules of all slots compete for each capsule.

v, shares = DynamicSlots(512, 8, num_slots=3, num_classes=10)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.ops import dynamic_routing, routing_trace


class DynamicSlots(nn.Module):
    """Capsules u [N, I, D] -> v [N, K, J, E] of K slots, and whose they are [N, I, K].

    The classes of different slots have transformations of their own: without, all slots would see
    the same votes and stay the same.
    """

    def __init__(
        self,
        num_lower: int,
        lower_dim: int,
        num_slots: int = 3,
        num_classes: int = 10,
        dim: int = 16,
        num_iters: int = 3,
    ) -> None:
        super().__init__()
        self.num_slots, self.num_iters = num_slots, num_iters
        self.W = nn.Parameter(0.1 * torch.randn(num_lower, num_slots * num_classes, dim, lower_dim))

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return v [N, K, J, E] and the share of each capsule that each slot has [N, I, K]."""
        v = dynamic_routing(u, self.W, self.num_iters).unflatten(1, (self.num_slots, -1))
        if self.training:  # nobody asks, and the couplings are never stored
            return v, u.new_full((*u.shape[:2], self.num_slots), 1 / self.num_slots)
        c = routing_trace(u, self.W, self.num_iters).c[-1]
        return v, c.unflatten(2, (self.num_slots, -1)).sum(dim=-1)
