"""Capsules stacked on a map: stem, primary capsules, two layers of ConvCaps, one of classes.

class Mine(StackedCaps): makes stem, primary_caps and the routings, and has a loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import Capsules, ConvCaps, PrimaryPoses
from capsnet.layers.routings import Routing
from capsnet.models.model import Classifier, Output, conv_size
from capsnet.ops import RoutingTrace
from capsnet.tasks import OneLabel, Pairs

SMALLEST_SIDE = 17  # 5×5 by two, 3×3 by two, 3×3: what leaves one place


@dataclass(frozen=True)
class Start:
    """How the transformations start: near the identity, or small as Glorot and Bengio have it.

    Large random ones would decide each child's parents at the first step, at random.
    """

    std: float | None = None
    identity: bool = False

    def options(self, num_lower: int, num_upper: int, kernel: int) -> dict[str, Any]:
        """Return the options of a ConvCaps with 4×4 poses."""
        fans = (num_lower + num_upper) * kernel * kernel * 16
        return {"std": self.std or (2 / fans) ** 0.5, "identity": self.identity}


class StackedCaps(Classifier):
    """Abstract: the network of Hinton, Sabour, Frosst 2018, whatever routes in it.

    5×5 convolution, stride 2, of A channels; B types of primary capsules with 4×4 poses; ConvCaps
    3×3, stride 2, of C types; ConvCaps 3×3 of D types; class capsules that see all of it, with one
    transformation for all places and the place added to two numbers of each vote.
    """

    tasks = (OneLabel, Pairs)  # both losses are about which class leads
    head = ("class_caps",)

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_classes: int,
        stem: nn.Module,
        primary_caps: PrimaryPoses,
        sizes: tuple[int, int, int],
        routing: Callable[[int], Routing],
        start: Start,
    ) -> None:
        super().__init__(image_shape, num_classes)
        B, C, D = sizes
        size = self.map_size(image_shape)
        self.stem, self.primary_caps = stem, primary_caps
        self.conv_caps1 = ConvCaps(
            size, B, C, routing(C), kernel=3, stride=2, **start.options(B, C, 3)
        )
        self.conv_caps2 = ConvCaps(
            self.conv_caps1.places, C, D, routing(D), kernel=3, **start.options(C, D, 3)
        )
        self.class_caps = ConvCaps(
            self.conv_caps2.places,
            D,
            num_classes,
            routing(num_classes),
            kernel=None,
            coordinates=True,
            **start.options(D, num_classes, 1),
        )

    @staticmethod
    def map_size(image_shape: tuple[int, int, int]) -> tuple[int, int]:
        """Return rows and columns of the primary capsules; a UserError for too small images."""
        height, width = image_shape[1:]
        if min(height, width) < SMALLEST_SIDE:
            raise UserError(
                f"Images of {height}×{width} are too small for three layers of windows; give at "
                f"least {SMALLEST_SIDE}×{SMALLEST_SIDE} pixels, or use a model with fewer layers."
            )
        return conv_size(height, 5, 2), conv_size(width, 5, 2)

    def lower(self, images: Tensor) -> Capsules:
        """Return the capsules on a map that vote for the classes, of images [N, C, H, W]."""
        lower = self.primary_caps(self.stem(images))
        return self.conv_caps2(self.conv_caps1(lower))

    def forward(self, images: Tensor) -> Output:
        """Return the poses of the classes as v [N, J, 16] and their activations as answers."""
        self.check(images)
        return Output(*self.class_caps(self.lower(images)))

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return every iteration of the routing to the class capsules."""
        return self.class_caps.trace(self.lower(images))
