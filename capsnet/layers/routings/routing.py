"""The contract of a routing inside a layer: votes in, upper capsules out, parameters its own.

class Mine(Routing): forward(u_hat, lower, share) -> Capsules

With trace, which takes the same and returns a RoutingTrace, models that have it inside are traced.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers.capsules import Capsules
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share, over_parents


class Routing(nn.Module, ABC):
    """Abstract: routes votes u_hat [N, P, I, J, E] of I children to J parents at each of P places.

    `lower` are the children that each place sees: pose [N, P, I, D], a [N, P, I]. `share` turns
    logits [N, P, I, J] into couplings: a softmax over all parents that see a child.
    """

    @abstractmethod
    def forward(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> Capsules:
        """Return the parents: pose [N, P, J, E], a [N, P, J]."""

    def trace(self, u_hat: Tensor, lower: Capsules, share: Share = over_parents) -> RoutingTrace:
        """Return every iteration; places count as samples, [N * P, …]."""
        name = type(self).__name__
        raise UserError(f"{name} cannot be followed step by step; give it a method trace.")

    @property
    def is_traced(self) -> bool:
        """Whether it has a `trace` of its own."""
        return type(self).trace is not Routing.trace

    if TYPE_CHECKING:

        def __call__(  # noqa: D102
            self, u_hat: Tensor, lower: Capsules, share: Share = over_parents
        ) -> Capsules: ...
