"""Routings as modules, one file each, that a layer of capsules can have inside (`ConvCaps`)."""

from capsnet.layers.routings.dynamic import DynamicRouting
from capsnet.layers.routings.em import EmRouting
from capsnet.layers.routings.ida import IdaRouting
from capsnet.layers.routings.routing import Routing
from capsnet.layers.routings.self_routing import SelfRoutedClasses, SelfRouting
from capsnet.layers.routings.vb import VbRouting

__all__ = [
    "DynamicRouting",
    "EmRouting",
    "IdaRouting",
    "Routing",
    "SelfRoutedClasses",
    "SelfRouting",
    "VbRouting",
]
