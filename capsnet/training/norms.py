"""Batch norms that fit the weights: their statistics measured anew where weights are used.

A norm's running statistics lag behind weights that move fast, and say nothing of averaged weights.
"""

from collections.abc import Iterable

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from capsnet.models import Model, Progress
from capsnet.tasks import Batch

IMAGES = 2048  # that statistics are measured on


def has_norms(model: Model) -> bool:
    """Return whether the model has norms whose statistics move in training."""
    return bool(_moving(model))


@torch.no_grad()
def refresh_norms(model: Model, batches: Iterable[Batch], progress: Progress) -> None:
    """Set the statistics of all norms that are trained to their mean over batches.

    The loss is computed too, since a decoder may have norms; what no batch comes by stays as it is.
    """
    norms = _moving(model)
    before = [
        (norm.momentum, {k: x.clone() for k, x in norm.state_dict().items()}) for norm in norms
    ]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean
    for batch in batches:
        model.loss(model(batch.images), batch, progress)
    for norm, (momentum, state) in zip(norms, before, strict=True):
        norm.momentum = momentum
        if not norm.num_batches_tracked:
            norm.load_state_dict(state)


def _moving(model: Model) -> list[_BatchNorm]:
    """Return the norms that are in the mode of training, which the model is put into."""
    model.train()
    return [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm) and module.training and module.track_running_stats
    ]
