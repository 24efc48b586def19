"""Capsules with inverted dot-product attention (Tsai et al. 2020): four layers, routed at once.

model = create_model("ida_capsnet", image_shape=(3, 32, 32), num_classes=10, num_iters=2)
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import Capsules, ConvCaps
from capsnet.layers.conv_caps import matrix_side
from capsnet.layers.routings import IdaRouting
from capsnet.layers.routings.competing import Compete
from capsnet.models.model import Classifier, Output, Progress
from capsnet.models.registry import register_model
from capsnet.models.resnet import ResNet
from capsnet.ops import RoutingTrace, ida_trace
from capsnet.ops.ida.reference import norm
from capsnet.ops.losses import weighted_mean
from capsnet.ops.recompute import full_precision, recomputed, wide
from capsnet.ops.windows import Share
from capsnet.options import Iterations, Size
from capsnet.tasks import Batch

SMALLEST_SIDE = 13  # halved by the trunk, 3×3 by two, 3×3: what leaves one place


@register_model("ida_capsnet")
class IdaCapsNet(Classifier):
    """Capsules by inverted dot-product attention, on a ResNet of 15 convolutions.

    Primary capsules, two layers that see 3×3 places (the first with stride 2), and the classes.
    sweeps: "concurrent" updates all layers at once from the values of the sweep before;
    "sequential" ends the iterations of a layer before the next one begins. compete: the parents
    that share a child are those of one "place", or all on the "map" that see it.

    A class's logit is one linear function, the same for all, of its capsule; the loss is the
    softmax cross-entropy.
    """

    head = ("class_caps", "logit")

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (3, 32, 32),
        num_classes: Size = 10,
        *,
        channels: tuple[Size, Size] = (64, 128),
        blocks: tuple[Size, Size] = (3, 4),
        types: Size = 32,
        dim: Size = 16,
        num_iters: Iterations = 2,
        sweeps: Literal["concurrent", "sequential"] = "concurrent",
        compete: Compete = "place",
    ) -> None:
        super().__init__(image_shape, num_classes)
        if min(image_shape[1:]) < SMALLEST_SIDE:
            raise UserError(
                f"Images of {image_shape[1]}×{image_shape[2]} are too small for two layers of "
                f"windows; give at least {SMALLEST_SIDE}×{SMALLEST_SIDE} pixels."
            )
        self.num_iters, self.sweeps, self.types, self.dim = num_iters, sweeps, types, dim
        self.trunk = ResNet(image_shape[0], channels, blocks, shortcut="conv")
        self.primary_conv = nn.Conv2d(self.trunk.channels, types * dim, 1, bias=False)
        self.primary_norm = nn.LayerNorm(dim)

        size = (self.trunk.size(image_shape[1]), self.trunk.size(image_shape[2]))
        routings = [IdaRouting(dim, num_iters, compete) for _ in range(3)]
        self.caps1 = caps_layer(size, types, types, routings[0], 3, 2)
        self.caps2 = caps_layer(self.caps1.places, types, types, routings[1], 3)
        num_lower = self.caps2.places[0] * self.caps2.places[1] * types
        self.class_caps = caps_layer((1, 1), num_lower, num_classes, routings[2], None)
        self.logit = nn.Linear(dim, 1)

    def forward(self, images: Tensor) -> Output:
        """Return the class capsules v [N, J, E] and softmax probabilities [N, J]."""
        self.check(images)
        v = self._to_classes(self.primary(images))[-1].after[:, 0, 0]
        return Output(v, self._logits(v).softmax(dim=1))

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the softmax cross-entropy; with L labels, each has the probability 1 / L."""
        T = self.task.table(batch.labels)
        logits = self._logits(output.v)
        T = (T / T.sum(dim=1, keepdim=True).clamp(min=1)).to(logits.dtype)
        return weighted_mean(F.cross_entropy(logits, T, reduction="none"), batch.weights)

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return every iteration of the routing to the classes, with the votes of the last one."""
        caps, steps = self.class_caps, []
        affine = (routing_of(caps).norm.weight, routing_of(caps).norm.bias)
        for below, before, _ in self._to_classes(self.primary(images)):
            votes = caps.votes(seen(caps, below)[0])
            before = None if before is None else before.flatten(1, 2)
            steps.append(ida_trace(votes, *affine, 1, v=before))
        b, c, s, v, a = (torch.cat(x) for x in list(zip(*steps, strict=True))[1:6])
        return RoutingTrace(steps[-1].u_hat, b, c, s, v, a, routing=steps[-1].routing)

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules, a map [N, H, W, B, D]."""
        u = self.primary_conv(self.trunk(images)).movedim(1, -1)
        return self.primary_norm(u.unflatten(-1, (self.types, self.dim)))

    def _logits(self, v: Tensor) -> Tensor:
        with full_precision(v):
            return self.logit(v.to(self.logit.weight.dtype)).squeeze(-1)

    def _to_classes(self, primary: Tensor) -> list["Step"]:
        """Return every iteration of the layer of classes."""
        concurrent = self.sweeps == "concurrent"
        return self._at_once(primary) if concurrent else self._one_by_one(primary)

    def _one_by_one(self, primary: Tensor) -> list["Step"]:
        below = primary
        for caps in (self.caps1, self.caps2):
            below = below.to(caps.W.dtype)
            below = caps(Capsules(below, torch.ones_like(below[..., 0]))).pose
        steps = [Step(row(below), None, sweep(self.class_caps, row(below), None))]
        for _ in range(self.num_iters - 1):
            v = steps[-1].after
            steps.append(Step(row(below), v, sweep(self.class_caps, row(below), v)))
        return steps

    def _at_once(self, primary: Tensor) -> list["Step"]:
        v1 = sweep(self.caps1, primary, None)
        v2 = sweep(self.caps2, v1, None)
        steps = [Step(row(v2), None, sweep(self.class_caps, row(v2), None))]
        for left in reversed(range(self.num_iters - 1)):
            v = steps[-1].after
            steps.append(Step(row(v2), v, sweep(self.class_caps, row(v2), v)))
            # What changes below comes to the classes one sweep later for each layer between; what
            # would come too late is not computed.
            v1, v2 = (
                sweep(self.caps1, primary, v1) if left > 1 else v1,
                sweep(self.caps2, v1, v2) if left > 0 else v2,
            )
        return steps


class Step(NamedTuple):
    """One iteration of the layer of classes."""

    below: Tensor  # [N, 1, 1, I, D], its children
    before: Tensor | None  # [N, 1, 1, J, E], the classes that it starts from
    after: Tensor  # [N, 1, 1, J, E]


def caps_layer(
    size: tuple[int, int],
    B: int,
    C: int,
    routing: IdaRouting,
    kernel: int | None,
    stride: int = 1,
) -> ConvCaps:
    """Return a layer that starts so that the mean share of all votes is as large as one pose."""
    dim = routing.norm.normalized_shape[0]
    std = (C / (matrix_side(dim) * B * (kernel or 1) ** 2)) ** 0.5
    return ConvCaps(
        size, B, C, routing, kernel=kernel, stride=stride, lower_dim=dim, dim=dim, std=std
    )


def routing_of(caps: ConvCaps) -> IdaRouting:
    """Return the routing of a layer."""
    assert isinstance(caps.routing, IdaRouting)
    return caps.routing


def row(below: Tensor) -> Tensor:
    """Return a map [N, H, W, B, D] as one place with H * W * B types: each has its own W."""
    return below.flatten(1, 3)[:, None, None]


def seen(caps: ConvCaps, below: Tensor) -> tuple[Tensor, Share]:
    """Return the poses [N, P, I, D] that each place sees, and how parents share them."""
    capsules, share = caps.seen(Capsules(below, torch.ones_like(below[..., 0])))
    return capsules.pose.to(caps.W.dtype), share


def sweep(caps: ConvCaps, below: Tensor, v: Tensor | None) -> Tensor:
    """Return a layer's map of capsules after one iteration from the map v before it, or none.

    Only the maps are kept for the backward pass. In the first iteration there are no votes: every
    child goes to all parents of a place alike, and s_j is a product of all poses and all W.
    """
    if v is None and routing_of(caps).compete == "place":
        return recomputed(mean_share, caps, below)
    return recomputed(step, caps, below, v)


def step(caps: ConvCaps, below: Tensor, v: Tensor | None) -> Tensor:
    """Return a layer's map of capsules after one iteration by its votes."""
    pose, share = seen(caps, below)
    before = None if v is None else v.flatten(1, 2)
    return routing_of(caps).step(caps.votes(pose), before, share).unflatten(1, caps.places)


def mean_share(caps: ConvCaps, below: Tensor) -> Tensor:
    """Return v_j = LayerNorm(sum_i u_hat_ij / J), without votes."""
    M = seen(caps, below)[0].unflatten(-1, caps.W.shape[2:])
    s = torch.einsum("npixk,icky->npcxy", M, caps.W).flatten(-2) / caps.W.shape[1]
    with full_precision(s):
        weight, bias = routing_of(caps).norm.weight, routing_of(caps).norm.bias
        return norm(wide(s), weight, bias).unflatten(1, caps.places)
