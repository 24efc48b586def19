"""What the kernels compute, by torch's own operations: where a gradient is differentiated again.

y = conv_reference(x, weight, bias, stride=2, relu=True)
"""

import torch.nn.functional as F
from torch import Tensor


def conv_reference(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, relu: bool, padding: int = 0
) -> Tensor:
    """Return the convolution of operands rounded to the dtype of x, with sums in fp32."""
    wide = None if bias is None else bias.float()
    y = F.conv2d(x.float(), weight.to(x.dtype).float(), wide, stride, padding)
    return (F.relu(y) if relu else y).to(x.dtype)
