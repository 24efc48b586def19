"""What is usual for a model that draws: how much a drawing misses, how far each number varies.

reference = measure_reference(model, images); reference.drawing_error
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from capsnet.models.model import Model, Output
from capsnet.models.self_reading import NUM_KNOWN, spreads_of
from capsnet.tasks import OneLabel

USUAL = 0.95  # the share of known images whose error is usual
NAME = "reference"  # of its place on a card


@dataclass(frozen=True)
class Reference:
    """What is usual: 95 of 100 known images are drawn with a smaller error, |x - x'|² / |x|²."""

    drawing_error: float
    # [J, E]: standard deviation of each number of each class's capsule; None: it was not measured.
    spreads: tuple[tuple[float, ...], ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return asdict(self)


def drawing_errors(model: Model, images: Tensor, output: Output) -> Tensor | None:
    """Return |x - x'|² / |x|² [N] of images [N, C, H, W] and what the longest capsules draw.

    None if the model does not draw, or was not asked for one thing in each image.
    """
    if model.draws is None or not isinstance(model.task, OneLabel):
        return None
    drawn = model.draws.reconstruct(output.v)
    energy = images.flatten(1).square().sum(1).clamp(min=1e-3)
    return (drawn - images).flatten(1).square().sum(1) / energy


@torch.inference_mode()
def measure_reference(model: Model, images: Tensor) -> Reference | None:
    """Return what is usual over images [N, C, H, W] that the model knows, on its device."""
    parts = images.split(NUM_KNOWN)
    outputs = [model(part) for part in parts]
    errors = [drawing_errors(model, x, y) for x, y in zip(parts, outputs, strict=True)]
    known = [x for x in errors if x is not None]
    if not known:
        return None
    spread = spreads_of(torch.cat([output.v for output in outputs]))
    rows = tuple(tuple(round(x, 4) for x in row) for row in spread.tolist())
    return Reference(float(torch.cat(known).quantile(USUAL)), rows)
