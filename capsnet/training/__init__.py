"""Training: one frozen config, one loop, checkpoints that resume to the same result.

outcome = train(TrainConfig(model="capsnet_small", data="digits", epochs=20))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from capsnet.training.config import TrainConfig

if TYPE_CHECKING:
    from capsnet.training.evaluation import evaluate
    from capsnet.training.loop import train
    from capsnet.training.outcome import Diverged, Finished, Interrupted, Outcome

__all__ = [
    "Diverged",
    "Finished",
    "Interrupted",
    "Outcome",
    "TrainConfig",
    "evaluate",
    "train",
]


def __getattr__(name: str) -> Any:
    # torch is imported on first use: the command line reads TrainConfig to explain itself.
    places = {"train": "loop", "evaluate": "evaluation"}
    if name in __all__:
        module = import_module(f"capsnet.training.{places.get(name, 'outcome')}")
        return getattr(module, name)
    raise AttributeError(f"module 'capsnet.training' has no attribute {name!r}")
