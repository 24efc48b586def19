"""Slots that capsules belong to by phase: those whose votes agree come to swing together.

v, shares = SynchronySlots(grid=(6, 6, 16), lower_dim=8, num_slots=3, num_classes=10)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.layers.slots.places import NUMBERS, Grid, with_places
from capsnet.ops import agreement, dynamic_routing, read_phases, synchronise, synchrony_trace
from capsnet.ops.synchrony import SynchronyTrace


class SynchronySlots(nn.Module):
    """Capsules u [N, I, D] -> v [N, K, J, E] of K slots, and whose they are [N, I, K].

    Each capsule votes W u_i for the object it is a part of, and is pulled to a phase of its own,
    C u_i + b, where it also starts; u_i has its place (`with_places`), and W, C and b are those of
    its type. After num_steps steps a slot takes the part of each capsule that its phase gives it
    (`capsnet.ops.read_phases`, num_moves times with anchors that follow what they have), and that
    part votes for the classes of the slot; the transformations are the same for all places and
    slots.
    """

    def __init__(
        self,
        grid: Grid,
        lower_dim: int,
        num_slots: int = 3,
        num_classes: int = 10,
        dim: int = 16,
        num_steps: int = 8,
        num_moves: int = 3,
        phase_dim: int = 4,
        vote_dim: int = 16,
    ) -> None:
        super().__init__()
        self.grid, self.num_steps, self.num_moves = grid, num_steps, num_moves
        T, D = grid[2], lower_dim + NUMBERS
        self.W = nn.Parameter(0.1 * torch.randn(T, num_classes, dim, D))
        self.vote = nn.Parameter(torch.randn(T, vote_dim, D))
        self.pull = nn.Parameter(torch.randn(T, phase_dim, D))
        self.rest = nn.Parameter(0.1 * torch.randn(T, phase_dim))
        self.anchors = nn.Parameter(torch.randn(num_slots, phase_dim))
        self.sharpness = nn.Parameter(torch.tensor(4.0))
        self.strength = nn.Parameter(torch.tensor(1.0))  # of the coupling

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return v [N, K, J, E] and the share of each capsule that each slot has [N, I, K]."""
        return self.read(u, synchronise(*self.swinging(u)))

    def read(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return v and shares of capsules u [N, I, D] whose oscillators are x [N, I, n]."""
        a = torch.linalg.vector_norm(u, dim=-1)
        shares = read_phases(x, self.anchors, self.sharpness, a, self.num_moves)
        return slot_capsules(with_places(u, self.grid), shares, self.W), shares

    def trace(self, u: Tensor) -> SynchronyTrace:
        """Return every step of the phases, to look inside."""
        return synchrony_trace(*self.swinging(u))

    def swinging(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
        """Return what `synchronise` takes: start, features, pulls, and the number of steps."""
        placed = with_places(u, self.grid)
        votes = torch.einsum("trd,nptd->nptr", self.vote, placed).flatten(1, 2)
        f = agreement(votes, torch.linalg.vector_norm(u, dim=-1))
        c = (torch.einsum("tsd,nptd->npts", self.pull, placed) + self.rest).flatten(1, 2)
        return c, self.strength * f, c, self.num_steps


def slot_capsules(placed: Tensor, shares: Tensor, W: Tensor) -> Tensor:
    """Return v [N, K, J, E] of capsules [N, P, T, D] of which each slot has a share [N, P * T, K].

    A slot has the class capsules of one pass of routing over its shares, by W [T, J, E, D]. What is
    the same at all places is done once, to the sum over the places.
    """
    shares = shares.unflatten(1, placed.shape[1:3]).to(placed.dtype)
    parts = torch.einsum("nptk,nptd->nktd", shares, placed).flatten(0, 1)
    return dynamic_routing(parts, W, 1).unflatten(0, (-1, shares.shape[-1]))
