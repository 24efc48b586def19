"""The paper's equations as pure functions: convolution, squash, routing and losses."""

from capsnet.ops.conv import conv2d
from capsnet.ops.dynamic import (
    dynamic_routing,
    dynamic_routing_votes,
    routing_trace,
)
from capsnet.ops.em import em_routing, em_routing_trace
from capsnet.ops.ida import ida_routing, ida_step, ida_trace
from capsnet.ops.losses import margin_loss, reconstruction_loss, spread_loss
from capsnet.ops.matching import least_cost
from capsnet.ops.routing_3d import routing_3d, routing_3d_trace, routing_3d_votes
from capsnet.ops.self_attention import (
    self_attention_routing,
    self_attention_routing_votes,
    self_attention_trace,
)
from capsnet.ops.self_routing import (
    self_routing,
    self_routing_activations,
    self_routing_logits,
    self_routing_trace,
)
from capsnet.ops.squash import squash
from capsnet.ops.squash.exponential import exponential_squash
from capsnet.ops.synchrony import (
    SynchronyTrace,
    agreement,
    read_phases,
    synchronise,
    synchrony_trace,
)
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.vb import vb_routing, vb_routing_trace
from capsnet.ops.windows import Windows, over_parents

__all__ = [
    "RoutingTrace",
    "SynchronyTrace",
    "Windows",
    "agreement",
    "conv2d",
    "dynamic_routing",
    "dynamic_routing_votes",
    "em_routing",
    "em_routing_trace",
    "exponential_squash",
    "ida_routing",
    "ida_step",
    "ida_trace",
    "least_cost",
    "margin_loss",
    "over_parents",
    "read_phases",
    "reconstruction_loss",
    "routing_3d",
    "routing_3d_trace",
    "routing_3d_votes",
    "routing_trace",
    "self_attention_routing",
    "self_attention_routing_votes",
    "self_attention_trace",
    "self_routing",
    "self_routing_activations",
    "self_routing_logits",
    "self_routing_trace",
    "spread_loss",
    "squash",
    "synchronise",
    "synchrony_trace",
    "vb_routing",
    "vb_routing_trace",
]
