"""The convolutional networks that capsules are compared with.

output = CnnBaseline()(images); output.answers are the class probabilities.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capsnet.layers import Conv2d
from capsnet.models.model import Classifier, Output, Progress, conv_size
from capsnet.models.registry import register_model
from capsnet.ops.losses import weighted_mean
from capsnet.options import Share, Size
from capsnet.tasks import Batch


class Cnn(Classifier):
    """Abstract: layers in sequence, the last of which gives one logit for each class."""

    layers: nn.Sequential

    def forward(self, images: Tensor) -> Output:
        """Return logits as v [N, J, 1] and softmax probabilities as answers [N, J]."""
        self.check(images)
        logits = self.layers(images).to(self.layers[-1].weight.dtype)
        return Output(logits.unsqueeze(-1), logits.softmax(dim=1))

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the softmax cross-entropy; with L labels, each has the probability 1 / L."""
        T = self.task.table(batch.labels)
        T = T / T.sum(dim=1, keepdim=True).clamp(min=1)
        logits, T = output.v.squeeze(-1), T.to(output.v.dtype)
        if batch.weights is None:
            return F.cross_entropy(logits, T)
        return weighted_mean(F.cross_entropy(logits, T, reduction="none"), batch.weights)

    def embed(self, images: Tensor) -> Tensor:
        """Return the last hidden features [N, F]."""
        return self.layers[:-1](images).to(self.layers[-1].weight.dtype)

    def chain(self) -> tuple[nn.Module, ...]:
        """Return the layers from images to probabilities."""
        return *self.layers, nn.Softmax(dim=1)


@register_model("cnn_baseline")
class CnnBaseline(Cnn):
    """The paper's baseline CNN for MNIST.

    Conv 5×5 of 256, 256, 128 channels, FC 328, 192, softmax.
    """

    head = ("layers.12",)

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        dropout: Share = 0.5,
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, h, w = image_shape
        self.layers = nn.Sequential(
            *conv_relu(c, 256, 5),
            *conv_relu(256, 256, 5),
            *conv_relu(256, 128, 5),
            nn.Flatten(),
            nn.Linear(128 * h * w, 328),
            nn.ReLU(),
            nn.Linear(328, 192),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(192, num_classes),
        )


@register_model("cnn_multimnist")
class CnnMultiMnist(Cnn):
    """The paper's baseline CNN for MultiMNIST.

    Conv 9×9×512, conv 5×5×256, pooled, FC 1024, sigmoids.
    """

    head = ("layers.9",)

    def __init__(
        self, image_shape: tuple[Size, Size, Size] = (1, 36, 36), num_classes: Size = 10
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, h, w = image_shape
        self.layers = nn.Sequential(
            *conv_relu(c, 512, 9),
            nn.MaxPool2d(2),
            *conv_relu(512, 256, 5),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256 * conv_size(h, 4, 4) * conv_size(w, 4, 4), 1024),
            nn.ReLU(),
            nn.Linear(1024, num_classes),
        )

    def forward(self, images: Tensor) -> Output:
        """Return logits as v [N, J, 1] and one probability per class as answers [N, J]."""
        logits = super().forward(images).v
        return Output(logits, torch.sigmoid(logits.squeeze(-1)))

    def chain(self) -> tuple[nn.Module, ...]:
        """Return the layers from images to probabilities."""
        return *self.layers, nn.Sigmoid()

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the sigmoid cross-entropy, summed over classes and averaged over the batch."""
        logits = output.v.squeeze(-1)
        T = self.task.table(batch.labels).to(logits.dtype)
        if batch.weights is not None:
            each = F.binary_cross_entropy_with_logits(logits, T, reduction="none").sum(dim=1)
            return weighted_mean(each, batch.weights)
        loss = F.binary_cross_entropy_with_logits(logits, T, reduction="sum")
        return loss / max(logits.shape[0], 1)


@register_model("cnn_small")
class CnnSmall(Cnn):
    """A small CNN to compare capsnet_small with.

    Two convolutions, one hidden layer, softmax.
    """

    head = ("layers.10",)

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        channels: Size = 32,
        dropout: Share = 0.2,
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, h, w = image_shape
        pooled = conv_size(h, 4, 4) * conv_size(w, 4, 4)
        self.layers = nn.Sequential(
            *conv_relu(c, channels, 5),
            nn.MaxPool2d(2),
            *conv_relu(channels, 2 * channels, 5),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * channels * pooled, 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, num_classes),
        )


def conv_relu(in_channels: int, out_channels: int, kernel: int) -> tuple[nn.Module, nn.Module]:
    """Return a convolution that keeps the size, ReLU inside, and the place of the ReLU.

    The place keeps the numbers of the layers in saved weights.
    """
    conv = Conv2d(in_channels, out_channels, kernel, padding=kernel // 2, relu=True)
    return conv, nn.Identity()
