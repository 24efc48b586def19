"""Compute again in the backward pass instead of keeping what lies inside.

mean, variance = recomputed(m_step, u_hat, a, logits)
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from capsnet.ops.plain import needs_plain

T = TypeVar("T")


def recomputed(function: Callable[..., T], *args: Any) -> T:
    """Return function(*args), of which only the arguments are kept for the backward pass.

    The function must not draw random numbers: their state is not looked at, so that a step can be
    captured in a CUDA graph.
    """
    if not torch.is_grad_enabled() or needs_plain():
        return function(*args)
    found: T = checkpoint(  # type: ignore[no-untyped-call,unused-ignore]
        function, *args, use_reentrant=False, preserve_rng_state=False
    )
    return found


def wide(x: Tensor) -> Tensor:
    """Return x in fp32 if it has half precision: sums of many votes need it."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def full_precision(x: Tensor) -> torch.autocast:
    """Return a context in which autocast does not reach what is done with x."""
    return torch.autocast("cpu" if x.is_meta else x.device.type, enabled=False)
