"""The convolutional networks that capsules are compared with.

output = CnnBaseline()(images); output.lengths are the class probabilities.
"""

import torch
from torch import Tensor, nn

from capsnet.layers import ConvSequential
from capsnet.models.classifier import Classifier, Output, conv_size


class CnnBaseline(Classifier):
    """The paper's MNIST baseline: conv 5×5 of 256, 256, 128 channels, FC 328, 192, softmax."""

    objective = "cross_entropy"

    def __init__(
        self,
        image_shape: tuple[int, int, int] = (1, 28, 28),
        num_classes: int = 10,
        *,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, h, w = image_shape
        self.layers = ConvSequential(
            nn.Conv2d(c, 256, 5, padding="same"),
            nn.ReLU(),
            nn.Conv2d(256, 256, 5, padding="same"),
            nn.ReLU(),
            nn.Conv2d(256, 128, 5, padding="same"),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(128 * h * w, 328),
            nn.ReLU(),
            nn.Linear(328, 192),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(192, num_classes),
        )

    def forward(self, images: Tensor) -> Output:
        """Return logits as v [N, J, 1] and softmax probabilities as lengths [N, J]."""
        self.check(images)
        logits = self.layers(images).float()
        return Output(logits.unsqueeze(-1), logits.softmax(dim=1))


class CnnMultiMnist(Classifier):
    """The paper's MultiMNIST baseline: conv 9×9×512, conv 5×5×256, pooled, FC 1024, sigmoids."""

    objective = "binary_cross_entropy"

    def __init__(
        self, image_shape: tuple[int, int, int] = (1, 36, 36), num_classes: int = 10
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, h, w = image_shape
        self.layers = ConvSequential(
            nn.Conv2d(c, 512, 9, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(512, 256, 5, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256 * conv_size(h, 4, 4) * conv_size(w, 4, 4), 1024),
            nn.ReLU(),
            nn.Linear(1024, num_classes),
        )

    def forward(self, images: Tensor) -> Output:
        """Return logits as v [N, J, 1] and one probability per class as lengths [N, J]."""
        self.check(images)
        logits = self.layers(images).float()
        return Output(logits.unsqueeze(-1), torch.sigmoid(logits))


class CnnSmall(Classifier):
    """A small CNN to show beside `capsnet_small`: two convolutions, one hidden layer, softmax."""

    objective = "cross_entropy"

    def __init__(
        self,
        image_shape: tuple[int, int, int] = (1, 28, 28),
        num_classes: int = 10,
        *,
        channels: int = 32,
        dropout: float = 0.2,
    ) -> None:
        super().__init__(image_shape, num_classes)
        c, h, w = image_shape
        pooled = conv_size(h, 4, 4) * conv_size(w, 4, 4)
        self.layers = ConvSequential(
            nn.Conv2d(c, channels, 5, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 5, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * channels * pooled, 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, num_classes),
        )

    def forward(self, images: Tensor) -> Output:
        """Return logits as v [N, J, 1] and softmax probabilities as lengths [N, J]."""
        self.check(images)
        logits = self.layers(images).float()
        return Output(logits.unsqueeze(-1), logits.softmax(dim=1))
