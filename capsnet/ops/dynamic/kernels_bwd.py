"""Triton kernels of the backward pass; tiles and names as in kernels_fwd.py.

With dS the gradient at s, c = exp(b - lse) and delta_i = sum_j c_ij dc_ij, iteration t needs
  dc_ij = u_i . (W_ij^T dS_j)          db_ij = c_ij (dc_ij - delta_i)
  dA_j  = sum_i db_ij u_hat_ij         du_i  = sum_j db_ij W_ij^T A_j + c_ij W_ij^T dS_j
  dW_ij = sum_n (db_ij A_j + c_ij dS_j) u_i^T
and in the first iteration c is uniform, db is zero. A_j and dS_j are stored and used as one pair
a_j, [2, BN, EP] in a tile: with the pair of weights k_ij = (db_ij, c_ij), du = sum k W^T a and
dW = sum k a u^T.
"""
# mypy: ignore-errors

import triton
import triton.language as tl

from capsnet.ops.dynamic.kernels_fwd import (
    couple,
    load_capsules,
    load_state,
    load_u,
    load_w,
    spread,
    store_capsules,
    sum_parts,
)
from capsnet.ops.squash.kernels import squash_factor


@triton.jit
def load_pair(a_ptr, n0, j, N, JP: tl.constexpr, EP: tl.constexpr, BN: tl.constexpr):
    """Return (A_j, dS_j) of the samples from n0 on as [2 * BN, EP]; stored as [2, N, JP, EP]."""
    row = tl.arange(0, 2 * BN)[:, None]
    n = n0 + row % BN
    at = (row // BN * N + n) * (JP * EP) + j * EP
    return tl.load(a_ptr + at + tl.arange(0, EP)[None, :], n < N, 0.0)


@triton.jit
def project_pair(a, w, DP: tl.constexpr, BI: tl.constexpr, PRECISION: tl.constexpr):
    """Return W_ij,d . a_j of a pair as [2, BN, DP, BI]."""
    g = tl.dot(a, w, input_precision=PRECISION)
    return g.reshape(2, a.shape[0] // 2, DP, BI)


@triton.jit
def agreements(g, u):
    """Return u_i . g_i of a pair: the logits b and the gradient dc, both [BN, BI]."""
    return tl.sum(g * u[None, :, :, :], 2).permute(1, 2, 0).split()


@triton.jit
def delta_pass(
    u_ptr,
    w_ptr,
    a_ptr,
    lse_ptr,
    delta_ptr,
    N,
    I,
    J,
    D: tl.constexpr,
    PRECISION: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
):
    """Write delta_i = sum_j c_ij dc_ij, the mean the softmax takes from its gradient."""
    n0 = tl.program_id(0) * BN
    n = n0 + tl.arange(0, BN)
    block = tl.program_id(1)
    u = load_u(u_ptr, n, block, N, I, D, DP, BI)
    lse = load_capsules(lse_ptr, 0, n, block, N, I, BI)
    delta = tl.zeros([BN, BI], tl.float32)
    for j in range(J):
        w = load_w(w_ptr, block, j, 0, JP, EP, DP * BI)
        a = load_pair(a_ptr, n0, j, N, JP, EP, BN)
        b, dc = agreements(project_pair(a, w, DP, BI, PRECISION), u)
        delta += couple(b, lse) * dc
    store_capsules(delta_ptr, delta, n, block, N, I, BI)


@triton.jit
def dstate_pass(
    u_ptr,
    w_ptr,
    a_ptr,
    lse_ptr,
    delta_ptr,
    part_ptr,
    N,
    I,
    blocks,
    per_split,
    D: tl.constexpr,
    GROUPS: tl.constexpr,
    PRECISION: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
):
    """Write partial sums over i of dA_j = sum_i db_ij u_hat_ij to part; programs as in sum_pass."""
    JG: tl.constexpr = JP // GROUPS
    n0 = tl.program_id(0) * BN
    n = n0 + tl.arange(0, BN)
    j0 = tl.program_id(1) * JG
    split = tl.program_id(2)
    a = ()
    da = ()
    for g in tl.static_range(JG):
        a += (load_pair(a_ptr, n0, j0 + g, N, JP, EP, BN),)
        da += (tl.zeros([BN, EP], tl.float32),)
    for block in range(split * per_split, min(blocks, (split + 1) * per_split)):
        u = load_u(u_ptr, n, block, N, I, D, DP, BI)
        lse = load_capsules(lse_ptr, 0, n, block, N, I, BI)
        delta = load_capsules(delta_ptr, 0, n, block, N, I, BI)
        new = ()
        for g in tl.static_range(JG):
            w = load_w(w_ptr, block, j0, g, JP, EP, DP * BI)
            b, dc = agreements(project_pair(a[g], w, DP, BI, PRECISION), u)
            new += (spread(couple(b, lse) * (dc - delta), u, w, da[g], PRECISION),)
        da = new
    e = tl.arange(0, EP)[None, :]
    for g in tl.static_range(JG):
        rows = (split * N + n[:, None]) * JP + j0 + g
        tl.store(part_ptr + rows.to(tl.int64) * EP + e, da[g], n[:, None] < N)


@triton.jit
def squash_backward_pass(
    part_ptr,
    dv_ptr,
    s_ptr,
    a_ptr,
    dstate_ptr,
    sum_ptr,
    pair_ptr,
    rows,
    splits,
    t,
    J,
    scale,
    E: tl.constexpr,
    LAST: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    BR: tl.constexpr,
):
    """Write dS of iteration t, the gradient at s for what arrives at v; rows as in update_pass.

    At the last v that is dv [N, J, E]; at an earlier one the sum of dA of all later iterations,
    kept in dstate. The pair (A, dS * scale) of iteration t is written to
    pair [R, 2, N, JP, EP]; dS is added up over t in sum.
    With f = |s| / (1 + |s|^2): ds = f dv + s (s . dv) (1 - |s|^2) / (|s| (1 + |s|^2)^2).
    """
    row0 = tl.program_id(0) * BR
    row = row0 + tl.arange(0, BR)[:, None]
    e = tl.arange(0, EP)[None, :]
    j = row % JP
    inside = row < rows
    at = row * EP + e
    if LAST:
        mask = inside & (j < J) & (e < E)
        dv = tl.load(dv_ptr + (row // JP * J + j) * E + e, mask, 0.0).to(tl.float32)
        tl.store(dstate_ptr + at, tl.zeros([BR, EP], tl.float32), inside)
    else:
        dv = tl.load(dstate_ptr + at, inside, 0.0)
        dv += sum_parts(part_ptr, row0, rows, splits, EP, BR)
        tl.store(dstate_ptr + at, dv, inside)
    s = tl.load(s_ptr + t * rows * EP + at, inside, 0.0)
    length, factor = squash_factor(s)
    unit = s / tl.where(length > 0, length, 1.0)
    along = tl.sum(unit * dv, 1)[:, None]
    # |s| f' = f (1 - |s|^2) / (1 + |s|^2), the last fraction written so that |s|^2 cannot overflow.
    inverse = 1.0 / tl.where(length > 0, length, 1.0)
    ratio = tl.where(length > 1, inverse, length)
    ratio = (1.0 - ratio * ratio) / (1.0 + ratio * ratio) * tl.where(length > 1, -1.0, 1.0)
    ds = factor * (dv + unit * along * ratio)
    pair_ptr += 2 * t * rows * EP
    if t > 0:
        tl.store(pair_ptr + at, tl.load(a_ptr + t * rows * EP + at, inside, 0.0), inside)
    tl.store(pair_ptr + rows * EP + at, ds * scale, inside)
    if not LAST:
        ds += tl.load(sum_ptr + at, inside, 0.0)
    tl.store(sum_ptr + at, ds, inside)


@triton.jit
def du_pass(
    u_ptr,
    w_ptr,
    a_ptr,
    lse_ptr,
    delta_ptr,
    du_ptr,
    N,
    I,
    J,
    size,
    D: tl.constexpr,
    R: tl.constexpr,
    FIRST: tl.constexpr,
    FULL: tl.constexpr,
    PRECISION: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
):
    """Write du_i = sum over iterations and j of k_ij W_ij^T a_j as [N, I, D]."""
    n0 = tl.program_id(0) * BN
    n = n0 + tl.arange(0, BN)
    block = tl.program_id(1)
    u = load_u(u_ptr, n, block, N, I, D, DP, BI)
    du = tl.zeros([BN, DP * BI], tl.float32)
    for j in range(J):
        w = load_w(w_ptr, block, j, 0, JP, EP, DP * BI)
        if FIRST == 0:
            du = tl.dot(load_state(a_ptr + size, n, j, N, JP, EP), w, du, input_precision=PRECISION)
        for t in tl.static_range(FIRST, R):
            if t > 0:
                lse = load_capsules(lse_ptr, t - 1, n, block, N, I, BI)
                a = load_pair(a_ptr + t * 2 * size, n0, j, N, JP, EP, BN)
                g = project_pair(a, w, DP, BI, PRECISION)
                b, dc = agreements(g, u)
                wa, ws = g.permute(1, 2, 3, 0).split()
                c = couple(b, lse)
                if FULL:
                    delta = load_capsules(delta_ptr, t - 1, n, block, N, I, BI)
                    du += ((c * (dc - delta))[:, None, :] * wa).reshape(BN, DP * BI)
                du += (c[:, None, :] * ws).reshape(BN, DP * BI)
    i = block * BI + tl.arange(0, BI)[None, None, :]
    d = tl.arange(0, DP)[None, :, None]
    n = n[:, None, None]
    at = du_ptr + n.to(tl.int64) * (I * D) + i * D + d
    tl.store(at, du.reshape(BN, DP, BI), (n < N) & (i < I) & (d < D))


@triton.jit
def transpose_pass(
    u_ptr,
    ut_ptr,
    N,
    I,
    D: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
):
    """Write u [N, I, D] as ut [blocks * DP * BI, N], the rows of dw_pass, zero where padded."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)[None, None, :]
    block = tl.program_id(1)
    d = tl.arange(0, DP)[:, None, None]
    k = tl.arange(0, BI)[None, :, None]
    i = block * BI + k
    u_at = u_ptr + n.to(tl.int64) * (I * D) + i * D + d
    u = tl.load(u_at, (n < N) & (i < I) & (d < D), 0.0)
    tl.store(ut_ptr + ((block * DP + d) * BI + k).to(tl.int64) * N + n, u, n < N)


@triton.jit
def load_blocks(ptr, plane, n0, block, N, I, NB: tl.constexpr, BI: tl.constexpr, BN: tl.constexpr):
    """Read NB blocks of capsules of one plane of [planes, I, N] as [NB, BI, BN]."""
    i = (block + tl.arange(0, NB)[:, None, None]) * BI + tl.arange(0, BI)[None, :, None]
    n = n0 + tl.arange(0, BN)[None, None, :]
    return tl.load(ptr + (i.to(tl.int64) + plane * I) * N + n, (n < N) & (i < I), 0.0)


@triton.jit
def dw_pass(
    ut_ptr,
    w_ptr,
    a_ptr,
    lse_ptr,
    delta_ptr,
    dw_ptr,
    N,
    I,
    J,
    blocks,
    size,
    D: tl.constexpr,
    E: tl.constexpr,
    R: tl.constexpr,
    FIRST: tl.constexpr,
    FULL: tl.constexpr,
    PRECISION: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
    NB: tl.constexpr,
):
    """Write dW_ij = sum over iterations and n, in order, of k_ij a_j u_i^T as [I, J, E, D].

    A program has NB blocks of capsules, one a warp, and one parent. Tiles are transposed,
    [NB * DP * BI, BN], so that the sum over n is the inner index of a product; ut is u in that
    order, which the compiler can fetch ahead. Of the DP * BI = 64 rows of a block a warp holds 4
    times 16 in its registers: rows are ordered (4, NB, 16).
    """
    block = tl.program_id(0) * NB
    j = tl.program_id(1)
    quarter = tl.arange(0, 4)[:, None, None, None]
    part = block + tl.arange(0, NB)[None, :, None, None]
    row = tl.arange(0, 16)[None, None, :, None]
    e = tl.arange(0, EP)[None, None, None, :]
    w_at = w_ptr + (part * JP + j) * (EP * 64) + e * 64 + quarter * 16 + row
    w = tl.load(w_at, part < blocks, 0.0).reshape(NB * 64, EP)
    part = block + tl.arange(0, NB)[:, None, None, None]
    d = tl.arange(0, DP)[None, :, None, None]
    k = tl.arange(0, BI)[None, None, :, None]
    ut_at = ut_ptr + ((part * DP + d) * BI + k).to(tl.int64) * N
    is_state = tl.arange(0, 2)[None, None, :, None] == 0  # of the pair (A, dS)
    dw = tl.zeros([NB * 64, EP], tl.float32)
    for n0 in range(0, N, BN):
        n = n0 + tl.arange(0, BN)[None, None, None, :]
        u = tl.load(ut_at + n, (n < N) & (part < blocks), 0.0)
        if FIRST == 0:
            x = u.reshape(NB, 4, 16, BN).permute(1, 0, 2, 3).reshape(NB * 64, BN)
            a = load_state(a_ptr + size, n0 + tl.arange(0, BN), j, N, JP, EP)
            dw = tl.dot(x, a, dw, input_precision=PRECISION)
        u = u.to(tl.float32)[:, :, :, None, :]
        for t in tl.static_range(FIRST, R):
            if t > 0:
                a = load_pair(a_ptr + t * 2 * size, n0, j, N, JP, EP, BN)
                g = tl.dot(w, tl.trans(a), input_precision=PRECISION).reshape(4, NB, 16, 2, BN)
                g = g.permute(1, 0, 2, 3, 4).reshape(NB, DP, BI, 2, BN)
                # The pair (b, dc) becomes the pair of weights without leaving its registers.
                pair = tl.sum(g * u, 1)
                lse = load_blocks(lse_ptr, t - 1, n0, block, N, I, NB, BI, BN)
                c = couple(tl.sum(tl.where(is_state, pair, 0.0), 2), lse)
                weight = tl.where(is_state, 0.0, c[:, :, None, :])
                if FULL:
                    dc = tl.sum(tl.where(is_state, 0.0, pair), 2)
                    delta = load_blocks(delta_ptr, t - 1, n0, block, N, I, NB, BI, BN)
                    weight = tl.where(is_state, (c * (dc - delta))[:, :, None, :], weight)
                x = (weight[:, None, :, :, :] * u).to(w.dtype)
                x = x.reshape(NB, 4, 16, 2 * BN).permute(1, 0, 2, 3).reshape(NB * 64, 2 * BN)
                dw = tl.dot(x, a, dw, input_precision=PRECISION)
    dw = dw.reshape(4, NB, 16, EP).permute(1, 0, 2, 3).reshape(NB, DP, BI, EP)
    i = part * BI + k
    at = dw_ptr + ((i * J + j).to(tl.int64) * E + e) * D + d
    tl.store(at, dw, (i < I) & (d < D) & (e < E))
