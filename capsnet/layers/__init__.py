"""Layers over the operations: PrimaryCaps, ClassCaps and Decoder."""

from capsnet.layers.class_caps import ClassCaps
from capsnet.layers.decoder import Decoder
from capsnet.layers.primary_caps import PrimaryCaps

__all__ = ["ClassCaps", "Decoder", "PrimaryCaps"]
