"""Layers over the operations: PrimaryCaps, ConvCaps, ClassCaps, Decoder, Conv2d."""

from capsnet.layers.capsules import Capsules
from capsnet.layers.class_caps import ClassCaps
from capsnet.layers.conv import Conv2d
from capsnet.layers.conv_caps import ConvCaps
from capsnet.layers.decoder import Decoder
from capsnet.layers.primary_caps import PrimaryCaps
from capsnet.layers.primary_poses import PrimaryPoses
from capsnet.layers.stem import Stem
from capsnet.layers.type_norm import TypeNorm

__all__ = [
    "Capsules",
    "ClassCaps",
    "Conv2d",
    "ConvCaps",
    "Decoder",
    "PrimaryCaps",
    "PrimaryPoses",
    "Stem",
    "TypeNorm",
]
