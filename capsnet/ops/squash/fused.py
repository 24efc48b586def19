"""Squash along the last dimension on the GPU: one kernel forward, one backward.

v = squash_forward(s)

The gradient of the gradient is that of torch's own operations.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from capsnet.ops.plain import needs_plain_backward, plain_gradients
from capsnet.ops.squash import kernels, squash_plain

TILE_BYTES = 4096  # of s in one program: enough loads under way, and programs for every processor
NUM_WARPS = 4


@torch.library.custom_op("capsnet::squash_forward", mutates_args=())
def squash_forward(s: Tensor) -> Tensor:
    """Return v = squash(s) along the last dimension, contiguous, in the dtype of s."""
    s = s.contiguous()
    v = torch.empty_like(s)
    with torch.cuda.device_of(s):
        grid, sizes = _launch(s)
        kernels.forward_pass[grid](s, v, **sizes)
    return v


@torch.library.custom_op("capsnet::squash_backward", mutates_args=())
def squash_backward(dv: Tensor, s: Tensor) -> Tensor:
    """Return the gradient at s for dv at squash(s), contiguous, in the dtype of s."""
    dv, s = dv.contiguous(), s.contiguous()
    ds = torch.empty_like(s)
    with torch.cuda.device_of(s):
        grid, sizes = _launch(s)
        kernels.backward_pass[grid](dv, s, ds, **sizes)
    return ds


@squash_forward.register_fake
def _(s: Tensor) -> Tensor:
    return torch.empty_like(s, memory_format=torch.contiguous_format)


@squash_backward.register_fake
def _(dv: Tensor, s: Tensor) -> Tensor:
    return torch.empty_like(s, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, dv: Tensor) -> Tensor | None:
    if needs_plain_backward():
        return plain_gradients(squash_plain, ctx.saved_tensors, [True], dv)[0]
    return squash_backward(dv, *ctx.saved_tensors)


squash_forward.register_autograd(_backward, setup_context=_save)


def _launch(s: Tensor) -> tuple[tuple[int], dict[str, int]]:
    """Return the grid and the sizes of both kernels."""
    D = s.shape[-1]
    rows, DP = s.numel() // D, triton.next_power_of_2(D)
    BR = TILE_BYTES // (DP * s.element_size())
    sizes = {"rows": rows, "D": D, "DP": DP, "BR": BR, "num_warps": NUM_WARPS}
    return (triton.cdiv(rows, BR),), sizes
