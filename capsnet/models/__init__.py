"""Models by name: create_model("capsnet_mnist"), list_models(); the contract is in model.py."""

from capsnet.models.abilities import Draws, Embeds, Placed, Traced
from capsnet.models.capsnet import CapsNet
from capsnet.models.cnn import CnnBaseline, CnnMultiMnist, CnnSmall
from capsnet.models.deepcaps import DeepCaps
from capsnet.models.efficient import EfficientCapsNet
from capsnet.models.model import Classifier, Model, Output, Progress
from capsnet.models.on_trunk import CapsOnTrunk
from capsnet.models.registry import (
    ModelEntry,
    create_model,
    list_models,
    model_entry,
    register_model,
)
from capsnet.models.regressor import CapsRegressor

__all__ = [
    "CapsNet",
    "CapsOnTrunk",
    "CapsRegressor",
    "Classifier",
    "CnnBaseline",
    "CnnMultiMnist",
    "CnnSmall",
    "DeepCaps",
    "Draws",
    "EfficientCapsNet",
    "Embeds",
    "Model",
    "ModelEntry",
    "Output",
    "Placed",
    "Progress",
    "Traced",
    "create_model",
    "list_models",
    "model_entry",
    "register_model",
]
