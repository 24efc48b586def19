"""A model with a loss of its own, and two data sets, for the command line.

capsnet train --plugin examples/my_net.py --model my_net --data rings --epochs 5
capsnet train --plugin examples/my_net.py --model capsnet_numbers --data ring_size --epochs 5
"""

import torch
from torch import Tensor

import capsnet
from capsnet.models import CapsNet, Output
from capsnet.ops import spread_loss


@capsnet.register_model("my_net", conv_channels=8, conv_stride=2, primary_types=4, decoder=(32,))
class MyNet(CapsNet):
    """The paper's capsules with the spread loss, whose margin grows from 0.2 to 0.9."""

    def loss(self, output: Output, batch: capsnet.Batch, progress: capsnet.Progress) -> Tensor:
        """Return the spread loss, and what the picture differs from the labelled capsule's."""
        margin = 0.2 + 0.7 * progress.share
        spread = spread_loss(output.answers, batch.labels[:, 0], margin)
        drawn = self.reconstruct(output.v, batch.labels[:, 0])
        return spread + 0.01 * (drawn - batch.images).square().flatten(1).sum(1).mean()


def draw(radius: Tensor, filled: Tensor) -> Tensor:
    """Return rings or discs uint8 [N, 1, 28, 28] of radius [N]."""
    y, x = torch.meshgrid(torch.arange(28), torch.arange(28), indexing="ij")
    away = (y - 13.5).square().add((x - 13.5).square()).sqrt() - radius[:, None, None]
    ink = torch.where(filled[:, None, None], away < 0, away.abs() < 1.5)
    return (255 * ink[:, None]).to(torch.uint8)


@capsnet.register_data("rings", licence="CC0")
def rings(split: str, ask: object) -> capsnet.Split:
    """Rings and discs, 28×28."""
    g = torch.Generator().manual_seed(int(split == "test"))
    filled = torch.rand(200, generator=g) < 0.5
    radius = 4 + 8 * torch.rand(200, generator=g)
    return capsnet.Split(draw(radius, filled), filled.long(), ("ring", "disc"))


@capsnet.register_data("ring_size", licence="CC0")
def ring_size(split: str, ask: object) -> capsnet.Split:
    """Rings, 28×28, and their radius is asked."""
    g = torch.Generator().manual_seed(int(split == "test"))
    radius = 4 + 8 * torch.rand(200, generator=g)
    images = draw(radius, torch.zeros(200, dtype=torch.bool))
    task = capsnet.Numbers(("radius",), (" px",), ((4.0, 12.0),))
    return capsnet.Split(images, radius[:, None], task)
