"""Layers in sequence, where a convolution and the ReLU after it are computed as one.

y = ConvSequential(nn.Conv2d(1, 256, 5, padding="same"), nn.ReLU(), nn.Flatten())(images)
"""

from itertools import pairwise

from torch import Tensor, nn

from capsnet.ops import conv2d


class ConvSequential(nn.Sequential):
    """nn.Sequential, keys of its state included, whose convolutions are `conv2d` with relu.

    Every convolution keeps the size of its input (an odd square kernel with padding="same") and
    is followed by a ReLU. Both serve to describe the network; neither is called.
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        for layer, after in pairwise([*self, nn.Identity()]):
            if isinstance(layer, nn.Conv2d):
                height, width = layer.kernel_size
                assert height == width and height % 2 == 1 and layer.padding == "same"
                assert layer.dilation == (1, 1) and layer.groups == 1
                assert layer.padding_mode == "zeros" and isinstance(after, nn.ReLU)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the last layer makes of x [N, C, H, W]."""
        layers = iter(self)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                padding = layer.kernel_size[0] // 2
                x = conv2d(x, layer.weight, layer.bias, relu=True, padding=padding)
                next(layers)  # the ReLU
            else:
                x = layer(x)
        return x
