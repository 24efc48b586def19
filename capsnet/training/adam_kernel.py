"""One pass of Adam and of the weights' average over many parameters, in one launch.

A program has BLOCK neighbours in memory of one parameter; all arithmetic is fp32 but beta^t.
"""
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def pick(choices, starts, block):
    """Return that of the choices, one per parameter, whose parameter has this block."""
    chosen = choices[0]
    for i in tl.static_range(1, len(choices)):
        chosen = tl.where(block >= starts[i], choices[i], chosen)
    return chosen


@triton.jit
def update(
    p_ptr, g_ptr, m_ptr, v_ptr, average_ptr, t_ptr, lr_ptr, weight_ptr, rest,
    RATES: tl.constexpr, LOGS: tl.constexpr, EPS: tl.constexpr, DECAY: tl.constexpr,
    AVERAGED: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Change BLOCK elements, or the `rest` that a parameter ends with."""
    at = tl.arange(0, BLOCK)
    inside = at < rest if TAIL else None
    p, g = tl.load(p_ptr + at, inside), tl.load(g_ptr + at, inside)
    m, v = tl.load(m_ptr + at, inside), tl.load(v_ptr + at, inside)
    if AVERAGED:
        average = tl.load(average_ptr + at, inside)

    t = tl.load(t_ptr).to(tl.float64)
    lr = tl.load(lr_ptr)
    step_size = lr / (1 - tl.exp(t * LOGS[0])).to(tl.float32)
    scale = 1 / tl.sqrt((1 - tl.exp(t * LOGS[1])).to(tl.float32))
    # As differences, so that the shares of old and new add up to one in fp32 too.
    m += RATES[0] * (g - m)
    v += RATES[1] * (g * g - v)
    p -= lr * DECAY * p
    p -= step_size * m / (tl.sqrt(v) * scale + EPS)
    tl.store(p_ptr + at, p, inside)
    tl.store(m_ptr + at, m, inside)
    tl.store(v_ptr + at, v, inside)
    if AVERAGED:
        weight = tl.load(weight_ptr)
        change = p - average
        # From the nearer end, like torch.lerp: a weight of 1 gives p itself.
        average = tl.where(weight < 0.5, average + weight * change, p - (1 - weight) * change)
        tl.store(average_ptr + at, average, inside)


@triton.jit
def adam_pass(
    p, g, m, v, average, t, lr, weight, starts: tl.constexpr, sizes: tl.constexpr,
    RATES: tl.constexpr, LOGS: tl.constexpr, EPS: tl.constexpr, DECAY: tl.constexpr,
    AVERAGED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Take step t of Adam; parameter i has the blocks from `starts[i]` on and `sizes[i]` elements.

    RATES are 1 - beta, LOGS the logarithms of beta. Tuples have a member for each parameter.
    """
    block = tl.program_id(0)
    at = (block - pick(starts, starts, block)).to(tl.int64) * BLOCK
    rest = pick(sizes, starts, block) - at
    p, g = pick(p, starts, block) + at, pick(g, starts, block) + at
    m, v = pick(m, starts, block) + at, pick(v, starts, block) + at
    average, t = pick(average, starts, block) + at, pick(t, starts, block)
    # A block that is full needs no mask, which would keep loads from being 16 bytes wide.
    if rest >= BLOCK:
        update(
            p, g, m, v, average, t, lr, weight, rest,
            RATES, LOGS, EPS, DECAY, AVERAGED, BLOCK, TAIL=False,
        )  # fmt: skip
    else:
        update(
            p, g, m, v, average, t, lr, weight, rest,
            RATES, LOGS, EPS, DECAY, AVERAGED, BLOCK, TAIL=True,
        )  # fmt: skip
