"""The CNN on the modern stem: what stands there in place of the capsules is all that differs.

output = CnnModern()(images); output.answers are the class probabilities.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capsnet.layers import Conv2d, Decoder, Stem
from capsnet.models.drawing import DrawingClassifier
from capsnet.models.model import Output, Progress, conv_size
from capsnet.models.registry import register_model
from capsnet.ops.losses import weighted_mean
from capsnet.ops.recompute import full_precision
from capsnet.options import Positive, Size
from capsnet.tasks import Batch, OneLabel


@register_model("cnn_modern")
class CnnModern(DrawingClassifier):
    """A CNN head on the stem of capsnet_modern.

    A convolution where the primary capsules are, and J * E features where the class capsules are,
    connected with all of the map by as many weights as the capsules have; pooled averages over the
    map before. With a decoder, a class is drawn from its E features, as from a capsule. One
    label: softmax and cross-entropy; several: a sigmoid each and its cross-entropy.
    """

    head = ("features", "readout", "decoder")

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        channels: tuple[Size, ...] = (64, 128, 256),
        conv_channels: Size = 256,
        conv_stride: Size = 2,
        class_dim: Size = 16,
        pooled: bool = False,
        decoder: tuple[Size, ...] = (),
        reconstruction_weight: Positive = 0.0005,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.reconstruction_weight, self.class_dim = reconstruction_weight, class_dim
        self.stem = Stem(image_shape[0], image_shape[1:], channels)
        rows, columns = (conv_size(side, 3, conv_stride) for side in self.stem.size)
        self.conv = nn.Sequential(
            Conv2d(self.stem.out_channels, conv_channels, 3, conv_stride, bias=False),
            nn.BatchNorm2d(conv_channels),
            nn.ReLU(inplace=True),
        )
        places = 1 if pooled else rows * columns
        self.pool = nn.AdaptiveAvgPool2d(1) if pooled else nn.Identity()
        self.features = nn.Linear(conv_channels * places, num_classes * class_dim)
        self.readout = nn.Linear(num_classes * class_dim, num_classes)
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    def forward(self, images: Tensor) -> Output:
        """Return the features as v [N, J, E] and one probability per class as answers [N, J]."""
        self.check(images)
        features = self.embed(images)
        logits = self.logits(features)
        one = isinstance(self.task, OneLabel)
        answers = logits.softmax(dim=1) if one else torch.sigmoid(logits)
        return Output(features.unflatten(1, (-1, self.class_dim)), answers)

    def embed(self, images: Tensor) -> Tensor:
        """Return the last hidden features [N, J * E]."""
        x = self.pool(self.conv(self.stem(images))).flatten(1)
        return F.relu(self.features(x)).to(self.readout.weight.dtype)

    def logits(self, features: Tensor) -> Tensor:
        """Return one logit per class [N, J] of features [N, J * E], in full precision."""
        with full_precision(features):
            return self.readout(features)

    def chain(self) -> tuple[nn.Module, ...]:
        """Return the layers from images to probabilities."""
        head = (self.pool, nn.Flatten(), self.features, nn.ReLU(), self.readout)
        one = isinstance(self.task, OneLabel)
        return *self.stem.layers, *self.conv, *head, nn.Softmax(dim=1) if one else nn.Sigmoid()

    def winner(self, v: Tensor) -> Tensor:
        """Return the class [N] that v [N, J, E] speaks for."""
        return self.logits(v.flatten(1)).argmax(dim=1)

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the cross-entropy, summed over sigmoids, + reconstruction_weight * SSE."""
        logits = self.logits(output.v.flatten(1))
        T = self.task.table(batch.labels).to(logits.dtype)
        if isinstance(self.task, OneLabel):
            each = F.cross_entropy(logits, T, reduction="none")
        else:
            each = F.binary_cross_entropy_with_logits(logits, T, reduction="none").sum(dim=1)
        loss = each.mean() if batch.weights is None else weighted_mean(each, batch.weights)
        return loss + self.reconstruction(output, batch)
