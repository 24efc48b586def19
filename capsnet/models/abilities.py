"""What a model may be able to do beside answering; callers ask for these and never for a class.

A model has an ability if it has its methods: `if (artist := model.draws) is not None: …`.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from capsnet.ops import RoutingTrace


@runtime_checkable
class Draws(Protocol):
    """Draws the pictures that capsules stand for."""

    def reconstruct(self, v: Tensor, which: Tensor | Sequence[int] | int | None = None) -> Tensor:
        """Return pictures [N, C, H, W] of the capsules `which` of v [N, J, E], or of the winner.

        which: None, one for all, [N], or [N, L] for L pictures of each, [N, L, C, H, W].
        """

    def draw(self, v: Tensor) -> Tensor:
        """Return the pictures [N, C, H, W] that all capsules of v [N, J, E] draw together."""


@runtime_checkable
class Traced(Protocol):
    """Tells every iteration of the routing between its primary and its last capsules."""

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return votes, logits, couplings, sums and capsules of images [N, C, H, W]."""


@runtime_checkable
class Placed(Protocol):
    """Has primary capsules that look at a place in the image.

    grid: rows, columns, types; capsule i = (row, column, type). field: side, step and
    start, in pixels, of what a capsule sees; it may reach over the edge of the image.
    """

    grid: tuple[int, int, int]
    field: tuple[int, int, int]

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""


@runtime_checkable
class Embeds(Protocol):
    """Has one vector of hidden features for each image."""

    def embed(self, images: Tensor) -> Tensor:
        """Return the features [N, F] that the answers to images [N, C, H, W] are made of."""


@runtime_checkable
class Chained(Protocol):
    """Is a chain of layers, each of which takes what the one before gave: others can run it too."""

    def chain(self) -> tuple[nn.Module, ...]:
        """Return the layers from images [N, C, H, W] to capsules v [N, J, E] or answers [N, J]."""
