"""The paper's equations as pure functions: convolution, squash, routing and losses."""

from capsnet.ops.conv import conv2d
from capsnet.ops.losses import margin_loss, reconstruction_loss, spread_loss
from capsnet.ops.routing import (
    RoutingTrace,
    dynamic_routing,
    dynamic_routing_votes,
    routing_trace,
)
from capsnet.ops.squash import squash

__all__ = [
    "RoutingTrace",
    "conv2d",
    "dynamic_routing",
    "dynamic_routing_votes",
    "margin_loss",
    "reconstruction_loss",
    "routing_trace",
    "spread_loss",
    "squash",
]
