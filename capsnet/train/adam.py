"""Adam (Kingma & Ba 2015, torch's defaults) and the running average of the weights it makes.

optimizer = Adam(params, lr, average, average_weight); optimizer.zero_grad(); …; optimizer.step()
"""

import torch
from torch import Tensor


class Adam(torch.optim.Adam):
    """torch.optim.Adam whose step also does average += average_weight * (p - average).

    `lr` and `average_weight` are 0-dim tensors on the device of the parameters, read when the
    step runs: a CUDA graph of it takes their values of the replay. `average` may be empty.
    """

    def __init__(
        self, params: list[Tensor], lr: Tensor, average: list[Tensor], average_weight: Tensor
    ) -> None:
        super().__init__(params, lr, fused=True, capturable=lr.is_cuda)
        self.params, self.average, self.average_weight = params, average, average_weight
        for p in params:  # also if p never gets a gradient, so that all have a state to keep
            moments = {name: torch.zeros_like(p) for name in ("exp_avg", "exp_avg_sq")}
            self.state[p] = {"step": torch.zeros((), device=p.device), **moments}

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Change the weights that have a gradient, and the average."""
        super().step()
        for mean, p in zip(self.average, self.params, strict=False):
            mean.lerp_(p, self.average_weight)
