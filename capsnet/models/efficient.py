"""Efficient-CapsNet (Mazzia, Salvetti, Chiaberge 2021): few capsules, routed in one pass.

output = create_model("efficient_capsnet")(images); model.trace(images).c
"""

from math import prod
from typing import Any, Literal

from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import Conv2d, Decoder, DepthwiseCaps, SelfAttentionCaps
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.model import conv_size
from capsnet.models.registry import register_model
from capsnet.options import Positive, Share, Size

MULTIMNIST: dict[str, Any] = {
    "image_shape": (1, 36, 36),
    "strides": (1, 1, 2, 2),
    "primary_kernel": 5,
    "primary_stride": 2,
}
SMALLNORB: dict[str, Any] = {
    "image_shape": (2, 48, 48),
    "num_classes": 5,
    "kernels": (7, 3, 3, 3),
    "strides": (2, 1, 1, 2),
    "norm": "instance",
    "slope": 0.3,
}


@register_model("efficient_capsnet", "Efficient-CapsNet for 28×28 digits, 161,824 without decoder.")
@register_model(
    "efficient_capsnet_multimnist",
    "Efficient-CapsNet for two overlapping digits on 36×36.",
    **MULTIMNIST,
)
@register_model(
    "efficient_capsnet_smallnorb",
    "Efficient-CapsNet for pairs of 48×48 pictures of toys.",
    **SMALLNORB,
)
class EfficientCapsNet(CapsClassifier):
    """Convolutions, 16 primary capsules by a depthwise one, self-attention routing.

    primary_kernel: None for the smaller side of the map that the convolutions leave, so that on a
    square picture each primary capsule sees all of it. norm: "batch" or "instance", after the
    activation, which is a ReLU of slope `slope` below zero. decoder=() leaves the decoder out.

    Its loss is the margin loss + reconstruction_weight * squared differences of the pixels; the
    authors' weight is 0.392 / (C H W), which is 0.0005 for 28×28 digits.
    """

    class_caps: SelfAttentionCaps

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        channels: tuple[Size, ...] = (32, 64, 64, 128),
        kernels: tuple[Size, ...] = (5, 3, 3, 3),
        strides: tuple[Size, ...] = (1, 1, 1, 2),
        norm: Literal["batch", "instance"] = "batch",
        slope: Share = 0.0,
        primary_dim: Size = 8,
        primary_kernel: Size | None = None,
        primary_stride: Size = 1,
        class_dim: Size = 16,
        decoder: tuple[Size, ...] = (512, 1024),
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
    ) -> None:
        super().__init__(image_shape, num_classes)
        if not len(channels) == len(kernels) == len(strides) > 0:
            raise UserError(
                f"channels={channels}, kernels={kernels} and strides={strides} must be as many; "
                "give one of each for every convolution."
            )
        if channels[-1] % primary_dim:
            raise UserError(
                f"{channels[-1]} channels do not make capsules of {primary_dim}; choose the last "
                "of channels as a multiple of primary_dim."
            )
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        c, rows, columns = image_shape
        side, step = 1, 1  # what a feature sees, in pixels
        layers: list[nn.Module] = []
        for width, kernel, stride in zip(channels, kernels, strides, strict=True):
            rows, columns = (conv_size(x, kernel, stride) for x in (rows, columns))
            side, step = side + (kernel - 1) * step, step * stride
            layers += [*_convolve(c, width, kernel, stride, slope)]
            layers.append(_norm(norm, width, rows * columns))
            c = width
        self.features = nn.Sequential(*layers)
        kernel = min(rows, columns) if primary_kernel is None else primary_kernel
        rows, columns = (conv_size(x, kernel, primary_stride) for x in (rows, columns))
        self.grid = (rows, columns, c // primary_dim)  # capsule i = (row, column, type)
        self.field = (side + (kernel - 1) * step, step * primary_stride, 0)
        self.primary_caps = DepthwiseCaps(c, primary_dim, kernel, primary_stride)
        self.class_caps = SelfAttentionCaps(prod(self.grid), primary_dim, num_classes, class_dim)
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.features(images))


def _convolve(
    fan_in: int, fan_out: int, kernel: int, stride: int, slope: float
) -> tuple[nn.Module, ...]:
    """Return a convolution and its activation, started as He et al. 2015 do."""
    conv = Conv2d(fan_in, fan_out, kernel, stride, relu=slope == 0)
    nn.init.kaiming_normal_(conv.weight, a=slope)
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
    return (conv,) if slope == 0 else (conv, nn.LeakyReLU(slope))


def _norm(kind: str, channels: int, places: int) -> nn.Module:
    """Return a normalisation of maps with so many places."""
    if kind == "batch":
        return nn.BatchNorm2d(channels, eps=1e-3)
    if places == 1:
        raise UserError(
            "norm='instance' has nothing to compare on a map of one place; give larger images or "
            "norm='batch'."
        )
    return nn.InstanceNorm2d(channels, eps=1e-3, affine=True)
