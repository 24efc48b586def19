"""A convolution that takes the fastest kernels there are, and can have the ReLU after it inside.

y = Conv2d(1, 256, 9, relu=True)(images)
"""

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.ops import conv2d


class Conv2d(nn.Conv2d):
    """nn.Conv2d by `capsnet.ops.conv2d`: square kernels, zeros around, no groups or dilation.

    Args:
        in_channels: C.
        out_channels: F.
        kernel_size: side of the kernel.
        stride: pixels from one place to the next.
        padding: zeros around.
        relu: max(y, 0) as a part of it.
        scale: the weight is multiplied by it.
        bias: whether there is one.
        device: where the weights are.
        dtype: of the weights.

    Example:
        >>> Conv2d(1, 32, 5, 2, relu=True)(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 32, 12, 12])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        relu: bool = False,
        scale: float = 1.0,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(stride, int) or not isinstance(padding, int):
            raise UserError(
                f"stride={stride!r} and padding={padding!r} must be one number each; take "
                "torch.nn.Conv2d for others."
            )
        place = {"device": device, "dtype": dtype}
        sizes = (in_channels, out_channels, kernel_size, stride, padding)
        super().__init__(*sizes, bias=bias, **place)  # type: ignore[arg-type]
        self.relu, self.scale = relu, scale

    def forward(self, x: Tensor) -> Tensor:
        """Return y [N, O, OH, OW] of x [N, C, H, W]."""
        weight = self.weight if self.scale == 1 else self.weight * self.scale
        padding = self.padding[0]
        assert isinstance(padding, int)
        return conv2d(x, weight, self.bias, self.stride[0], self.relu, padding)

    def extra_repr(self) -> str:
        """Say what nn.Conv2d says, and what is added to it."""
        more = [f"scale={self.scale:g}"] if self.scale != 1 else []
        return ", ".join([super().extra_repr(), *more, *(["relu"] if self.relu else [])])
