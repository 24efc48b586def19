"""Decoder: the picture of one class capsule, all others masked out.

pixels = Decoder(num_classes=10, dim=16, image_shape=(1, 28, 28))(v, which=labels)
"""

from itertools import pairwise
from math import prod
from typing import Literal

from torch import Tensor, nn

from capsnet.layers.conv_decoder import ConvDecoder


class Decoder(nn.Module):
    """Masked v [N, J, E] -> [N, C, H, W], sigmoid at the end.

    Args:
        num_classes: J.
        dim: E.
        image_shape: (C, H, W).
        hidden: sizes of fully connected layers with ReLU between, the paper's; or "conv" for a
            small map that convolutions double (`ConvDecoder`), whose size does not grow with the
            pictures'.

    Example:
        >>> decoder = Decoder(num_classes=10, dim=16, image_shape=(1, 28, 28))
        >>> decoder(torch.rand(2, 10, 16), which=torch.tensor([3, 7])).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(
        self,
        num_classes: int,
        dim: int,
        image_shape: tuple[int, int, int],
        hidden: tuple[int, ...] | Literal["conv"] = (512, 1024),
    ) -> None:
        super().__init__()
        self.image_shape = tuple(image_shape)
        self.layers: nn.Module
        if hidden == "conv":
            self.layers = ConvDecoder(num_classes * dim, image_shape)
            return
        layers: list[nn.Module] = []
        sizes = (num_classes * dim, *hidden)
        for fan_in, fan_out in pairwise(sizes):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        layers += [nn.Linear(sizes[-1], prod(image_shape)), nn.Sigmoid()]
        self.layers = nn.Sequential(*layers)

    @property
    def first(self) -> nn.Linear:
        """The layer that sees the capsules."""
        layers = self.layers.start if isinstance(self.layers, ConvDecoder) else self.layers
        first = next(layers.children())
        assert isinstance(first, nn.Linear)
        return first

    def forward(self, v: Tensor, which: Tensor) -> Tensor:
        """Return the pictures of the classes `which`: [N] -> [N, C, H, W], [N, L] -> [N, L, …]."""
        mask = v.new_zeros(*which.shape, v.shape[1], 1).scatter_(-2, which[..., None, None], 1)
        masked = (v if which.dim() == 1 else v.unsqueeze(1)) * mask
        return self.draw(masked)

    def draw(self, v: Tensor) -> Tensor:
        """Return what all capsules of v [..., J, E] draw together, [..., C, H, W]."""
        return self.layers(v.flatten(-2)).reshape(*v.shape[:-2], *self.image_shape)
