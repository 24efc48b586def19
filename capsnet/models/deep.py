"""Several layers of capsules on each other, fully connected, above a modern stem.

output = create_model("capsnet_deep", depth=4)(images)

Why a stack of the paper's capsules dies, and what keeps it alive: docs/routings/depth.md.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from capsnet.layers import ClassCaps, Decoder, PrimaryCaps, Stem
from capsnet.models.abilities import Placed
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.model import conv_size
from capsnet.models.registry import register_model
from capsnet.ops.dynamic import Backend
from capsnet.ops.norms import norm_capsules, norm_layer
from capsnet.options import Iterations, Positive, Size

Norm = Literal["none", "layer", "capsule"]
NORMS: dict[Norm, Callable[[Tensor], Tensor]] = {
    "none": lambda u: u,
    "layer": norm_layer,
    "capsule": norm_capsules,
}
PAPER_STD = 0.1


@register_model("capsnet_deep", "Up to six layers of capsules on a modern stem.")
class CapsNetDeep(CapsClassifier):
    """Stem, primary capsules, depth - 1 layers of hidden capsules, class capsules, decoder.

    Each layer is routed by agreement from all capsules of the one below. norm: what is done to the
    capsules that a layer sees (`capsnet.ops.norms`). residual: a hidden layer above the first one
    is added to what it was routed from, capsule j to capsule j. gain: how long the sums |s| of a
    layer are at the start, above capsules of length one and with even couplings, which sets the std
    of W; None takes the paper's 0.1 whatever the sizes, with which a norm learns best. With depth=1
    and norm="none" it is `capsnet_modern`.
    """

    head = ("hidden_caps", "class_caps", "decoder")

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        depth: Annotated[int, Ge(1), Le(6)] = 3,
        hidden: Size = 32,
        hidden_dim: Size = 16,
        norm: Norm = "layer",
        residual: bool = True,
        gain: Annotated[float, Gt(0), Le(100)] | None = None,
        channels: tuple[Size, ...] = (64, 128, 256),
        primary_types: Size = 32,
        primary_dim: Size = 8,
        primary_stride: Size = 2,
        class_dim: Size = 16,
        num_iters: Iterations = 3,
        decoder: tuple[Size, ...] = (256, 512),
        backend: Backend = "auto",
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        self.norm, self.residual = norm, residual
        self.stem = Stem(image_shape[0], image_shape[1:], channels)
        rows, columns = (conv_size(side, 3, primary_stride) for side in self.stem.size)
        self.grid = (rows, columns, primary_types)
        step = max(self.stem.step)
        self.field = (self.stem.side + 2 * step, step * primary_stride, self.stem.start)
        self.primary_caps = PrimaryCaps(
            self.stem.out_channels, primary_types, primary_dim, 3, primary_stride
        )

        def caps(I: int, D: int, J: int, E: int) -> ClassCaps:
            std = PAPER_STD if gain is None else gain * J / (E * I) ** 0.5
            return ClassCaps(I, D, J, E, num_iters, backend=backend, std=std)

        sizes = [(rows * columns * primary_types, primary_dim)]
        sizes += [(hidden, hidden_dim)] * (depth - 1)
        self.hidden_caps = nn.ModuleList(caps(*lower, *upper) for lower, upper in pairwise(sizes))
        self.class_caps = caps(*sizes[-1], num_classes, class_dim)
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    @property
    def placed(self) -> Placed | None:
        """The model itself, if its only layer of routed capsules is that of the classes."""
        alone = not self.hidden_caps and self.norm == "none"
        return self if alone and self.stem.step[0] == self.stem.step[1] else None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.stem(images))

    def lower(self, images: Tensor) -> Tensor:
        """Return the capsules [N, I, D] that vote for the classes: the last hidden ones, normed."""
        norm = NORMS[self.norm]
        u = self.primary(images)
        for k, layer in enumerate(self.hidden_caps):
            v = layer(norm(u))
            u = u + v if self.residual and k > 0 else v
        return norm(u)
