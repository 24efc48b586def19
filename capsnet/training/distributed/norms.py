"""Batch norms whose statistics are those of the whole batch, however many processes share it.

with shared_norms(): output = model(images)    # of this process's rows

torch's SyncBatchNorm replaces modules, knows GPUs only and would undo norms of other shapes; here
the function below all of them, F.batch_norm, is another one while the block lasts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from capsnet.training.distributed.world import size


@contextmanager
def shared_norms() -> Iterator[None]:
    """Let batch norms in training use the statistics of all processes' rows."""
    if size() == 1:
        yield
    else:
        with _Shared():
            yield


class _Shared(TorchFunctionMode):
    """Passes every call on but that of a batch norm in training."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(zip(_NAMES, args, strict=False)) | (kwargs or {})
        if function is F.batch_norm and given.get("training", False):
            return shared_batch_norm(**given)
        return function(*args, **(kwargs or {}))


_NAMES = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")


def shared_batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return F.batch_norm in training, of the rows of all processes together.

    y = (x - mean) / sqrt(var + eps) * weight + bias, mean and var over all but dimension 1. Each
    process sends count, sum and sum of squares in float64, where their difference loses nothing.
    """
    x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    dims = [d for d in range(x.dim()) if d != 1]
    var, mean = torch.var_mean(x, dims, correction=0)
    count = x.numel() / x.shape[1]
    mean, var = mean.double(), var.double()
    ours = torch.stack([torch.full_like(mean, count), mean * count, (var + mean**2) * count])
    counts, sums, squares = _Sum.apply(ours)
    mean = sums / counts
    var = squares / counts - mean**2
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            n = counts[0].clamp(min=2)
            running_mean.lerp_(mean.to(running_mean), momentum)
            running_var.lerp_((var * (n / (n - 1))).to(running_var), momentum)
    scale = (var.clamp(min=0) + eps).rsqrt() * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - mean * scale
    along = [1, -1] + [1] * (x.dim() - 2)
    y = x * scale.to(x.dtype).view(along) + shift.to(x.dtype).view(along)
    return y.to(input.dtype)


class _Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:  # type: ignore[override]
        dx = dy.clone()
        dist.all_reduce(dx)
        return dx
