"""Slots that capsules belong to by phase: those whose votes agree come to swing together.

v, shares = SynchronySlots(512, 8, num_slots=3, num_classes=10)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.ops import agreement, dynamic_routing, read_phases, synchronise, synchrony_trace
from capsnet.ops.synchrony import SynchronyTrace


class SynchronySlots(nn.Module):
    """Capsules u [N, I, D] -> v [N, K, J, E] of K slots, and whose they are [N, I, K].

    Each capsule votes W_i u_i for the object it is a part of, and is pulled to a phase of its own,
    C_i u_i + b_i, where it also starts. After num_steps steps a slot takes the part of each capsule
    that its phase gives it (`capsnet.ops.read_phases`), and that part votes for the classes of the
    slot; the transformations are the same for all slots.
    """

    def __init__(
        self,
        num_lower: int,
        lower_dim: int,
        num_slots: int = 3,
        num_classes: int = 10,
        dim: int = 16,
        num_steps: int = 8,
        phase_dim: int = 4,
        vote_dim: int = 16,
    ) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.W = nn.Parameter(0.1 * torch.randn(num_lower, num_classes, dim, lower_dim))
        self.vote = nn.Parameter(torch.randn(num_lower, vote_dim, lower_dim))
        self.pull = nn.Parameter(torch.randn(num_lower, phase_dim, lower_dim))
        self.rest = nn.Parameter(0.1 * torch.randn(num_lower, phase_dim))
        self.anchors = nn.Parameter(torch.randn(num_slots, phase_dim))
        self.sharpness = nn.Parameter(torch.tensor(4.0))
        self.strength = nn.Parameter(torch.tensor(1.0))  # of the coupling

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return v [N, K, J, E] and the share of each capsule that each slot has [N, I, K]."""
        return self.read(u, synchronise(*self.swinging(u)))

    def read(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return v and shares of capsules u [N, I, D] whose oscillators are x [N, I, n]."""
        shares = read_phases(x, self.anchors, self.sharpness)
        return slot_capsules(u, shares, self.W), shares

    def trace(self, u: Tensor) -> SynchronyTrace:
        """Return every step of the phases, to look inside."""
        return synchrony_trace(*self.swinging(u))

    def swinging(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
        """Return what `synchronise` takes: start, features, pulls, and the number of steps."""
        votes = torch.einsum("ird,nid->nir", self.vote, u)
        f = agreement(votes, torch.linalg.vector_norm(u, dim=-1))
        c = torch.einsum("isd,nid->nis", self.pull, u) + self.rest
        return c, self.strength * f, c, self.num_steps


def slot_capsules(u: Tensor, shares: Tensor, W: Tensor) -> Tensor:
    """Return v [N, K, J, E] of capsules u [N, I, D] of which each slot has a share [N, I, K].

    A slot has the class capsules of one pass of routing over its shares, by W [I, J, E, D].
    """
    parts = (u.unsqueeze(1) * shares.mT.unsqueeze(-1)).flatten(0, 1)  # [N * K, I, D]
    return dynamic_routing(parts, W, 1).unflatten(0, (len(u), -1))
