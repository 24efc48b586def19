# mypy: allow-untyped-defs, disable-error-code=assignment
"""Triton kernels of a convolution with few inputs per output, as the first one of a network.

One output position is fixed and a tile runs over images. With the images transposed to
xt [C * H * W + 1, N], the K = C * KH * KW inputs of that position are K rows of xt, read in full
lines; the last row of xt is all ones and stands for inputs that there are not. What is left is
the traffic of the large side, y or dy [N, P * O], channels-last.
"""

import triton
import triton.language as tl


@triton.jit
def load_inputs(
    xt_ptr, NP, k, p, n0, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Return inputs k = (c, ky, kx) of output position p for BM images as [k, n]; 1 from k = K."""
    corner = STRIDE * (p // OW * W + p % OW)
    inner = k // (KH * KW) * (H * W) + k // KW % KH * W + k % KW
    pixel = tl.where(k < C * KH * KW, corner + inner, C * H * W)
    return tl.load(xt_ptr + pixel[:, None] * NP + n0 + tl.arange(0, BM)[None, :])


@triton.jit
def forward_pass(
    xt_ptr, w, bias_ptr, y, NP, tiles,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, P: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, O: tl.constexpr,
    RELU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write y[n, p, o] = bias[o] + sum over k of x[n, p, k] w[o, k].

    w is [O, K] padded with zeros to blocks of BK; a program holds its part of it and takes every
    num_programs-th tile, positions running fastest.
    """
    BLOCKS: tl.constexpr = (C * KH * KW + BK - 1) // BK
    o0 = tl.program_id(1) * BN
    bias = tl.load(bias_ptr + o0 + tl.arange(0, BN)).to(tl.float32)[None, :]
    b = ()
    for block in tl.static_range(BLOCKS):
        b += (w.load([o0, block * BK]),)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        p = tile % P
        n0 = tile // P * BM
        acc = tl.zeros([BM, BN], tl.float32)
        for block in tl.static_range(BLOCKS):
            k = block * BK + tl.arange(0, BK)
            a = load_inputs(xt_ptr, NP, k, p, n0, C, H, W, OW, KH, KW, STRIDE, BM)
            acc = tl.dot(a.T, b[block].T, acc)
        acc += bias
        if RELU:
            acc = tl.maximum(acc, 0.0)
        y.store([n0, p * O + o0], acc.to(y.dtype))


@triton.jit
def wgrad_pass(
    xt_ptr, dy, y, part_ptr, NP, tiles,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, P: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, O: tl.constexpr,
    RELU: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Write partial sums over n and p of dw[k, o] = x[n, p, k] dy[n, p, o].

    With RELU, dy counts where y > 0. Input k = K is the constant 1: its row is the bias gradient.
    """
    k = tl.arange(0, KP)
    o0 = tl.program_id(1) * BN
    acc = tl.zeros([KP, BN], tl.float32)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        p = tile % P
        n0 = tile // P * BM
        a = load_inputs(xt_ptr, NP, k, p, n0, C, H, W, OW, KH, KW, STRIDE, BM)
        b = dy.load([n0, p * O + o0])
        if RELU:
            b = tl.where(y.load([n0, p * O + o0]) > 0, b, 0.0)
        acc = tl.dot(a, b, acc)
    at = (tl.program_id(0) * KP + k[:, None]) * O + o0 + tl.arange(0, BN)[None, :]
    tl.store(part_ptr + at, acc)


@triton.jit
def wgrad_sum(
    part_ptr, dw_ptr, db_ptr, parts, K: tl.constexpr, KP: tl.constexpr,
    O: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """Sum the parts [parts, KP, O] in fixed order: rows k < K to dw [O, K], row K to db [O]."""
    k = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    total = tl.zeros([BP, BO], tl.float32)
    for first in range(0, parts, BP):
        part = first + tl.arange(0, BP)[:, None]
        total += tl.load(part_ptr + (part * KP + k) * O + o[None, :], part < parts, 0.0)
    total = tl.sum(total, 0)
    if k < K:
        tl.store(dw_ptr + o * K + k, total)
    else:
        tl.store(db_ptr + o, total)
