"""Lower capsules and transformations of any size for tests of routing."""

import torch

from capsnet.ops import squash

BACKENDS = ["reference", "chunked"]


def inputs(N=2, I=5, J=3, E=4, D=3, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    u = squash(torch.randn(N, I, D, generator=g, dtype=torch.float64)).to(dtype)
    W = torch.randn(I, J, E, D, generator=g, dtype=torch.float64).to(dtype)
    return u, W


def small_bias(J=3, E=4):
    return torch.linspace(-0.2, 0.3, J * E, dtype=torch.float64).view(J, E)
