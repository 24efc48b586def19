"""DeepCaps (Rajasegaran et al. 2019): cells of convolutional capsules with skip connections.

output = create_model("deepcaps")(images); picture = model.reconstruct(output.v)
"""

from math import prod
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import CapsConv, ClassCaps, Conv2d, ConvDecoder, RoutedConv, SharedDecoder
from capsnet.layers.primary_caps import as_capsules
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.model import Progress
from capsnet.models.registry import register_model
from capsnet.ops import margin_loss
from capsnet.ops.dynamic import Backend, Gradient
from capsnet.ops.routing_3d import SquashOver
from capsnet.options import Iterations, Positive, Size

SMALLEST = 8  # of a side: three cells halve it to 1, the fourth leaves it
HARD = {"m_pos": 0.95, "m_neg": 0.05, "lam": 0.8}


class Cell(nn.Module):
    """One halving capsule layer, then two more beside a skip connection, which are added up."""

    def __init__(self, first: CapsConv, skip: nn.Module, second: CapsConv, third: CapsConv) -> None:
        super().__init__()
        self.first, self.skip, self.second, self.third = first, skip, second, third

    def forward(self, x: Tensor) -> Tensor:
        """Return the map [N, types * dim, H / 2, W / 2] of the features x [N, C, H, W]."""
        x = self.first(x)
        return self.third(self.second(x)) + self.skip(x)


@register_model("deepcaps", "DeepCaps: four cells of convolutional capsules, the last one routed.")
class DeepCaps(CapsClassifier):
    """A convolution, four cells of capsules of `dims` numbers, class capsules of cells 3 and 4.

    The skip connection of the last cell is routed in 3-D (skip_iters times, squash_over as in
    `capsnet.ops.routing_3d`), the class capsules by agreement (num_iters times, with a bias). The
    decoder draws every class with the same weights; decoder_width=0 leaves it out. All capsules
    together draw the picture of their sum.

    Its loss is the margin loss + reconstruction_weight * squared differences of the pixels; the
    authors' weight is 0.4 / (C H W), which is 0.0005 for 28×28 digits. From the part hard_from of
    a run on the margins are the authors' hard ones, 0.95 and 0.05, and absent classes weigh 0.8;
    with 1 they never are.
    """

    class_caps: ClassCaps

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        conv_channels: Size = 128,
        types: Size = 32,
        dims: tuple[Size, Size, Size, Size] = (4, 8, 8, 8),
        class_dim: Size = 32,
        num_iters: Iterations = 3,
        skip_iters: Iterations = 3,
        squash_over: SquashOver = "capsule",
        gradient: Gradient = "full",
        backend: Backend = "auto",
        decoder_width: Annotated[int, Ge(0), Le(4096)] = 64,
        decoder_relu: bool = False,
        decoder_end: Literal["relu", "sigmoid"] = "relu",
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
        hard_from: Annotated[float, Ge(0), Le(1)] = 1.0,
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, *sides = image_shape
        if min(sides) < SMALLEST:
            raise UserError(
                f"DeepCaps halves a picture four times, and {sides[0]}×{sides[1]} is too small for "
                f"it; give images of at least {SMALLEST}×{SMALLEST}."
            )
        if dims[2] != dims[3]:
            raise UserError(
                f"Capsules of {dims[2]} and {dims[3]} numbers do not vote together; give the last "
                "two of dims the same size."
            )
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        self.hard_from = hard_from
        self.conv = Conv2d(c, conv_channels, 3, padding=1, relu=True)
        self.norm = nn.BatchNorm2d(conv_channels, eps=1e-3)
        cells: list[Cell] = []
        channels = conv_channels
        for dim in dims:
            routed: dict[str, Any] | None = None
            if len(cells) == 3:
                routed = {"num_iters": skip_iters, "squash_over": squash_over}
            cells.append(_cell(channels, types, dim, routed))
            channels = types * dim
        self.cells = nn.ModuleList(cells)
        places = [prod(-(-side >> k) for side in sides) for k in (3, 4)]
        self.class_caps = ClassCaps(
            sum(places) * types,
            dims[3],
            num_classes,
            class_dim,
            num_iters,
            routing_bias=True,
            gradient=gradient,
            backend=backend,
        )
        self.decoder = None
        if decoder_width:
            net = ConvDecoder(class_dim, image_shape, decoder_width, decoder_relu, decoder_end)
            self.decoder = SharedDecoder(net)

    def primary(self, images: Tensor) -> Tensor:
        """Return the capsules u [N, I, D] of the fourth and of the third cell."""
        x = self.norm(self.conv(images))
        maps = []
        for cell in self.cells:
            x = cell(x)
            maps.append(x)
        D = self.class_caps.W.shape[3]
        return torch.cat([as_capsules(maps[3], D), as_capsules(maps[2], D)], dim=1)

    def margin(
        self, lengths: Tensor, T: Tensor, weights: Tensor | None, progress: Progress
    ) -> Tensor:
        """Return the margin loss, with the hard margins from the part `hard_from` of a run on."""
        soft = super().margin(lengths, T, weights, progress)
        if self.hard_from == 1:
            return soft
        average = self.average_classes
        hard = margin_loss(lengths, T, **HARD, average_classes=average, weights=weights)
        return torch.where(progress.share >= self.hard_from, hard, soft)


def _cell(channels: int, types: int, dim: int, routed: dict[str, Any] | None) -> Cell:
    """Return a cell of capsules of `dim` numbers, whose skip connection may be routed."""
    inside = types * dim
    skip = CapsConv(inside, types, dim) if routed is None else RoutedConv(dim, types, dim, **routed)
    first = CapsConv(channels, types, dim, stride=2)
    return Cell(first, skip, CapsConv(inside, types, dim), CapsConv(inside, types, dim))
