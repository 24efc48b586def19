"""Capsule networks: the paper's equations, models, data and training.

model = capsnet.create_model("capsnet_mnist"); output = model(images)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capsnet.models import create_model, list_models

__version__ = "0.1.0"
__all__ = ["__version__", "create_model", "list_models"]


def __getattr__(name: str) -> Any:
    # torch is imported on first use, so that `capsnet --help` answers at once.
    if name in ("create_model", "list_models"):
        return getattr(import_module("capsnet.models"), name)
    if name in ("data", "layers", "models", "ops", "training"):
        return import_module(f"capsnet.{name}")
    raise AttributeError(f"module 'capsnet' has no attribute {name!r}")
