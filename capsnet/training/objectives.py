"""The loss of each kind of model, and whether an answer is right.

loss, wrong = objective(model, batch, config)
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.data import Batch
from capsnet.models import CapsNet, Classifier
from capsnet.ops import margin_loss, reconstruction_loss
from capsnet.training.config import TrainConfig

Objective = Callable[[Classifier, Batch, TrainConfig], tuple[Tensor, Tensor]]


def present(labels: Tensor, num_classes: int) -> Tensor:
    """Return T [N, J], one where a class is among the labels [N, L] and zero elsewhere."""
    return torch.zeros(len(labels), num_classes, device=labels.device).scatter_(1, labels, 1)


def wrong(lengths: Tensor, labels: Tensor) -> Tensor:
    """Return [N]: whether the L longest of lengths [N, J] are not just the labels [N, L].

    A label that is only as long as another class is wrong.
    """
    shortest = lengths.gather(1, labels).amin(dim=1, keepdim=True)
    return (lengths >= shortest).sum(dim=1) != labels.shape[1]


def margin(model: Classifier, batch: Batch, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """Return margin loss + reconstruction_weight * SSE, each labelled capsule drawing its part."""
    assert isinstance(model, CapsNet)
    output = model(batch.images)
    T = present(batch.labels, model.num_classes)
    loss = margin_loss(output.lengths, T, average_classes=config.average_classes)
    if model.decoder is not None and config.reconstruction_weight > 0:
        pixels = model.reconstruct(output.v, batch.labels).float()
        loss = loss + config.reconstruction_weight * reconstruction_loss(pixels, batch.parts)
    return loss, wrong(output.lengths, batch.labels)


def cross_entropy(model: Classifier, batch: Batch, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """Return the softmax cross-entropy; with L labels, each has the probability 1 / L."""
    output = model(batch.images)
    T = present(batch.labels, model.num_classes) / batch.labels.shape[1]
    return F.cross_entropy(output.v.squeeze(-1), T), wrong(output.lengths, batch.labels)


def binary_cross_entropy(
    model: Classifier, batch: Batch, config: TrainConfig
) -> tuple[Tensor, Tensor]:
    """Return the sigmoid cross-entropy, summed over classes and averaged over the batch."""
    output = model(batch.images)
    logits = output.v.squeeze(-1)
    T = present(batch.labels, model.num_classes)
    loss = F.binary_cross_entropy_with_logits(logits, T, reduction="sum") / len(logits)
    return loss, wrong(output.lengths, batch.labels)


OBJECTIVES: dict[str, Objective] = {
    "margin": margin,
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
}
