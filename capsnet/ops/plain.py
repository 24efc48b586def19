"""Where the faster versions of an operation step aside for torch's own operations.

if needs_plain(): …                    # forward: someone looks at the operations themselves
if needs_plain_backward(): return plain_gradients(function, inputs, ctx.needs_input_grad, dy)

A kernel, or memory that is written again and again, cannot be transformed, exported or
differentiated twice; what it computes can, as torch's own operations.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

# The flag and not torch.compiler.is_exporting(), which torch.compile of 2.11 takes for true.
_FLAG = next(x for x in ("_is_exporting_flag", "_is_compiling_flag") if hasattr(torch.compiler, x))


def needs_plain() -> bool:
    """Return whether torch exports, traces, or transforms what is now computed (torch.func)."""
    if getattr(torch.compiler, _FLAG):
        return True
    if torch.compiler.is_dynamo_compiling():
        return False  # what it cannot look into it takes as one operation
    if torch.jit.is_tracing():
        return True
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def needs_plain_backward() -> bool:
    """Return whether this backward pass is itself differentiated (create_graph) or transformed."""
    return torch.is_grad_enabled() or needs_plain()


def plain_gradients(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    dy: Tensor,
) -> list[Tensor | None]:
    """Return the gradients of function(*inputs) for dy, which can be differentiated again.

    Only those that are `needed` are computed. The backward pass does not inherit autocast.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad(), torch.autocast(dy.device.type, enabled=False):
        # Views, so that an input computed from another one does not count for both.
        seen = [x if x is None else x.view_as(x) for x in inputs]
        wanted = [x for x, need in zip(seen, needed, strict=True) if need and x is not None]
        found = iter(
            torch.autograd.grad(function(*seen), wanted, dy, create_graph=create_graph)
            if wanted
            else ()
        )
    return [
        next(found) if need and x is not None else None
        for x, need in zip(seen, needed, strict=True)
    ]
