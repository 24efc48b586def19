"""Stopping early: which epoch's weights are kept, and when it is time to look no further.

best = better(best, epoch, figure, model); if out_of_patience(history, 10): …
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from capsnet.models import Model
from capsnet.training.outcome import Epoch


@dataclass(frozen=True)
class Best:
    """The weights of the epoch with the best validation figure, the latest of equal ones."""

    epoch: int
    validation: float
    weights: dict[str, Tensor]  # the state of the model, averaged if the run averages


def better(best: Best | None, epoch: int, validation: float, model: Model) -> Best:
    """Return the best so far, now that an epoch's weights are in the model and were validated."""
    if best is not None and validation > best.validation:
        return best
    return Best(epoch, validation, {k: x.clone() for k, x in model.state_dict().items()})


def out_of_patience(history: Sequence[Epoch], patience: int) -> bool:
    """Return whether so many epochs (0: any number) have passed without a better figure."""
    figures = [epoch.validation for epoch in history if epoch.validation is not None]
    if not patience or not figures:
        return False
    return len(figures) - 1 - figures.index(min(figures)) >= patience
