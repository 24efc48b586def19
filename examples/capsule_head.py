"""Capsules on top of any backbone: its feature map [N, C, H, W] or its tokens [N, T, C] go in.

python examples/capsule_head.py

A trunk of timm (`forward_features`) or of Hugging Face (`last_hidden_state`) takes the place of
the small ones here.
"""

import torch
from torch import nn

from capsnet import open_data
from capsnet.layers import ClassCaps
from capsnet.ops import margin_loss

# Features [N, 32, 7, 7]: the channels at each place are four capsules of 8.
trunk = (nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32))
ON_A_MAP = nn.Sequential(*trunk, ClassCaps(num_lower=7 * 7 * 4, lower_dim=8, num_classes=10))

# Tokens [N, 28, 32], one for each row of pixels, and two layers of capsules on top.
block = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
rows = (nn.Flatten(1, 2), nn.Linear(28, 32), block)
ON_TOKENS = nn.Sequential(*rows, ClassCaps(28 * 4, 8, 16, 16), ClassCaps(16, 16, 10, 16))


def main(steps: int = 120) -> dict[str, float]:
    """Train both and return the loss that each ends with."""
    split = open_data("digits", "train").split
    losses = {}
    for name, model in (("map", ON_A_MAP), ("tokens", ON_TOKENS)):
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for step in range(steps):
            rows = torch.arange(step * 50, step * 50 + 50) % len(split)
            v = model(split.images[rows] / 255)  # [50, 10, 16]
            loss = margin_loss(torch.linalg.vector_norm(v, dim=-1), split.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[name] = loss.item()
    return losses


if __name__ == "__main__":
    print(main())
