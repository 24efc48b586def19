"""Triton kernels of the forward pass: logits, couplings and sums without votes.

Tiles are [BN samples, DP * BI], column d * BI + i: a thread of the matrix units then holds all
components d of its capsules and sums over them without leaving its registers. W comes packed in
the same order, [blocks of BI capsules, JP, EP, DP * BI] (fused.py); DP, EP, JP are D, E, J padded.
"""
# mypy: ignore-errors

import triton
import triton.language as tl

from capsnet.ops.squash.kernels import squash_factor


@triton.jit
def load_u(u_ptr, n, block, N, I, D: tl.constexpr, DP: tl.constexpr, BI: tl.constexpr):
    """Return u_id of samples n and one block of capsules as fp32 [BN, DP, BI], zero outside."""
    i = block * BI + tl.arange(0, BI)[None, None, :]
    d = tl.arange(0, DP)[None, :, None]
    n = n[:, None, None]
    u = tl.load(u_ptr + n.to(tl.int64) * (I * D) + i * D + d, (n < N) & (i < I) & (d < D), 0.0)
    return u.to(tl.float32)


@triton.jit
def load_w(w_ptr, block, j, g: tl.constexpr, JP: tl.constexpr, EP: tl.constexpr, K: tl.constexpr):
    """Return W_(j+g) of one block of capsules as [EP, K = DP * BI]."""
    e = tl.arange(0, EP)[:, None]
    k = tl.arange(0, K)[None, :]
    at = w_ptr + (block * JP + j) * (EP * K) + e * K + k
    return tl.load(at + g * (EP * K))


@triton.jit
def load_state(a_ptr, n, j, N, JP: tl.constexpr, EP: tl.constexpr):
    """Return a_j (A, or dS) of samples n as [BN, EP]."""
    n = n[:, None]
    return tl.load(a_ptr + (n * JP + j) * EP + tl.arange(0, EP)[None, :], n < N, 0.0)


@triton.jit
def project(a, w, DP: tl.constexpr, BI: tl.constexpr, PRECISION: tl.constexpr):
    """Return g_id = W_ij,d . a_j as [BN, DP, BI]: what capsule j asks of each component of u_i."""
    g = tl.dot(a, w, input_precision=PRECISION)
    return g.reshape(a.shape[0], DP, BI)


@triton.jit
def spread(c, u, w, acc, PRECISION: tl.constexpr):
    """Return acc + sum_(i,d) (c_i u_id) W_ij,d as [BN, EP]; c is [BN, BI]."""
    x = (c[:, None, :] * u).to(w.dtype).reshape(u.shape[0], w.shape[1])
    return tl.dot(x, tl.trans(w), acc, input_precision=PRECISION)


@triton.jit
def couple(b, lse):
    """Return c = exp(b - lse) <= 1, also when a huge b was rounded otherwise than in lse."""
    return tl.exp(tl.minimum(b - lse, 0.0))


@triton.jit
def store_capsules(ptr, value, n, block, N, I, BI: tl.constexpr):
    """Write value [BN, BI] to [I, N]."""
    i = block * BI + tl.arange(0, BI)[None, :]
    n = n[:, None]
    tl.store(ptr + i.to(tl.int64) * N + n, value, (n < N) & (i < I))


@triton.jit
def load_capsules(ptr, plane, n, block, N, I, BI: tl.constexpr):
    """Read [BN, BI] of one plane of [planes, I, N]."""
    i = block * BI + tl.arange(0, BI)[None, :]
    n = n[:, None]
    return tl.load(ptr + (i.to(tl.int64) + plane * I) * N + n, (n < N) & (i < I), 0.0)


@triton.jit
def lse_pass(
    u_ptr,
    w_ptr,
    a_ptr,
    lse_ptr,
    N,
    I,
    J,
    D: tl.constexpr,
    LEAKY: tl.constexpr,
    PRECISION: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
):
    """Write lse_i = log sum_j exp(b_ij), b_ij = u_i . (W_ij^T A_j), for many parents."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    block = tl.program_id(1)
    u = load_u(u_ptr, n, block, N, I, D, DP, BI)
    top = tl.full([BN, BI], 0.0 if LEAKY else float("-inf"), tl.float32)
    total = tl.full([BN, BI], 1.0 if LEAKY else 0.0, tl.float32)
    for j in range(J):
        a = load_state(a_ptr, n, j, N, JP, EP)
        b = tl.sum(
            project(a, load_w(w_ptr, block, j, 0, JP, EP, DP * BI), DP, BI, PRECISION) * u, 1
        )
        new = tl.maximum(top, b)
        total = total * tl.exp(top - new) + tl.exp(b - new)
        top = new
    store_capsules(lse_ptr, top + tl.log(total), n, block, N, I, BI)


@triton.jit
def sum_pass(
    u_ptr,
    w_ptr,
    a_ptr,
    lse_ptr,
    part_ptr,
    N,
    I,
    J: tl.constexpr,
    blocks,
    per_split,
    D: tl.constexpr,
    FIRST: tl.constexpr,
    LEAKY: tl.constexpr,
    GROUPS: tl.constexpr,
    PRECISION: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    DP: tl.constexpr,
    BI: tl.constexpr,
    BN: tl.constexpr,
):
    """Write partial sums over i of s_j = sum_i c_ij u_hat_ij, c_i = softmax_j(b_i), to part.

    A program has BN samples, one group of JP / GROUPS parents and the capsules of one split.
    With a single group the softmax is taken here and lse is written; else lse is read.
    In the first iteration c is 1 / J and only the sum is left.
    """
    JG: tl.constexpr = JP // GROUPS
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    j0 = tl.program_id(1) * JG
    split = tl.program_id(2)
    a = ()
    s = ()
    for g in tl.static_range(JG):
        if not FIRST:
            a += (load_state(a_ptr, n, j0 + g, N, JP, EP),)
        s += (tl.zeros([BN, EP], tl.float32),)
    for block in range(split * per_split, min(blocks, (split + 1) * per_split)):
        u = load_u(u_ptr, n, block, N, I, D, DP, BI)
        c = ()
        if not FIRST:
            for g in tl.static_range(JG):
                w = load_w(w_ptr, block, j0, g, JP, EP, DP * BI)
                c += (tl.sum(project(a[g], w, DP, BI, PRECISION) * u, 1),)
            if GROUPS == 1:
                top = c[0]
                for g in tl.static_range(1, J):
                    top = tl.maximum(top, c[g])
                if LEAKY:
                    top = tl.maximum(top, 0.0)
                p = ()
                total = tl.exp(-top) if LEAKY else tl.zeros_like(top)
                for g in tl.static_range(JG):
                    p += (tl.exp(c[g] - top),)
                    total += p[g]
                store_capsules(lse_ptr, top + tl.log(total), n, block, N, I, BI)
                scale = 1.0 / total
                c = p
            else:
                lse = load_capsules(lse_ptr, 0, n, block, N, I, BI)
        new = ()
        for g in tl.static_range(JG):
            w = load_w(w_ptr, block, j0, g, JP, EP, DP * BI)
            if FIRST:
                x = u.to(w.dtype).reshape(BN, DP * BI)
                new += (tl.dot(x, tl.trans(w), s[g], input_precision=PRECISION),)
            elif GROUPS == 1:
                new += (spread(c[g] * scale, u, w, s[g], PRECISION),)
            else:
                new += (spread(couple(c[g], lse), u, w, s[g], PRECISION),)
        s = new
    uniform = 1.0 / (J + LEAKY) if FIRST else 1.0
    e = tl.arange(0, EP)[None, :]
    for g in tl.static_range(JG):
        rows = (split * N + n[:, None]) * JP + j0 + g
        tl.store(part_ptr + rows.to(tl.int64) * EP + e, s[g] * uniform, n[:, None] < N)


@triton.jit
def sum_parts(part_ptr, row0, rows, splits, EP: tl.constexpr, BR: tl.constexpr):
    """Return the sum over the splits of part [splits, rows, EP] from row0 on as [BR, EP]."""
    at = row0 * EP + tl.arange(0, BR * EP)[None, :]
    total = tl.zeros([BR * EP], tl.float32)
    for first in range(0, splits, 16):  # sixteen loads at a time are under way
        k = first + tl.arange(0, 16)[:, None]
        part = tl.load(part_ptr + k * (rows * EP) + at, (k < splits) & (at < rows * EP), 0.0)
        total += tl.sum(part, 0)
    return total.reshape(BR, EP)


@triton.jit
def update_pass(
    part_ptr,
    bias_ptr,
    s_ptr,
    a_ptr,
    v_ptr,
    rows,
    splits,
    t,
    J,
    E: tl.constexpr,
    LAST: tl.constexpr,
    JP: tl.constexpr,
    EP: tl.constexpr,
    BR: tl.constexpr,
):
    """Close iteration t: s = sum of the parts + bias, then the state A = sum_(tau<=t) squash(s).

    Rows are (n, j) over JP parents; s is [R, N, JP, EP] in fp32, A the same in the dtype of u.
    In the last iteration v = squash(s) is written as [N, J, E] instead of A.
    """
    row0 = tl.program_id(0) * BR
    row = row0 + tl.arange(0, BR)[:, None]
    e = tl.arange(0, EP)[None, :]
    j = row % JP
    inside = row < rows
    at = row * EP + e
    s = sum_parts(part_ptr, row0, rows, splits, EP, BR)
    if bias_ptr is not None:
        s += tl.load(bias_ptr + j * E + e, inside & (j < J) & (e < E), 0.0).to(tl.float32)
    tl.store(s_ptr + t * rows * EP + at, s, inside)
    v = s * squash_factor(s)[1]
    if LAST:
        tl.store(v_ptr + (row // JP * J + j) * E + e, v, inside & (j < J) & (e < E))
    else:
        for k in range(t):
            earlier = tl.load(s_ptr + k * rows * EP + at, inside, 0.0)
            v += earlier * squash_factor(earlier)[1]
        tl.store(a_ptr + (t + 1) * rows * EP + at, v, inside)
