# mypy: allow-untyped-defs
"""Triton kernels of a convolution with many channels: matrix products whose K loop jumps.

One output position (forward) or one input pixel (input gradient) is fixed and a tile runs over
images: x is then the plain matrix [N, H * W * C] and a tap of the filter is a block of its
columns, fetched by the tensor memory accelerator. All operands are channels-last:
x [N, H * W * C], w [O, KH * KW * C], y and dy [N, OH * OW * O].
"""

import triton
import triton.language as tl


@triton.jit
def spans(pid, full, extra, parts, steps):
    """Return the first and last step of one program over the line of all tiles' steps.

    Program pid < full has one whole tile. The steps of the `extra` tiles left over are shared
    out evenly among `parts` programs more, each of which ends up with pieces of one or two tiles.
    """
    if pid < full:
        start = pid * steps
        end = start + steps
    else:
        start = full * steps + (pid - full) * (extra * steps) // parts
        end = full * steps + (pid - full + 1) * (extra * steps) // parts
    return start, end


@triton.jit
def store_part(part_ptr, slot, acc):
    """Write acc [BM, BN] in fp32 as piece `slot`."""
    BM: tl.constexpr = acc.shape[0]
    BN: tl.constexpr = acc.shape[1]
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(part_ptr + slot * (BM * BN) + at, acc)


@triton.jit
def sum_parts(
    part_ptr, tile, row, extra, parts, steps, BM: tl.constexpr, BR: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    """Return rows [row, row + BR) of left-over tile `tile`, its pieces summed in fixed order."""
    line = extra * steps
    first = tl.cdiv((tile * steps + 1) * parts, line) - 1
    last = tl.cdiv((tile + 1) * steps * parts, line) - 1
    at = (row + tl.arange(0, BR)[:, None]) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros([BR, BN], tl.float32)
    for part in range(first, last + 1):
        slot = 2 * part + tile - part * line // parts // steps
        total += tl.load(part_ptr + slot * (BM * BN) + at)
    return total


@triton.jit
def forward_tile(tile, tiles_n, O: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Return output position, first image and first channel of a tile; positions run slowest."""
    tiles_o: tl.constexpr = O // BN
    return tile // (tiles_n * tiles_o), tile // tiles_o % tiles_n * BM, tile % tiles_o * BN


@triton.jit
def forward_pass(
    x, w, bias_ptr, y, part_ptr, tiles_n, full, extra, parts,
    W: tl.constexpr, C: tl.constexpr, O: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, RELU: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write y[n, p, o] = bias[o] + sum over taps t and c of x[n, STRIDE p + t, c] w[o, t, c]."""
    BLOCKS: tl.constexpr = C // BK
    STEPS: tl.constexpr = KH * KW * BLOCKS
    pid = tl.program_id(0)
    start, end = spans(pid, full, extra, parts, STEPS)
    slot = 2 * (pid - full)
    while start < end:
        tile = start // STEPS
        stop = min(end, (tile + 1) * STEPS)
        p, n0, o0 = forward_tile(tile, tiles_n, O, BM, BN)
        corner = STRIDE * (p // OW * W + p % OW)
        acc = tl.zeros([BM, BN], tl.float32)
        for step in range(start - tile * STEPS, stop - tile * STEPS):
            tap = step // BLOCKS
            pixel = corner + tap // KW * W + tap % KW
            a = x.load([n0, pixel * C + step % BLOCKS * BK])
            b = w.load([o0, step * BK])
            acc = tl.dot(a, b.T, acc)
        if pid < full:
            acc += tl.load(bias_ptr + o0 + tl.arange(0, BN)).to(tl.float32)[None, :]
            if RELU:
                acc = tl.maximum(acc, 0.0)
            y.store([n0, p * O + o0], acc.to(y.dtype))
        else:
            store_part(part_ptr, slot, acc)
        slot += 1
        start = stop


@triton.jit
def forward_rest(
    bias_ptr, y_ptr, part_ptr, N, tiles_n, full, extra, parts, steps,
    P: tl.constexpr, O: tl.constexpr, RELU: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """Sum the pieces of the left-over tiles of `forward_pass` and write them to y."""
    tile = tl.program_id(0)
    row = tl.program_id(1) * BR
    acc = sum_parts(part_ptr, tile, row, extra, parts, steps, BM, BR, BN)
    p, n0, o0 = forward_tile(full + tile, tiles_n, O, BM, BN)
    o = o0 + tl.arange(0, BN)[None, :]
    n = n0 + row + tl.arange(0, BR)[:, None]
    acc += tl.load(bias_ptr + o).to(tl.float32)
    if RELU:
        acc = tl.maximum(acc, 0.0)
    tl.store(y_ptr + (n.to(tl.int64) * P + p) * O + o, acc, n < N)


@triton.jit
def taps(at, OUT: tl.constexpr, K: tl.constexpr, STRIDE: tl.constexpr):
    """Return first and number of the taps k = first, first + STRIDE, .. that reach input row `at`.

    Tap k belongs to output (at - k) / STRIDE, which must be a whole number in [0, OUT).
    """
    first = max(at - STRIDE * (OUT - 1), at % STRIDE)
    return first, max(min(at, K - 1) - first + STRIDE, 0) // STRIDE


@triton.jit
def dgrad_pass(
    dy, w, dx, order_ptr, tiles_n,
    W: tl.constexpr, C: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write dx[n, q, c] = sum over taps t and o of dy[n, (q - t) / STRIDE, o] w[o, t, c].

    Only the taps that reach pixel q are visited; positions and taps count from the padding's
    corner, pixels from the image's. order lists the pixels, those with most taps first, so that
    short tiles fill the end.
    """
    BLOCKS: tl.constexpr = O // BK
    tiles_c: tl.constexpr = C // BN
    pid = tl.program_id(0)
    pixel = tl.load(order_ptr + pid // (tiles_n * tiles_c))
    n0 = pid // tiles_c % tiles_n * BM
    c0 = pid % tiles_c * BN
    row, column = pixel // W + PAD, pixel % W + PAD
    ky, count_y = taps(row, OH, KH, STRIDE)
    kx, count_x = taps(column, OW, KW, STRIDE)
    acc = tl.zeros([BM, BN], tl.float32)
    for step in range(count_y * count_x * BLOCKS):
        o0 = step % BLOCKS * BK
        t = step // BLOCKS
        ty = ky + STRIDE * (t // count_x)
        tx = kx + STRIDE * (t % count_x)
        p = (row - ty) // STRIDE * OW + (column - tx) // STRIDE
        a = dy.load([n0, p * O + o0])
        b = w.load([o0, (ty * KW + tx) * C + c0])
        acc = tl.dot(a, b, acc)
    dx.store([n0, pixel * C + c0], acc.to(dx.dtype))


@triton.jit
def wgrad_tile(tile, C: tl.constexpr, O: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Return tap, first output and first input channel of a tile."""
    tiles_o: tl.constexpr = O // BM
    tiles_c: tl.constexpr = C // BN
    return tile // (tiles_o * tiles_c), tile // tiles_c % tiles_o * BM, tile % tiles_c * BN


@triton.jit
def wgrad_pass(
    dy, x, dw_ptr, part_ptr, full, extra, parts, steps,
    W: tl.constexpr, C: tl.constexpr, O: tl.constexpr, OW: tl.constexpr, P: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write dw[o, t, c] = sum over n and p of dy[n, p, o] x[n, STRIDE p + t, c], in fp32.

    A step has BK images at one position; positions run fastest, so that x is read once.
    """
    pid = tl.program_id(0)
    start, end = spans(pid, full, extra, parts, steps)
    slot = 2 * (pid - full)
    while start < end:
        tile = start // steps
        stop = min(end, (tile + 1) * steps)
        tap, o0, c0 = wgrad_tile(tile, C, O, BM, BN)
        corner = tap // KW * W + tap % KW
        acc = tl.zeros([BM, BN], tl.float32)
        for step in range(start - tile * steps, stop - tile * steps):
            n0 = step // P * BK
            p = step % P
            pixel = corner + STRIDE * (p // OW * W + p % OW)
            a = dy.load([n0, p * O + o0])
            b = x.load([n0, pixel * C + c0])
            acc = tl.dot(a.T, b, acc)
        if pid < full:
            o = o0 + tl.arange(0, BM)[:, None]
            c = tap * C + c0 + tl.arange(0, BN)[None, :]
            tl.store(dw_ptr + o * (KH * KW * C) + c, acc)
        else:
            store_part(part_ptr, slot, acc)
        slot += 1
        start = stop


@triton.jit
def wgrad_rest(
    dw_ptr, part_ptr, full, extra, parts, steps,
    C: tl.constexpr, O: tl.constexpr, TAPS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """Sum the pieces of the left-over tiles of `wgrad_pass` and write them to dw."""
    tile = tl.program_id(0)
    row = tl.program_id(1) * BR
    acc = sum_parts(part_ptr, tile, row, extra, parts, steps, BM, BR, BN)
    tap, o0, c0 = wgrad_tile(full + tile, C, O, BM, BN)
    o = o0 + row + tl.arange(0, BR)[:, None]
    c = tap * C + c0 + tl.arange(0, BN)[None, :]
    tl.store(dw_ptr + o * (TAPS * C) + c, acc)


@triton.jit
def sum_rows(x_ptr, out_ptr, rows, each, O: tl.constexpr, BR: tl.constexpr, BO: tl.constexpr):
    """Write out[i, o] = sum of rows [i * each, (i + 1) * each) of x [rows, O], in fp32."""
    start = tl.program_id(0) * each
    end = min(start + each, rows)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    total = tl.zeros([BR, BO], tl.float32)
    for first in range(start, end, BR):
        row = first + tl.arange(0, BR)[:, None]
        total += tl.load(x_ptr + row * O + o[None, :], row < end, 0.0).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * O + o, tl.sum(total, 0))
