"""Layers over the operations: PrimaryCaps, ClassCaps, Decoder and ConvSequential."""

from capsnet.layers.class_caps import ClassCaps
from capsnet.layers.conv import ConvSequential
from capsnet.layers.decoder import Decoder
from capsnet.layers.primary_caps import PrimaryCaps

__all__ = ["ClassCaps", "ConvSequential", "Decoder", "PrimaryCaps"]
