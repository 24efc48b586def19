"""Capsule networks: the paper's equations, models, data and training.

model = capsnet.create_model("capsnet_mnist"); output = model(images)

The public names are those of `__all__`; each is imported when it is first used, so that
`import capsnet` and `capsnet --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capsnet.data import Split, open_data, register_data
    from capsnet.errors import UserError
    from capsnet.exporting import Exported, export
    from capsnet.models import Model, Output, Progress, create_model, list_models, register_model
    from capsnet.prediction import Prediction, predict
    from capsnet.tasks import Batch, Numbers, OneLabel, Pairs, Sets, SeveralLabels, Task
    from capsnet.training import Diverged, Finished, Interrupted, TrainConfig, evaluate, train

__version__ = "0.1.0"

_WHERE = {
    "capsnet.models": (
        "create_model",
        "list_models",
        "register_model",
        "Model",
        "Output",
        "Progress",
    ),
    "capsnet.data": ("open_data", "register_data", "Split"),
    "capsnet.tasks": ("Batch", "Task", "OneLabel", "SeveralLabels", "Pairs", "Sets", "Numbers"),
    "capsnet.training": (
        "train",
        "TrainConfig",
        "evaluate",
        "Finished",
        "Interrupted",
        "Diverged",
    ),
    "capsnet.prediction": ("predict", "Prediction"),
    "capsnet.exporting": ("export", "Exported"),
    "capsnet.errors": ("UserError",),
}
_PLACES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Batch",
    "Diverged",
    "Exported",
    "Finished",
    "Interrupted",
    "Model",
    "Numbers",
    "OneLabel",
    "Output",
    "Pairs",
    "Prediction",
    "Progress",
    "Sets",
    "SeveralLabels",
    "Split",
    "Task",
    "TrainConfig",
    "UserError",
    "__version__",
    "create_model",
    "evaluate",
    "export",
    "list_models",
    "open_data",
    "predict",
    "register_data",
    "register_model",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name in ("data", "layers", "models", "ops", "tasks", "training"):
        return import_module(f"capsnet.{name}")
    raise AttributeError(f"module 'capsnet' has no attribute {name!r}")
