"""Triton kernels of squash: one pass forward, one backward.

A program has BR rows of D numbers, [BR, DP] in a tile with DP = D padded; all arithmetic is fp32.
"""
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def squash_factor(s):
    """Return |s| and the factor |s| / (1 + |s|^2) of squash, both [rows, 1], safe for huge s."""
    largest = tl.max(tl.abs(s), 1)[:, None]
    unit = s / tl.where(largest > 0, largest, 1.0)
    length = largest * tl.sqrt(tl.sum(unit * unit, 1))[:, None]
    inverse = 1.0 / tl.where(length > 0, length, 1.0)
    return length, tl.where(length > 0, 1.0 / (length + inverse), 0.0)


@triton.jit
def locate(rows, D: tl.constexpr, DP: tl.constexpr, BR: tl.constexpr):
    """Return where this program's rows start, the places in the tile and which of them exist."""
    first = tl.program_id(0).to(tl.int64) * BR
    row = tl.arange(0, BR)[:, None]
    d = tl.arange(0, DP)[None, :]
    return first * D, row * D + d, (row < rows - first) & (d < D)


@triton.jit
def load_scaled(s_ptr, at, inside):
    """Return s * scale in fp32 and scale [BR, 1]: below 1 where |s| might overflow, else 1.

    From |s| = 2^80 on v is the unit vector in fp32, whatever the length.
    """
    s = tl.load(s_ptr + at, inside, 0.0).to(tl.float32)
    scale = tl.where(tl.max(tl.abs(s), 1) > 2.0**100, 2.0**-20, 1.0)[:, None]
    return s * scale, scale


@triton.jit
def forward_pass(s_ptr, v_ptr, rows, D: tl.constexpr, DP: tl.constexpr, BR: tl.constexpr):
    """Write v = s |s| / (1 + |s|^2)."""
    start, at, inside = locate(rows, D, DP, BR)
    s, _ = load_scaled(s_ptr + start, at, inside)
    tl.store(v_ptr + start + at, s * squash_factor(s)[1], inside)


@triton.jit
def backward_pass(dv_ptr, s_ptr, ds_ptr, rows, D: tl.constexpr, DP: tl.constexpr, BR: tl.constexpr):
    """Write ds = f (dv + unit (unit . dv) (1 - |s|^2) / (1 + |s|^2)), with f = |s| / (1 + |s|^2).

    The fraction is (1 / |s| - |s|) f, whose parts overflow for no |s| above the smallest normal
    number; below it ds is no normal number either, and only has to be finite.
    """
    start, at, inside = locate(rows, D, DP, BR)
    s, scale = load_scaled(s_ptr + start, at, inside)
    dv = tl.load(dv_ptr + start + at, inside, 0.0).to(tl.float32)
    length, factor = squash_factor(s)
    inverse = 1.0 / tl.where(length >= 2.0**-126, length, 1.0)
    unit = s * inverse
    along = tl.sum(unit * dv, 1)[:, None]
    ds = (factor * scale) * (dv + unit * (along * ((inverse - length) * factor)))
    tl.store(ds_ptr + start + at, ds, inside)
