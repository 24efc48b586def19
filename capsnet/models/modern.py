"""CapsNet on a modern stem: capsules, loss and decoder of the paper above small kernels.

output = CapsNetModern(image_shape=(3, 64, 64), num_classes=5)(images)
"""

from math import prod
from typing import Literal

from torch import Tensor

from capsnet.errors import UserError
from capsnet.layers import (
    ClassCaps,
    Decoder,
    PrimaryCaps,
    RoutedCaps,
    SelfAttentionCaps,
    Stem,
)
from capsnet.layers.routings import EmRouting, IdaRouting, Routing, SelfRouting, VbRouting
from capsnet.models.abilities import Placed
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.model import conv_size
from capsnet.models.registry import register_model
from capsnet.options import Iterations, Positive, Size

MOST_DENSE = 4096  # numbers of an image that a dense layer draws
RoutingName = Literal["dynamic", "em", "vb", "self", "ida", "attention"]


@register_model("capsnet_modern", "The paper's capsules on six 3×3 convolutions, for any images.")
@register_model(
    "capsnet_modern_small",
    "A small capsnet_modern that trains on a CPU.",
    channels=(16, 32, 64),
    primary_types=16,
)
class CapsNetModern(CapsClassifier):
    """The paper's capsules, routing, loss and decoder on a stem of 3×3 convolutions with norms.

    channels: of the stages of the stem (`capsnet.layers.Stem`). decoder: the sizes of its dense
    layers, () for none, or "conv", whose size does not grow with the images'; if left out, F and
    2 F of F primary channels, and "conv" for images of more than 4,096 numbers.
    routing: what routes the votes of the primary capsules, which are the same for all: the paper's
    "dynamic", "em", variational Bayes ("vb"), "self"-routing, inverted dot-product attention
    ("ida") or self-"attention" (docs/routings). num_iters: 3 where it is left out, 2 for "ida";
    "self" and "attention" have none. The length of a class capsule is its activation for all.
    Loss and drawing are those of `CapsNet`.
    """

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        channels: tuple[Size, ...] = (64, 128, 256),
        primary_types: Size = 32,
        primary_dim: Size = 8,
        primary_stride: Size = 2,
        class_dim: Size = 16,
        routing: RoutingName = "dynamic",
        num_iters: Iterations | None = None,
        decoder: tuple[Size, ...] | Literal["conv"] | None = None,
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        convs = {"channels": channels, "conv_channels": primary_types * primary_dim}
        rest = {"conv_stride": primary_stride, "class_dim": class_dim}
        self.beside = ("cnn_modern", tuple(f"{k}={x}" for k, x in {**convs, **rest}.items()))
        self.stem = Stem(image_shape[0], image_shape[1:], channels)
        rows, columns = (conv_size(side, 3, primary_stride) for side in self.stem.size)
        self.grid = (rows, columns, primary_types)
        step = max(self.stem.step)
        self.field = (self.stem.side + 2 * step, step * primary_stride, self.stem.start)
        self.primary_caps = PrimaryCaps(
            self.stem.out_channels, primary_types, primary_dim, 3, primary_stride
        )
        sizes = (rows * columns * primary_types, primary_dim, num_classes, class_dim)
        self.class_caps = class_layer(routing, num_iters, *sizes)
        if decoder is None:
            F = primary_types * primary_dim
            decoder = (F, 2 * F) if prod(image_shape) <= MOST_DENSE else "conv"
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    @property
    def placed(self) -> Placed | None:
        """The model itself, unless its capsules lie further apart in one direction."""
        return self if self.stem.step[0] == self.stem.step[1] else None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.stem(images))


def class_layer(
    routing: RoutingName, num_iters: int | None, I: int, D: int, J: int, E: int
) -> ClassCaps | RoutedCaps | SelfAttentionCaps:
    """Return a layer of class capsules, I capsules of D -> J of E, by the routing of this name."""
    if routing in ("self", "attention") and num_iters is not None:
        raise UserError(f"routing='{routing}' has no iterations; leave num_iters out.")
    if routing == "dynamic":
        return ClassCaps(I, D, J, E, num_iters or 3)
    if routing == "attention":
        return SelfAttentionCaps(I, D, J, E)
    inside: Routing
    if routing == "em":
        inside = EmRouting(J, num_iters or 3, beta_u=0.0)  # votes spread by about one
    elif routing == "vb":
        inside = VbRouting(J, num_iters or 3)
    elif routing == "self":
        inside = SelfRouting(I, J, D)
    else:
        inside = IdaRouting(E, num_iters or 2)
    return RoutedCaps(I, D, J, E, inside, readout=routing == "ida")
