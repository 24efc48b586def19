"""Layers over the operations: PrimaryCaps, ConvCaps, ClassCaps, Decoder, Conv2d."""

from capsnet.layers.caps_conv import CapsConv, RoutedConv
from capsnet.layers.capsules import Capsules
from capsnet.layers.class_caps import ClassCaps
from capsnet.layers.conv import Conv2d
from capsnet.layers.conv_caps import ConvCaps
from capsnet.layers.conv_decoder import ConvDecoder, SharedDecoder
from capsnet.layers.decoder import Decoder
from capsnet.layers.depthwise_caps import DepthwiseCaps
from capsnet.layers.primary_caps import PrimaryCaps
from capsnet.layers.primary_poses import PrimaryPoses
from capsnet.layers.routed_caps import RoutedCaps
from capsnet.layers.self_attention_caps import SelfAttentionCaps
from capsnet.layers.stem import Stem
from capsnet.layers.type_norm import TypeNorm

__all__ = [
    "CapsConv",
    "Capsules",
    "ClassCaps",
    "Conv2d",
    "ConvCaps",
    "ConvDecoder",
    "Decoder",
    "DepthwiseCaps",
    "PrimaryCaps",
    "PrimaryPoses",
    "RoutedCaps",
    "RoutedConv",
    "SelfAttentionCaps",
    "SharedDecoder",
    "Stem",
    "TypeNorm",
]
