"""Models by name: create_model("capsnet_mnist"), list_models(); the contract is in model.py."""

from capsnet.models.abilities import Chained, Draws, Embeds, Placed, Traced
from capsnet.models.capsnet import CapsNet
from capsnet.models.cnn import CnnBaseline, CnnMultiMnist, CnnSmall
from capsnet.models.cnn_modern import CnnModern
from capsnet.models.deep import CapsNetDeep
from capsnet.models.deepcaps import DeepCaps
from capsnet.models.efficient import EfficientCapsNet
from capsnet.models.ida_capsnet import IdaCapsNet
from capsnet.models.matrixcaps import MatrixCaps
from capsnet.models.model import Classifier, Model, Output, Progress
from capsnet.models.modern import CapsNetModern
from capsnet.models.on_trunk import CapsOnTrunk
from capsnet.models.registry import (
    ModelEntry,
    create_model,
    list_models,
    model_entry,
    register_model,
)
from capsnet.models.regressor import CapsRegressor
from capsnet.models.slots import CapsNetSlots
from capsnet.models.sr_capsnet import SrCapsNet
from capsnet.models.vb_capsnet import VbCapsNet

__all__ = [
    "CapsNet",
    "CapsNetDeep",
    "CapsNetModern",
    "CapsNetSlots",
    "CapsOnTrunk",
    "CapsRegressor",
    "Chained",
    "Classifier",
    "CnnBaseline",
    "CnnModern",
    "CnnMultiMnist",
    "CnnSmall",
    "DeepCaps",
    "Draws",
    "EfficientCapsNet",
    "Embeds",
    "IdaCapsNet",
    "MatrixCaps",
    "Model",
    "ModelEntry",
    "Output",
    "Placed",
    "Progress",
    "SrCapsNet",
    "Traced",
    "VbCapsNet",
    "create_model",
    "list_models",
    "model_entry",
    "register_model",
]
