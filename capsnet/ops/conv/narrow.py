"""Convolution with few inputs per output, in Triton: forward, weight and bias gradient.

y, xt = conv_narrow(x, weight, packed, bias, stride, relu), packed = pack(weight, torch.bfloat16)

There is no input gradient: this is for the first layer. Bias and ReLU are part of the one pass
over y; the ReLU's mask and the bias gradient are part of the one pass over dy.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from capsnet.ops.conv import kernels_narrow as kernels
from capsnet.ops.conv.geometry import (
    Shape,
    as_images,
    as_rows,
    blocks,
    device_of,
    divisor,
    shape_of,
)
from capsnet.ops.conv.reference import conv_reference
from capsnet.ops.gpu import processors
from capsnet.ops.plain import needs_plain_backward, plain_gradients

BLOCK_K = 32
IMAGES = 128  # xt is padded to a multiple, so that tiles need no mask


class Tile(NamedTuple):
    """BM images at one position by BN output channels, and how it is run."""

    BM: int
    BN: int
    warps: int
    stages: int
    per_sm: int  # programs a multiprocessor runs at once

    def count(self, s: Shape) -> int:
        """Return the number of tiles that cover images and positions."""
        return triton.cdiv(s.N, self.BM) * s.positions

    def grid(self, x: Tensor, s: Shape) -> tuple[int, int]:
        """Return the number of programs over tiles and over channels."""
        columns = s.O // self.BN
        return min(self.count(s), max(1, self.per_sm * processors(x.device) // columns)), columns

    @property
    def options(self) -> dict[str, int]:
        """Arguments of the kernel."""
        sizes = {"BM": self.BM, "BN": self.BN}
        return {**sizes, "num_warps": self.warps, "num_stages": self.stages}


# Fastest on an H200 at batches of 128 and 512 of the paper's network; README.md has the others.
FORWARD = Tile(64, 256, 4, 2, 2)
WGRAD = Tile(64, 256, 8, 3, 1)


def pack(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return weight [O, C, KH, KW] as [O, K] in `dtype`, K padded with zeros to full blocks."""
    w = weight.detach().flatten(1)
    packed = w.new_zeros(len(w), triton.cdiv(w.shape[1], BLOCK_K) * BLOCK_K, dtype=dtype)
    packed[:, : w.shape[1]] = w
    return packed


def transpose(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x [N, C, H, W] as xt [C * H * W + 1, N padded] in `dtype`; the last row is ones."""
    N = len(x)
    xt = x.new_ones(x[0].numel() + 1, triton.cdiv(N, IMAGES) * IMAGES, dtype=dtype)
    xt[:-1, :N] = x.flatten(1).t()
    return xt


def forward(xt: Tensor, packed: Tensor, bias: Tensor, s: Shape, relu: bool, tile: Tile) -> Tensor:
    """Return y [N, positions * O] of xt [C * H * W + 1, N padded]."""
    tile = tile._replace(BN=divisor(s.O, tile.BN))
    y = xt.new_empty(s.N, s.positions * s.O)
    kernels.forward_pass[tile.grid(xt, s)](
        xt, blocks(packed, tile.BN, BLOCK_K), bias, blocks(y, tile.BM, tile.BN),
        xt.shape[1], tile.count(s),
        **s.sizes, H=s.H, P=s.positions, RELU=relu, BK=BLOCK_K, **tile.options,
    )  # fmt: skip
    return y


def wgrad(dy: Tensor, y: Tensor | None, xt: Tensor, s: Shape, tile: Tile) -> tuple[Tensor, Tensor]:
    """Return dw [O, C * KH * KW] and db [O] in fp32; with y given, dy counts where y > 0."""
    tile = tile._replace(BN=divisor(s.O, tile.BN))
    K = s.C * s.KH * s.KW
    KP = max(64, triton.next_power_of_2(K + 1))
    grid = tile.grid(xt, s)
    part = xt.new_empty(grid[0], KP, s.O, dtype=torch.float32)
    dw = xt.new_empty(s.O, K, dtype=torch.float32)
    db = xt.new_empty(s.O, dtype=torch.float32)
    kernels.wgrad_pass[grid](
        xt, blocks(dy, tile.BM, tile.BN), blocks(dy if y is None else y, tile.BM, tile.BN), part,
        xt.shape[1], tile.count(s),
        **s.sizes, H=s.H, P=s.positions, RELU=y is not None, KP=KP, **tile.options,
    )  # fmt: skip
    columns = divisor(s.O, 64)
    kernels.wgrad_sum[(K + 1, s.O // columns)](
        part, dw, db, grid[0], K=K, KP=KP, O=s.O, BO=columns, BP=16
    )
    return dw, db


@torch.library.custom_op("capsnet::conv_narrow", mutates_args=())
def conv_narrow(
    x: Tensor, weight: Tensor, packed: Tensor, bias: Tensor | None, stride: int, relu: bool
) -> tuple[Tensor, Tensor]:
    """Return x [N, C, H, W] * weight [O, C, KH, KW] + bias, channels-last, and xt for the backward.

    packed = pack(weight, dtype) is what is multiplied; weight itself only gets the gradient.
    """
    s = shape_of(x, weight, stride)
    if bias is None:
        bias = packed.new_zeros(s.O)
    with device_of(x):
        xt = transpose(x, packed.dtype)
        y = forward(xt, packed, bias.contiguous(), s, relu, FORWARD)
    return as_images(y, s.O, s.OH, s.OW), xt


@conv_narrow.register_fake
def _(
    x: Tensor, weight: Tensor, packed: Tensor, bias: Tensor | None, stride: int, relu: bool
) -> tuple[Tensor, Tensor]:
    s = shape_of(x, weight, stride)
    y = packed.new_empty(s.N, s.positions * s.O)
    xt = packed.new_empty(s.C * s.H * s.W + 1, (s.N + IMAGES - 1) // IMAGES * IMAGES)
    return as_images(y, s.O, s.OH, s.OW), xt


@torch.library.custom_op("capsnet::conv_narrow_wgrad", mutates_args=())
def conv_narrow_wgrad(
    dy: Tensor, y: Tensor | None, xt: Tensor, size: list[int], stride: int
) -> tuple[Tensor, Tensor]:
    """Return dw [O, C, KH, KW] and db [O] in fp32; size is [C, H, W, KH, KW].

    With y given, dy counts where y > 0.
    """
    C, H, W, KH, KW = size
    s = Shape(len(dy), H, W, C, dy.shape[1], KH, KW, stride)
    with device_of(dy):
        dw, db = wgrad(as_rows(dy), None if y is None else as_rows(y), xt, s, WGRAD)
    return dw.view(s.O, C, KH, KW), db


@conv_narrow_wgrad.register_fake
def _(
    dy: Tensor, y: Tensor | None, xt: Tensor, size: list[int], stride: int
) -> tuple[Tensor, Tensor]:
    C, _, _, KH, KW = size
    O, wide = dy.shape[1], torch.float32
    return dy.new_empty(O, C, KH, KW, dtype=wide), dy.new_empty(O, dtype=wide)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, _, bias, ctx.stride, ctx.relu = inputs
    y, xt = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(weight, bias, xt, y if ctx.relu else None)
    ctx.size = list(x.shape[1:])


def _backward(ctx: Any, dy: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if dy is None:
        return (None,) * 6
    weight, bias, xt, y = ctx.saved_tensors
    if needs_plain_backward():
        x = xt[:-1, : len(dy)].t().reshape(len(dy), *ctx.size)
        conv = partial(conv_reference, x, stride=ctx.stride, relu=ctx.relu)
        needed = (ctx.needs_input_grad[1], ctx.needs_input_grad[3])
        dw, dbias = plain_gradients(conv, (weight, bias), needed, dy)
        return None, dw, None, dbias, None, None
    size = [*ctx.size, *weight.shape[2:]]
    dw, db = conv_narrow_wgrad(dy, y, xt, size, ctx.stride)
    dbias = None if bias is None else db.to(bias.dtype)
    return None, dw.to(weight.dtype), None, dbias, None, None


conv_narrow.register_autograd(_backward, setup_context=_save)
