"""CapsNet on a modern stem: the paper's capsules, routing, loss and decoder below small kernels.

output = CapsNetModern(image_shape=(3, 64, 64), num_classes=5)(images)
"""

from torch import Tensor

from capsnet.layers import ClassCaps, Decoder, PrimaryCaps, Stem
from capsnet.models.abilities import Placed
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.model import conv_size
from capsnet.models.registry import register_model
from capsnet.ops.dynamic import Backend
from capsnet.options import Iterations, Positive, Size


@register_model("capsnet_modern", "The paper's capsules on six 3×3 convolutions, for any images.")
class CapsNetModern(CapsClassifier):
    """The paper's capsules, routing, loss and decoder on a stem of 3×3 convolutions with norms.

    channels: of the stages of the stem (`capsnet.layers.Stem`). decoder=() leaves the decoder out.
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
        num_iters: Iterations = 3,
        decoder: tuple[Size, ...] = (256, 512),
        backend: Backend = "auto",
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        self.stem = Stem(image_shape[0], image_shape[1:], channels)
        rows, columns = (conv_size(side, 3, primary_stride) for side in self.stem.size)
        self.grid = (rows, columns, primary_types)
        step = max(self.stem.step)
        self.field = (self.stem.side + 2 * step, step * primary_stride, self.stem.start)
        self.primary_caps = PrimaryCaps(
            self.stem.out_channels, primary_types, primary_dim, 3, primary_stride
        )
        self.class_caps = ClassCaps(
            rows * columns * primary_types,
            primary_dim,
            num_classes,
            class_dim,
            num_iters,
            backend=backend,
        )
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    @property
    def placed(self) -> Placed | None:
        """The model itself, unless its capsules lie further apart in one direction."""
        return self if self.stem.step[0] == self.stem.step[1] else None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.stem(images))
