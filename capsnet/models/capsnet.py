"""CapsNet (Sabour, Frosst, Hinton 2017, section 4): conv, PrimaryCaps, ClassCaps, Decoder.

output = CapsNet()(images); picture = model.reconstruct(output.v)
"""

from abc import abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from capsnet.layers import ClassCaps, Conv2d, Decoder, PrimaryCaps, RoutedCaps, SelfAttentionCaps
from capsnet.models.drawing import DrawingClassifier
from capsnet.models.model import Output, Progress, conv_size
from capsnet.models.registry import register_model
from capsnet.ops import RoutingTrace, margin_loss
from capsnet.ops.dynamic import Backend, Gradient
from capsnet.options import Iterations, Positive, Size
from capsnet.tasks import Batch

SMALL = {
    "conv_channels": 32,
    "conv_kernel": 5,
    "conv_stride": 2,
    "primary_types": 16,
    "primary_kernel": 5,
    "decoder": (128, 256),
}


class CapsClassifier(DrawingClassifier):
    """Abstract: capsules that vote for one capsule per class, whose length is the answer.

    A final one makes `class_caps`, `decoder` and the weights of the loss, and has `primary`.
    """

    head: ClassVar[tuple[str, ...]] = ("class_caps", "decoder")
    class_caps: ClassCaps | RoutedCaps | SelfAttentionCaps
    average_classes: bool

    @abstractmethod
    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""

    def lower(self, images: Tensor) -> Tensor:
        """Return the capsules [N, I, D] that vote for the classes: the primary ones."""
        return self.primary(images)

    def forward(self, images: Tensor) -> Output:
        """Return v [N, J, E] and its lengths [N, J] for images [N, C, H, W]."""
        self.check(images)
        v = self.class_caps(self.lower(images))
        v = v.to(self.class_caps.W.dtype)  # under autocast the lengths are taken in full precision
        return Output(v, torch.linalg.vector_norm(v, dim=-1))

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return margin loss + reconstruction_weight * SSE."""
        T = self.task.table(batch.labels)
        loss = self.margin(output.lengths, T, batch.weights, progress)
        return loss + self.reconstruction(output, batch)

    def margin(
        self, lengths: Tensor, T: Tensor, weights: Tensor | None, progress: Progress
    ) -> Tensor:
        """Return the margin loss of lengths [N, J] for the classes T [N, J] that are present."""
        return margin_loss(lengths, T, average_classes=self.average_classes, weights=weights)

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return every iteration of the routing to the class capsules."""
        return self.class_caps.trace(self.lower(images))


@register_model("capsnet_mnist", "The paper's CapsNet for 28×28 digits.")
@register_model(
    "capsnet_multimnist",
    "The paper's CapsNet for two overlapping digits on 36×36.",
    image_shape=(1, 36, 36),
)
@register_model("capsnet_small", "A small CapsNet that trains on a CPU.", **SMALL)
class CapsNet(CapsClassifier):
    """The paper's network for any image shape, number of classes and capsule sizes.

    Options that follow the authors' code instead of the paper (docs/deviations.md):
    routing_bias, primary_routed, leaky, init="authors". decoder=() leaves the decoder out.

    Its loss is the margin loss + reconstruction_weight * squared differences of the pixels;
    average_classes divides the margin loss by twice the number of classes, as the authors do.
    """

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        conv_channels: Size = 256,
        conv_kernel: Size = 9,
        conv_stride: Size = 1,
        primary_types: Size = 32,
        primary_dim: Size = 8,
        primary_kernel: Size = 9,
        primary_stride: Size = 2,
        class_dim: Size = 16,
        num_iters: Iterations = 3,
        decoder: tuple[Size, ...] = (512, 1024),
        gradient: Gradient = "full",
        leaky: bool = False,
        routing_bias: bool = False,
        primary_routed: bool = False,
        init: Literal["torch", "authors"] = "torch",
        backend: Backend = "auto",
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        grid = [
            conv_size(conv_size(side, conv_kernel, conv_stride), primary_kernel, primary_stride)
            for side in image_shape[1:]
        ]
        self.grid = (grid[0], grid[1], primary_types)  # capsule i = (row, column, type)
        side = conv_kernel + (primary_kernel - 1) * conv_stride
        self.field = (side, conv_stride * primary_stride, 0)  # what a capsule sees, in pixels
        self.conv = Conv2d(image_shape[0], conv_channels, conv_kernel, conv_stride, relu=True)
        self.primary_caps = PrimaryCaps(
            conv_channels,
            primary_types,
            primary_dim,
            primary_kernel,
            primary_stride,
            primary_routed,
        )
        self.class_caps = ClassCaps(
            grid[0] * grid[1] * primary_types,
            primary_dim,
            num_classes,
            class_dim,
            num_iters,
            routing_bias,
            gradient,
            leaky,
            backend,
        )
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None
        if init == "authors":
            self._init_as_authors()

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.conv(images))

    def chain(self) -> tuple[nn.Module, ...]:
        """Return the layers from images to class capsules."""
        return self.conv, self.primary_caps, self.class_caps

    @torch.no_grad()
    def _init_as_authors(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                std = 0.05 if module is self.conv else 0.1
                nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
                assert module.bias is not None
                nn.init.constant_(module.bias, 0.1)
        nn.init.trunc_normal_(self.class_caps.W, std=0.1, a=-0.2, b=0.2)
