"""Convolution with many channels in and out, in Triton: forward, input and weight gradient.

y = conv_wide(x, weight, padded, packed, bias, stride, relu), packed = pack(weight, x.dtype)

Half-precision operands, fp32 sums in a fixed order, weight gradients straight from the fp32 sums.
The kernels (kernels_wide.py) are matrix products over images at a fixed position; README.md says
how they share out the chip.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from capsnet.ops.conv import kernels_wide as kernels
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

REDUCE_ROWS = 8  # of a tile that one program sums over its pieces
SUM_ROWS = 128  # of dy that one program sums for the bias gradient
MIN_STEPS = 8  # of a piece, so that filling the pipeline does not dominate


class Tile(NamedTuple):
    """Block sizes of a product [BM, BK] x [BK, BN] and how it is run."""

    BM: int
    BN: int
    BK: int
    warps: int
    stages: int

    def of(self, M: int, N: int, K: int) -> "Tile":
        """Return the tile for a product of these sizes: no larger blocks, and N and K divided."""
        BM = self.BM if M > self.BM // 2 else self.BM // 2
        warps = self.warps * BM // self.BM
        return self._replace(BM=BM, BN=divisor(N, self.BN), BK=divisor(K, self.BK), warps=warps)

    @property
    def sizes(self) -> dict[str, int]:
        """Arguments of the kernels that only finish tiles."""
        return {"BM": self.BM, "BN": self.BN}

    @property
    def options(self) -> dict[str, int]:
        """Arguments of the matrix products."""
        return {
            **self.sizes,
            "BK": self.BK,
            "num_warps": self.warps,
            "num_stages": self.stages,
        }


# Fastest on an H200 at batches of 64 to 512 of the paper's network; README.md has the others.
FORWARD = Tile(128, 256, 64, 8, 4)
DGRAD = Tile(128, 256, 64, 8, 3)
WGRAD = Tile(128, 256, 64, 8, 3)


class Plan(NamedTuple):
    """Which programs have whole tiles, and how many share out the steps of the others."""

    full: int
    extra: int
    parts: int


def plan(tiles: int, steps: int, slots: int) -> Plan:
    """Share out tiles over a chip that runs `slots` programs at a time, without a ragged end."""
    extra = tiles % slots
    if extra > 0.9 * slots:
        extra = 0
    parts = max(extra, min(slots, extra * steps // MIN_STEPS))
    return Plan(tiles - extra, extra, parts)


def pack(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return weight [O, C, KH, KW] as [O, KH * KW * C] in `dtype`."""
    return weight.detach().to(dtype).permute(0, 2, 3, 1).reshape(len(weight), -1)


def forward(x: Tensor, packed: Tensor, bias: Tensor, s: Shape, relu: bool, tile: Tile) -> Tensor:
    """Return y [N, positions * O] of x [N, H * W * C]."""
    tile = tile.of(s.N, s.O, s.C)
    y = x.new_empty(s.N, s.positions * s.O)
    tiles_n = triton.cdiv(s.N, tile.BM)
    steps = s.KH * s.KW * s.C // tile.BK
    split = plan(s.positions * tiles_n * (s.O // tile.BN), steps, processors(x.device))
    part = _parts(x, split, tile)
    kernels.forward_pass[(split.full + split.parts,)](
        blocks(x, tile.BM, tile.BK), blocks(packed, tile.BN, tile.BK), bias,
        blocks(y, tile.BM, tile.BN), part, tiles_n, *split,
        **s.sizes, RELU=relu, **tile.options,
    )  # fmt: skip
    if split.extra:
        kernels.forward_rest[(split.extra, tile.BM // REDUCE_ROWS)](
            bias, y, part, s.N, tiles_n, *split, steps,
            P=s.positions, O=s.O, RELU=relu, BR=REDUCE_ROWS, **tile.sizes,
        )  # fmt: skip
    return y


def dgrad(dy: Tensor, packed: Tensor, s: Shape, tile: Tile) -> Tensor:
    """Return dx [N, H * W * C] of dy [N, positions * O]; nothing is computed for the padding."""
    tile = tile.of(s.N, s.C, s.O)
    dx = dy.new_empty(s.N, s.H * s.W * s.C)
    tiles_n = triton.cdiv(s.N, tile.BM)
    kernels.dgrad_pass[(s.H * s.W * tiles_n * (s.C // tile.BN),)](
        blocks(dy, tile.BM, tile.BK), blocks(packed, tile.BK, tile.BN),
        blocks(dx, tile.BM, tile.BN), _pixel_order(s._replace(N=1), dy.device), tiles_n,
        **s.sizes, OH=s.OH, PAD=s.padding, **tile.options,
    )  # fmt: skip
    return dx


def wgrad(dy: Tensor, x: Tensor, s: Shape, tile: Tile) -> Tensor:
    """Return dw [O, KH * KW * C] in fp32 of dy [N, positions * O] and x [N, H * W * C]."""
    tile = tile.of(divisor(s.O, tile.BM), s.C, tile.BK)
    taps = s.KH * s.KW
    dw = x.new_empty(s.O, taps * s.C, dtype=torch.float32)
    steps = triton.cdiv(s.N, tile.BK) * s.positions
    split = plan(taps * (s.O // tile.BM) * (s.C // tile.BN), steps, processors(x.device))
    part = _parts(x, split, tile)
    kernels.wgrad_pass[(split.full + split.parts,)](
        blocks(dy, tile.BK, tile.BM), blocks(x, tile.BK, tile.BN), dw, part, *split, steps,
        **s.sizes, P=s.positions, **tile.options,
    )  # fmt: skip
    if split.extra:
        kernels.wgrad_rest[(split.extra, tile.BM // REDUCE_ROWS)](
            dw, part, *split, steps, C=s.C, O=s.O, TAPS=taps, BR=REDUCE_ROWS, **tile.sizes
        )
    return dw


def bias_grad(dy: Tensor, O: int) -> Tensor:
    """Return db [O] in fp32 of dy [N, positions * O], summed in two levels."""
    rows = dy.numel() // O
    parts = triton.cdiv(rows, SUM_ROWS)
    part = dy.new_empty(parts, O, dtype=torch.float32)
    db = dy.new_empty(O, dtype=torch.float32)
    columns = divisor(O, 64)
    for source, out, count, each in ((dy, part, rows, SUM_ROWS), (part, db, parts, parts)):
        kernels.sum_rows[(triton.cdiv(count, each), O // columns)](
            source, out, count, each, O=O, BR=32, BO=columns
        )
    return db


@torch.library.custom_op("capsnet::conv_wide", mutates_args=())
def conv_wide(
    x: Tensor,
    weight: Tensor,
    padded: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    stride: int,
    relu: bool,
) -> Tensor:
    """Return x [N, C, H, W] * weight [O, C, KH, KW] + bias, channels-last, in the dtype of x.

    What is multiplied is padded, x with as many zeros on each of its four sides, and
    packed = pack(weight, x.dtype); x and weight themselves only get the gradients.
    """
    s = shape_of(padded, weight, stride)
    if bias is None:
        bias = x.new_zeros(s.O)
    with device_of(x):
        y = forward(as_rows(padded), packed, bias.contiguous(), s, relu, FORWARD)
    return as_images(y, s.O, s.OH, s.OW)


@conv_wide.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    padded: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    stride: int,
    relu: bool,
) -> Tensor:
    s = shape_of(padded, weight, stride)
    return as_images(x.new_empty(s.N, s.positions * s.O), s.O, s.OH, s.OW)


@torch.library.custom_op("capsnet::conv_wide_dgrad", mutates_args=())
def conv_wide_dgrad(
    dy: Tensor, packed: Tensor, size: list[int], stride: int, padding: int
) -> Tensor:
    """Return dx [N, C, H, W], channels-last, of dy [N, O, OH, OW]; size is [C, H, W, KH, KW]."""
    C, H, W, KH, KW = size
    s = Shape(len(dy), H, W, C, dy.shape[1], KH, KW, stride, padding)
    with device_of(dy):
        return as_images(dgrad(as_rows(dy), packed, s, DGRAD), C, H, W)


@conv_wide_dgrad.register_fake
def _(dy: Tensor, packed: Tensor, size: list[int], stride: int, padding: int) -> Tensor:
    C, H, W = size[:3]
    return as_images(dy.new_empty(len(dy), H * W * C), C, H, W)


@torch.library.custom_op("capsnet::conv_wide_wgrad", mutates_args=())
def conv_wide_wgrad(dy: Tensor, x: Tensor, kernel: list[int], stride: int) -> tuple[Tensor, Tensor]:
    """Return dw [O, C, KH, KW], channels-last, and db [O] in fp32 of dy and x [N, C, H, W]."""
    N, C, H, W = x.shape
    KH, KW = kernel
    s = Shape(N, H, W, C, dy.shape[1], KH, KW, stride)
    with device_of(x):
        rows = as_rows(dy)
        dw = wgrad(rows, as_rows(x), s, WGRAD)
        return as_images(dw, C, KH, KW), bias_grad(rows, s.O)


@conv_wide_wgrad.register_fake
def _(dy: Tensor, x: Tensor, kernel: list[int], stride: int) -> tuple[Tensor, Tensor]:
    O, C, (KH, KW) = dy.shape[1], x.shape[1], kernel
    wide = torch.float32
    dw = x.new_empty(O, KH * KW * C, dtype=wide)
    return as_images(dw, C, KH, KW), x.new_empty(O, dtype=wide)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, padded, packed, bias, ctx.stride, ctx.relu = inputs
    ctx.save_for_backward(x, weight, bias, padded, packed, output if ctx.relu else None)
    ctx.padding = (padded.shape[2] - x.shape[2]) // 2


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, bias, padded, packed, y = ctx.saved_tensors
    needs_x, needs_weight, _, _, needs_bias = ctx.needs_input_grad[:5]
    if needs_plain_backward():
        conv = partial(conv_reference, stride=ctx.stride, relu=ctx.relu, padding=ctx.padding)
        needed = (needs_x, needs_weight, needs_bias)
        dx, dw, db = plain_gradients(conv, (x, weight, bias), needed, dy)
        return dx, dw, None, None, db, None, None
    if ctx.relu:
        dy = torch.ops.aten.threshold_backward(dy, y, 0)
    dx = dw = db = None
    if needs_x:
        size = [*x.shape[1:], *weight.shape[2:]]
        dx = conv_wide_dgrad(dy, packed, size, ctx.stride, ctx.padding)
    if needs_weight or needs_bias:
        dw, db = conv_wide_wgrad(dy, padded, list(weight.shape[2:]), ctx.stride)
        dw, db = dw.to(weight.dtype), None if bias is None else db.to(bias.dtype)
    return dx, dw, None, None, db, None, None


conv_wide.register_autograd(_backward, setup_context=_save)


def _parts(x: Tensor, split: Plan, tile: Tile) -> Tensor:
    """Return room for the pieces of tiles, at most two a program."""
    return x.new_empty(2 * split.parts, tile.BM, tile.BN, dtype=torch.float32)


@lru_cache
def _pixel_order(s: Shape, device: torch.device) -> Tensor:
    """Return the pixels of the input as int32, those in most windows first."""
    counts = torch.nn.functional.conv_transpose2d(
        torch.ones(1, 1, s.OH, s.OW), torch.ones(1, 1, s.KH, s.KW), stride=s.stride
    )
    right, bottom = s.W + s.padding - counts.shape[3], s.H + s.padding - counts.shape[2]
    counts = torch.nn.functional.pad(counts, (-s.padding, right, -s.padding, bottom)).flatten()
    return counts.argsort(descending=True, stable=True).int().to(device)
