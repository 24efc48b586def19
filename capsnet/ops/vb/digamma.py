"""The digamma function psi, the derivative of ln Gamma, in a form that other programs have too.

log_pi = digamma(alpha) - digamma(alpha.sum(dim=-1, keepdim=True))
"""

import torch
from torch import Tensor

from capsnet.ops.plain import needs_plain

STEPS = 10
SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132)  # of y^-2, y^-4, …


def digamma(x: Tensor) -> Tensor:
    """Return psi(x) for x > 0: torch's own, or where torch exports, which no ONNX has, a series."""
    return digamma_series(x) if needs_plain() else torch.digamma(x)


def digamma_series(x: Tensor) -> Tensor:
    """Return psi(x) = psi(x + 10) - sum_(k < 10) 1 / (x + k), the first by its series at infinity.

    psi(y) = ln y - 1 / (2 y) - 1 / (12 y^2) + 1 / (120 y^4) - …; for x >= 1 exact to 1e-13.
    """
    y = x + STEPS
    power, inverse = 1 / y.square(), 1 / y.square()
    found = y.log() - 0.5 / y
    for factor in SERIES:
        found = found + factor * power
        power = power * inverse
    for k in range(STEPS):
        found = found - 1 / (x + k)
    return found
