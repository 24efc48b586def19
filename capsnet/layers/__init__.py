"""Layers over the operations: PrimaryCaps, ClassCaps, Decoder and Conv2d."""

from capsnet.layers.capsules import Capsules
from capsnet.layers.class_caps import ClassCaps
from capsnet.layers.conv import Conv2d
from capsnet.layers.decoder import Decoder
from capsnet.layers.primary_caps import PrimaryCaps
from capsnet.layers.stem import Stem

__all__ = ["Capsules", "ClassCaps", "Conv2d", "Decoder", "PrimaryCaps", "Stem"]
