"""Convolution by kernels of our own where they were measured to win.

y = conv2d(x, weight, bias, stride=2, relu=True)

wide.py is for many channels in and out, narrow.py for a first layer, both on a Hopper GPU;
unfolded.py is for many channels on a CPU, in bf16. README.md says how they work and what they were
measured against. All else is F.conv2d.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.gpu import INTERPRETED, TRITON
from capsnet.ops.plain import needs_plain

__all__ = ["conv2d"]

MIN_BATCH = 16  # below, tiles over images are all but empty and cuDNN is faster
MIN_KERNEL = 5  # below, cuDNN is faster: 3×3 of 64 to 256 channels by a quarter of a whole step
MIN_CHANNELS = 64  # on a CPU: below, unfolding costs more than it saves
MAX_INPUTS = 127  # of an output in a first layer; with the bias, the rows of a tile


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    relu: bool = False,
    padding: int = 0,
) -> Tensor:
    """Return y = x * weight + bias, then max(y, 0) with relu: F.conv2d in all but speed.

    The faster kernels give channels-last tensors, and expect them; they take half precision, or
    autocast to it.

    Args:
        x: images [N, C, H, W].
        weight: [O, C, KH, KW].
        bias: [O].
        stride: of the windows, in both directions.
        relu: whether to apply the ReLU.
        padding: the width of a border of zeros around x.

    Returns:
        y [N, O, OH, OW] in the dtype of x, or in autocast's.

    Example:
        >>> conv2d(torch.rand(2, 1, 28, 28), torch.randn(256, 1, 9, 9), relu=True).shape
        torch.Size([2, 256, 20, 20])
    """
    dtype = _compute_dtype(x)
    kind = _kind(x, weight, padding, dtype)
    if kind == "wide":
        from capsnet.ops.conv import wide

        x = x.to(dtype)
        padded, packed = _pad(x.detach(), padding), wide.pack(weight, dtype)
        return wide.conv_wide(x, weight, padded, packed, bias, stride, relu)
    if kind == "narrow":
        from capsnet.ops.conv import narrow

        packed = narrow.pack(weight, dtype)
        return narrow.conv_narrow(_pad(x, padding), weight, packed, bias, stride, relu)[0]
    if kind == "unfolded":
        from capsnet.ops.conv.unfolded import conv_unfolded

        y = conv_unfolded(x.to(dtype), weight, stride)
        y = y if bias is None else y + bias.to(dtype).view(-1, 1, 1)
    else:
        y = F.conv2d(x, weight, bias, stride, padding)
    return F.relu(y) if relu else y


def _compute_dtype(x: Tensor) -> torch.dtype:
    if x.device.type != "meta" and torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


def _pad(x: Tensor, padding: int) -> Tensor:
    return F.pad(x, [padding] * 4) if padding else x


def _kind(
    x: Tensor, weight: Tensor, padding: int, dtype: torch.dtype
) -> Literal["wide", "narrow", "unfolded", "torch"]:
    """Return which kernels are the fastest for this convolution."""
    if needs_plain():
        return "torch"
    O, C, KH, KW = weight.shape
    room = 2 * padding
    fits = x.dim() == 4 and x.shape[1] == C
    fits = fits and x.shape[2] + room >= KH and x.shape[3] + room >= KW
    half = dtype in (torch.bfloat16, torch.float16)
    if x.device.type == "cpu" and not INTERPRETED:
        unfolded = fits and dtype == torch.bfloat16 and C >= MIN_CHANNELS and padding == 0
        return "unfolded" if unfolded else "torch"
    if not (fits and half and O % 64 == 0 and len(x) >= MIN_BATCH and _device_fits(x)):
        return "torch"
    if C % 64 == 0:
        return "wide" if min(KH, KW) >= MIN_KERNEL else "torch"
    needs_dx = x.requires_grad and torch.is_grad_enabled()
    return "narrow" if C * KH * KW <= MAX_INPUTS and not needs_dx else "torch"


def _device_fits(x: Tensor) -> bool:
    if not x.is_cuda:
        return INTERPRETED
    return TRITON and torch.cuda.get_device_capability(x.device) == (9, 0)
