"""Capsules without pictures: a signal [N, C, L] and a table [N, F].

python examples/signal_and_table.py
"""

import torch
from torch import Tensor, nn

from capsnet.layers import ClassCaps, PrimaryCaps
from capsnet.ops import margin_loss

SIGNAL = nn.Sequential(
    nn.Conv1d(1, 16, 7, 2),
    nn.ReLU(),
    PrimaryCaps(16, num_types=4, dim=4, kernel_size=5, spatial_dims=1),  # [N, 13 * 4, 4]
    ClassCaps(num_lower=52, lower_dim=4, num_classes=2, dim=8),
)
TABLE = nn.Sequential(
    nn.Linear(5, 64), nn.Unflatten(1, (16, 4)), ClassCaps(16, 4, num_classes=2, dim=8)
)


def waves(num: int) -> tuple[Tensor, Tensor]:
    """Return slow and fast waves [num, 1, 64] with noise, and which they are."""
    fast = torch.arange(num) % 2
    time, phase = torch.linspace(0, 1, 64), 6.3 * torch.rand(num, 1)
    wave = torch.sin(20 * (1 + fast[:, None]) * time + phase) + 0.3 * torch.randn(num, 64)
    return wave[:, None], fast


def main(steps: int = 100) -> dict[str, float]:
    """Train both and return the share of new samples that each gets wrong."""
    torch.manual_seed(0)
    wrong = {}
    for name, model in (("signal", SIGNAL), ("table", TABLE)):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(steps + 1):
            x, labels = waves(200)
            if name == "table":
                x = torch.randn(200, 5)
                labels = (x[:, 0] * x[:, 1] > 0).long()
            lengths = torch.linalg.vector_norm(model(x), dim=-1)
            if step < steps:
                optimizer.zero_grad()
                margin_loss(lengths, labels).backward()
                optimizer.step()
        wrong[name] = (lengths.argmax(1) != labels).float().mean().item()
    return wrong


if __name__ == "__main__":
    print(main())
