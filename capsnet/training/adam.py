"""Adam (Kingma & Ba 2015, torch's defaults), weight decay, and the running average of the weights.

optimizer = Adam(params, lr, average, average_weight); optimizer.zero_grad(); …; optimizer.step()

On a GPU all are one kernel (adam_kernel.py), since what they cost is memory traffic: p, gradient,
moments and average are read once, and written once if changed. Elsewhere they are torch's own.
"""

from itertools import accumulate
from math import ceil, log

import torch
from torch import Tensor

from capsnet.ops.gpu import TRITON

BLOCK, NUM_WARPS = 2048, 4
MAX_TENSORS = 16  # parameters in one launch, each five pointers and the number of steps


class Adam(torch.optim.AdamW):
    """torch.optim.AdamW whose step also does average += average_weight * (p - average).

    `lr` and `average_weight` are 0-dim tensors on the device of the parameters, read when the
    step runs: a CUDA graph of it takes their values of the replay. `average` may be empty.
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: Tensor,
        average: list[Tensor],
        average_weight: Tensor,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, weight_decay=weight_decay, fused=True, capturable=lr.is_cuda)
        self.params, self.lr, self.has_kernel = params, lr, _has_kernel(params)
        self.average, self.average_weight = average, average_weight
        for p in params:  # also if p never gets a gradient, so that all have a state to keep
            moments = {name: torch.zeros_like(p) for name in ("exp_avg", "exp_avg_sq")}
            self.state[p] = {"step": torch.zeros((), device=p.device), **moments}

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Change the weights that have a gradient, and the average."""
        if self.has_kernel:
            self._step_by_kernel()
            return
        super().step()
        for mean, p in zip(self.average, self.params, strict=False):
            if p.grad is not None:
                mean.lerp_(p, self.average_weight)

    def _step_by_kernel(self) -> None:
        from capsnet.training.adam_kernel import adam_pass

        rows = []
        for p, mean in zip(self.params, self.average or self.params, strict=True):
            if p.grad is None:
                continue  # p stays, and so does its average
            m, v, t = (self.state[p][name] for name in ("exp_avg", "exp_avg_sq", "step"))
            # The kernel goes through memory; autograd lays a gradient out as its parameter.
            assert all(_laid_out_alike(p, x) for x in (p.grad, m, v, mean))
            rows.append((p, p.grad, m, v, mean, t))
        betas = self.defaults["betas"]
        for k in range(0, len(rows), MAX_TENSORS):
            columns = tuple(zip(*rows[k : k + MAX_TENSORS], strict=True))
            torch._foreach_add_(columns[-1], 1)
            sizes = tuple(p.numel() for p in columns[0])
            starts = tuple(accumulate((ceil(size / BLOCK) for size in sizes), initial=0))
            with torch.cuda.device_of(self.lr):
                adam_pass[(starts[-1],)](
                    *columns,
                    self.lr,
                    self.average_weight,
                    starts[:-1],
                    sizes,
                    RATES=tuple(1 - beta for beta in betas),
                    LOGS=tuple(log(beta) for beta in betas),
                    EPS=self.defaults["eps"],
                    DECAY=self.defaults["weight_decay"],
                    AVERAGED=bool(self.average),
                    BLOCK=BLOCK,
                    num_warps=NUM_WARPS,
                )


def _has_kernel(params: list[Tensor]) -> bool:
    """Return whether the GPU kernel can change these."""
    if not (TRITON and all(p.is_cuda and p.dtype == torch.float32 for p in params)):
        return False
    return torch.cuda.get_device_capability(params[0].device) >= (8, 0)


def _laid_out_alike(x: Tensor, y: Tensor) -> bool:
    """Return whether the same place in memory is the same element of both."""
    dims = zip(x.shape, x.stride(), y.stride(), strict=True)
    return x.shape == y.shape and all(size == 1 or a == b for size, a, b in dims)
