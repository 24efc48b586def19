"""Layers over the operations: PrimaryCaps, ClassCaps, decoders and Conv2d."""

from capsnet.layers.caps_conv import CapsConv, RoutedConv
from capsnet.layers.capsules import Capsules
from capsnet.layers.class_caps import ClassCaps
from capsnet.layers.conv import Conv2d
from capsnet.layers.conv_decoder import ConvDecoder, SharedDecoder
from capsnet.layers.decoder import Decoder
from capsnet.layers.depthwise_caps import DepthwiseCaps
from capsnet.layers.primary_caps import PrimaryCaps
from capsnet.layers.self_attention_caps import SelfAttentionCaps

__all__ = [
    "CapsConv",
    "Capsules",
    "ClassCaps",
    "Conv2d",
    "ConvDecoder",
    "Decoder",
    "DepthwiseCaps",
    "PrimaryCaps",
    "RoutedConv",
    "SelfAttentionCaps",
    "SharedDecoder",
]
