"""Convolution on the CPU as matrix products: each output's inputs, side by side, are a row.

y = conv_unfolded(x, weight, stride=2)

With the channels innermost in memory a row of taps is one run of bytes, so that unfolding is
little more than copying, and the products run at full speed, where a library's weight gradient
does not. Half precision only: in fp32 the library's convolution was measured to be as fast.
"""

import threading
from functools import partial
from typing import Any

import torch
from torch import Tensor

from capsnet.ops.conv.reference import conv_reference
from capsnet.ops.plain import needs_plain_backward, plain_gradients

PIECE_BYTES = 64 << 20  # of unfolded input at a time

_kept = threading.local()  # each thread's memory for it: to ask for it anew costs page faults


def conv_unfolded(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    """Return y [N, O, OH, OW], channels-last, of half x [N, C, H, W] and weight [O, C, KH, KW]."""
    half = weight.detach().to(x.dtype)
    return unfolded_forward(x.contiguous(memory_format=torch.channels_last), weight, half, stride)


def _pieces(x: Tensor, kernel: tuple[int, int], stride: int) -> tuple[int, int, int]:
    """Return height and width of the output, and how many images to unfold at a time."""
    height, width = ((s - k) // stride + 1 for s, k in zip(x.shape[2:], kernel, strict=True))
    bytes_per_image = height * width * kernel[0] * kernel[1] * x.shape[1] * x.element_size()
    return height, width, max(1, PIECE_BYTES // bytes_per_image)


def _unfold(x: Tensor, kernel: tuple[int, int], stride: int) -> Tensor:
    """Return the inputs of every output, [N * OH * OW, KH * KW * C], of x in channels-last.

    They lie in memory that the next call in this thread uses again.
    """
    N, C = x.shape[:2]
    height, width, _ = _pieces(x, kernel, stride)
    n, _, row, column = x.stride()
    view = x.as_strided(
        (N, height, width, kernel[0], kernel[1] * C), (n, stride * row, stride * column, row, 1),
        x.storage_offset(),
    )  # fmt: skip
    rows = _room(view.numel(), x.dtype).view(view.shape)
    return rows.copy_(view).view(N * height * width, kernel[0] * kernel[1] * C)


def _room(size: int, dtype: torch.dtype) -> Tensor:
    """Return memory for `size` numbers: this thread's, or new if there is too little of it."""
    room: Tensor | None = getattr(_kept, "room", None)
    if room is None or room.numel() < size or room.dtype != dtype:
        with torch.inference_mode(False):  # else training could not write to it later
            room = torch.empty(size, dtype=dtype)
        if size * dtype.itemsize <= PIECE_BYTES:
            _kept.room = room
    return room[:size]


@torch.library.custom_op("capsnet::conv_unfolded", mutates_args=())
def unfolded_forward(x: Tensor, weight: Tensor, half: Tensor, stride: int) -> Tensor:
    """Return y of x in channels-last; half is what is multiplied, weight only gets the gradient."""
    kernel = (weight.shape[2], weight.shape[3])
    height, width, size = _pieces(x, kernel, stride)
    matrix = half.permute(0, 2, 3, 1).reshape(len(half), -1).T
    pieces = [_unfold(piece, kernel, stride) @ matrix for piece in x.split(size)]
    y = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    return y.view(len(x), height, width, len(half)).permute(0, 3, 1, 2)


@unfolded_forward.register_fake
def _(x: Tensor, weight: Tensor, half: Tensor, stride: int) -> Tensor:
    height, width, _ = _pieces(x, (weight.shape[2], weight.shape[3]), stride)
    return x.new_empty(len(x), height, width, len(weight)).permute(0, 3, 1, 2)


@torch.library.custom_op("capsnet::conv_unfolded_wgrad", mutates_args=())
def unfolded_wgrad(
    dy: Tensor, x: Tensor, kernel: list[int], stride: int, dtype: torch.dtype
) -> Tensor:
    """Return dweight [O, C, KH, KW] in `dtype`, channels-last; pieces are added up in it."""
    O, C, (KH, KW) = dy.shape[1], x.shape[1], kernel
    size = _pieces(x, (KH, KW), stride)[2]
    products = (
        dy_piece.permute(0, 2, 3, 1).reshape(-1, O).T @ _unfold(piece, (KH, KW), stride)
        for piece, dy_piece in zip(x.split(size), dy.split(size), strict=True)
    )
    product = next(products).to(dtype)
    for more in products:
        product += more
    return product.view(O, KH, KW, C).permute(0, 3, 1, 2)


@unfolded_wgrad.register_fake
def _(dy: Tensor, x: Tensor, kernel: list[int], stride: int, dtype: torch.dtype) -> Tensor:
    return x.new_empty(dy.shape[1], *kernel, x.shape[1], dtype=dtype).permute(0, 3, 1, 2)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.stride = inputs[3]
    ctx.save_for_backward(*inputs[:3])


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, half = ctx.saved_tensors
    stride, needed = ctx.stride, ctx.needs_input_grad[:2]
    if needs_plain_backward():
        conv = partial(conv_reference, bias=None, stride=stride, relu=False)
        return *plain_gradients(conv, (x, weight), needed, dy), None, None
    dx = dweight = None
    if needed[0]:
        # For this pass the library's own is the best known.
        dx = torch.ops.aten.convolution_backward(
            dy, x, half, None, [stride] * 2, [0, 0], [1, 1], False, [0, 0], 1,
            [True, False, False],
        )[0]  # fmt: skip
    if needed[1]:
        dweight = unfolded_wgrad(dy, x, list(weight.shape[2:]), stride, weight.dtype)
    return dx, dweight, None, None


unfolded_forward.register_autograd(_backward, setup_context=_save)
