"""Models by name: create_model("capsnet_mnist"), list_models()."""

from capsnet.models.capsnet import CapsNet
from capsnet.models.classifier import Classifier, Output
from capsnet.models.registry import ModelEntry, create_model, list_models, model_entry

__all__ = [
    "CapsNet",
    "Classifier",
    "ModelEntry",
    "Output",
    "create_model",
    "list_models",
    "model_entry",
]
