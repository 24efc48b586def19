"""CapsNet (Sabour, Frosst, Hinton 2017, section 4): conv, PrimaryCaps, ClassCaps, Decoder.

output = CapsNet()(images); picture = model.reconstruct(output.v)
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import ClassCaps, Decoder, PrimaryCaps
from capsnet.models.classifier import Classifier, Output, conv_size
from capsnet.ops import RoutingTrace, conv2d
from capsnet.ops.losses import check_classes
from capsnet.ops.routing import Backend, Gradient

NO_DECODER = "This model has no decoder; train one with a decoder to see pictures."


class CapsNet(Classifier):
    """The paper's network for any image shape, number of classes and capsule sizes.

    Options that follow the authors' code instead of the paper (docs/deviations.md):
    routing_bias, primary_routed, leaky, init="authors". decoder=() leaves the decoder out.
    """

    objective = "margin"

    def __init__(
        self,
        image_shape: tuple[int, int, int] = (1, 28, 28),
        num_classes: int = 10,
        *,
        conv_channels: int = 256,
        conv_kernel: int = 9,
        conv_stride: int = 1,
        primary_types: int = 32,
        primary_dim: int = 8,
        primary_kernel: int = 9,
        primary_stride: int = 2,
        class_dim: int = 16,
        num_iters: int = 3,
        decoder: tuple[int, ...] = (512, 1024),
        gradient: Gradient = "full",
        leaky: bool = False,
        routing_bias: bool = False,
        primary_routed: bool = False,
        init: Literal["torch", "authors"] = "torch",
        backend: Backend = "auto",
    ) -> None:
        super().__init__(image_shape, num_classes)
        grid = [
            conv_size(conv_size(side, conv_kernel, conv_stride), primary_kernel, primary_stride)
            for side in image_shape[1:]
        ]
        self.grid = (grid[0], grid[1], primary_types)  # capsule i = (row, column, type)
        self.conv = nn.Conv2d(image_shape[0], conv_channels, conv_kernel, conv_stride)
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

    def forward(self, images: Tensor) -> Output:
        """Return v [N, J, E] and its lengths [N, J] for images [N, C, H, W]."""
        self.check(images)
        v = self.class_caps(self.primary(images)).float()
        return Output(v, torch.linalg.vector_norm(v, dim=-1))

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        conv = self.conv
        features = conv2d(images, conv.weight, conv.bias, conv.stride[0], relu=True)
        return self.primary_caps(features)

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return every iteration of the routing between primary and class capsules."""
        return self.class_caps.trace(self.primary(images))

    def reconstruct(self, v: Tensor, which: Tensor | Sequence[int] | int | None = None) -> Tensor:
        """Return the pictures [N, C, H, W] that the capsules `which` of v [N, J, E] stand for.

        which: None for the longest capsule, one class for all, classes [N], or [N, L] for L
        pictures of each, [N, L, C, H, W].
        """
        if self.decoder is None:
            raise UserError(NO_DECODER)
        if which is None:
            which = torch.linalg.vector_norm(v, dim=-1).argmax(dim=1)
        which = torch.as_tensor(which, device=v.device)
        check_classes(which, self.num_classes)
        return self.decoder(v, (which.expand(len(v)) if which.dim() == 0 else which).long())

    @torch.no_grad()
    def _init_as_authors(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                std = 0.05 if module is self.conv else 0.1
                nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
                assert module.bias is not None
                nn.init.constant_(module.bias, 0.1)
        nn.init.trunc_normal_(self.class_caps.W, std=0.1, a=-0.2, b=0.2)
