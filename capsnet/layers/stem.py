"""A stem of small convolutions that brings images of any size down to a small map of features.

features = Stem(in_channels=1, size=(28, 28))(images)  # [N, 256, 7, 7]
"""

from math import ceil

from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import UserError
from capsnet.layers.conv import Conv2d

LARGEST_SIDE = 10  # of the map, if nothing else is said; sides above it are halved


class Stem(nn.Module):
    """Stages of two 3×3 convolutions, each with batch norm and ReLU: [N, C, H, W] -> [N, F, h, w].

    The first stage keeps the size, each of the others halves the sides that are still longer than
    largest_side.

    Args:
        in_channels: C.
        size: H and W.
        channels: of the stages; large images get as many more of the last as they need.
        largest_side: of the map above, at most.

    Example:
        >>> Stem(1, (28, 28))(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 256, 7, 7])
    """

    def __init__(
        self,
        in_channels: int,
        size: tuple[int, int],
        channels: tuple[int, ...] = (64, 128, 256),
        largest_side: int = LARGEST_SIDE,
    ) -> None:
        super().__init__()
        if not channels:
            raise UserError(
                "channels=() makes no stem; give the channels of at least one stage, as in "
                "channels=(16, 32, 64)."
            )
        self.out_channels = channels[-1]
        self.size = size  # of the map
        # What a feature sees, in pixels: how far from one to the next, how much, and from where.
        self.step, self.side, self.start = (1, 1), 1, 0
        layers: list[nn.Module] = []
        stage = 0
        while stage < len(channels) or max(self.size) > largest_side:
            width = channels[min(stage, len(channels) - 1)]
            stride = tuple(2 if stage and side > largest_side else 1 for side in self.size)
            layers += _norm_relu(in_channels, width, stride) + _norm_relu(width, width, (1, 1))
            self._widen()
            self.step = (self.step[0] * stride[0], self.step[1] * stride[1])
            self._widen()
            self.size = (ceil(self.size[0] / stride[0]), ceil(self.size[1] / stride[1]))
            in_channels, stage = width, stage + 1
        self.layers = nn.Sequential(*layers)

    def _widen(self) -> None:
        """Count a 3×3 convolution with a border of one: it sees one step more on each side."""
        self.side += 2 * max(self.step)
        self.start -= max(self.step)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features [N, F, h, w]."""
        return self.layers(images)

    def look(self, pictures: Tensor) -> Tensor:
        """Return the features [N, F, h, w] of pictures that leave no trace in the norms.

        In training these use the statistics of the pictures themselves and keep nothing of them.
        """
        x = pictures
        for layer in self.layers:
            if isinstance(layer, nn.BatchNorm2d) and layer.training:
                x = F.batch_norm(x, None, None, layer.weight, layer.bias, True, eps=layer.eps)
            else:
                x = layer(x)
        return x


def _norm_relu(in_channels: int, channels: int, stride: tuple[int, ...]) -> list[nn.Module]:
    """Return a convolution, its norm and its ReLU."""
    if stride[0] == stride[1]:
        conv: nn.Conv2d = Conv2d(in_channels, channels, 3, stride[0], padding=1, bias=False)
    else:
        conv = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)  # type: ignore[arg-type]
    return [conv, nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
