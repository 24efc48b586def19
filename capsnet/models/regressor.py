"""Numbers from capsules: one capsule for each number, read out along a learnt direction.

CapsRegressor(ranges=((-45.0, 45.0),))(images).answers  # [N, 1]
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import ClassCaps, Conv2d, Decoder, PrimaryCaps
from capsnet.models.abilities import Draws
from capsnet.models.drawing import NO_DECODER
from capsnet.models.model import Model, Output, Progress, conv_size
from capsnet.models.registry import register_model
from capsnet.ops import RoutingTrace, reconstruction_loss
from capsnet.ops.losses import weighted_mean
from capsnet.options import Iterations, Positive, Size
from capsnet.tasks import Batch, Numbers


@register_model("capsnet_numbers")
class CapsRegressor(Model):
    """A small CapsNet that tells numbers, such as the angle of a digit.

    A capsule's length says nothing here: its direction carries the number,
    answer_k = low_k + (high_k - low_k) (½ + w_k . v_k + b_k). All capsules draw the image together.
    The loss is the squared error in units of the range + reconstruction_weight * SSE.
    """

    tasks = (Numbers,)
    head = ("number_caps", "decoder")
    task: Numbers

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        ranges: tuple[tuple[float, float], ...] = ((0.0, 1.0),),
        *,
        conv_channels: Size = 32,
        primary_types: Size = 16,
        primary_dim: Size = 8,
        class_dim: Size = 16,
        num_iters: Iterations = 3,
        decoder: tuple[Size, ...] = (128, 256),
        reconstruction_weight: Positive = 0.0005,
    ) -> None:
        K = len(ranges)
        super().__init__(image_shape, Numbers(tuple(map(str, range(K))), ("",) * K, ranges))
        rows, columns = (conv_size(conv_size(side, 5, 2), 5, 2) for side in image_shape[1:])
        self.grid, self.field = (rows, columns, primary_types), (13, 4, 0)
        self.reconstruction_weight = reconstruction_weight
        self.conv = Conv2d(image_shape[0], conv_channels, 5, 2, relu=True)
        self.primary_caps = PrimaryCaps(conv_channels, primary_types, primary_dim, 5, 2)
        # Leaky: with a single parent there would be nothing for the routing to choose.
        self.number_caps = ClassCaps(
            rows * columns * primary_types, primary_dim, K, class_dim, num_iters, leaky=True
        )
        self.w = nn.Parameter(0.1 * torch.randn(K, class_dim))
        self.b = nn.Parameter(torch.zeros(K))
        self.decoder = Decoder(K, class_dim, image_shape, decoder) if decoder else None
        self.register_buffer("low", torch.tensor([low for low, _ in ranges]), persistent=False)
        self.register_buffer("span", torch.tensor([b - a for a, b in ranges]), persistent=False)

    low: Tensor
    span: Tensor

    def forward(self, images: Tensor) -> Output:
        """Return v [N, K, E] and the numbers [N, K] of images [N, C, H, W]."""
        self.check(images)
        v = self.number_caps(self.primary(images)).to(self.w.dtype)
        return Output(v, self.low + self.span * (0.5 + (v * self.w).sum(dim=-1) + self.b))

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the squared error, in units of the ranges, + reconstruction_weight * SSE."""
        squared = ((output.answers - batch.labels) / self.span).square()
        weights = batch.weights
        loss = weighted_mean(squared.flatten() if weights is None else squared.mean(dim=1), weights)
        if self.decoder is None or self.reconstruction_weight == 0:
            return loss
        pixels = self.draw(output.v).to(batch.images.dtype)
        difference = reconstruction_loss(pixels, batch.images, weights)
        return loss + self.reconstruction_weight * difference

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.conv(images))

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return every iteration of the routing."""
        return self.number_caps.trace(self.primary(images))

    @property
    def draws(self) -> Draws | None:
        """The model itself, if it has a decoder."""
        return None if self.decoder is None else self

    def reconstruct(self, v: Tensor, which: Tensor | Sequence[int] | int | None = None) -> Tensor:
        """Return the pictures [N, C, H, W] of all capsules of v [N, K, E], or of `which` alone."""
        if which is None:
            return self.draw(v)
        if self.decoder is None:
            raise UserError(NO_DECODER)
        which = torch.as_tensor(which, device=v.device)
        return self.decoder(v, (which.expand(v.shape[0]) if which.dim() == 0 else which).long())

    def draw(self, v: Tensor) -> Tensor:
        """Return the pictures [N, C, H, W] that all capsules of v [N, K, E] draw together."""
        if self.decoder is None:
            raise UserError(NO_DECODER)
        return self.decoder.draw(v)
