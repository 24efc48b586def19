"""SR-CapsNet (Hahn, Pyeon, Kim 2019): a ResNet-20, primary capsules, and classes by self-routing.

model = create_model("sr_capsnet", image_shape=(3, 32, 32), num_classes=10)
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import Capsules, ConvCaps
from capsnet.layers.routings import (
    DynamicRouting,
    EmRouting,
    Routing,
    SelfRoutedClasses,
    SelfRouting,
)
from capsnet.models.model import Classifier, Output, Progress
from capsnet.models.registry import register_model
from capsnet.models.resnet import ResNet, conv_norm
from capsnet.ops import RoutingTrace, squash
from capsnet.ops.losses import weighted_mean
from capsnet.options import Iterations, Size
from capsnet.tasks import Batch

LEAST = 1e-30  # what a probability is at least in the loss


@register_model("sr_capsnet")
class SrCapsNet(Classifier):
    """Capsules that choose their parents themselves, on a ResNet-20.

    routing: "self", without iterations; or, in the same place, "dynamic" or "em" with num_iters
    of them (3 if it is left out). depth: layers of capsules above the primary ones; all but the
    last, which are the classes, see 3×3 places, and the first of these halves the map. blocks: 3
    for a ResNet-20, 5 for 32, 9 for 56.

    Its answers are the activations of the classes, which sum to 1, and its loss -log of the right
    one.
    """

    head = ("class_caps",)

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (3, 32, 32),
        num_classes: Size = 10,
        *,
        channels: Size = 16,
        blocks: Size = 3,
        types: Size = 32,
        dim: Size = 16,
        depth: Size = 1,
        routing: Literal["self", "dynamic", "em"] = "self",
        num_iters: Iterations | None = None,
    ) -> None:
        super().__init__(image_shape, num_classes)
        if routing == "self" and num_iters is not None:
            raise UserError(
                "Self-routing has no iterations; leave num_iters out, or choose "
                "routing='dynamic' or 'em'."
            )
        self.routing, self.num_iters = routing, num_iters or 3
        self.types, self.dim = types, dim
        widths = (channels, 2 * channels, 4 * channels)
        self.trunk = ResNet(image_shape[0], widths, (blocks,) * 3)
        self.primary_pose = nn.Sequential(*conv_norm(self.trunk.channels, types * dim, 3))
        self.primary_a: nn.Module | None = None
        if routing != "dynamic":
            self.primary_a = nn.Sequential(*conv_norm(self.trunk.channels, types, 3))
        size = (self.trunk.size(image_shape[1]), self.trunk.size(image_shape[2]))
        self.conv_caps, self.norms = nn.ModuleList(), nn.ModuleList()
        for layer in range(depth - 1):
            caps = self._conv_caps(size, stride=1 if layer else 2)
            self.conv_caps.append(caps)
            self.norms.append(nn.Identity() if routing == "dynamic" else PoseNorm(types * dim))
            size = caps.places
        self.class_caps = self._class_caps(size[0] * size[1] * types)

    def forward(self, images: Tensor) -> Output:
        """Return the capsules of the classes [N, J, E] and their shares of all activation [N, J].

        By self-routing they have no poses, and v [N, J, 1] is the share itself.
        """
        self.check(images)
        pose, a = self.class_caps(self.lower(images))
        return Output(pose, a / a.sum(dim=1, keepdim=True).clamp(min=LEAST))

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return -log of the answer for the label; with L labels, each has the weight 1 / L."""
        T = self.task.table(batch.labels).to(output.answers.dtype)
        T = T / T.sum(dim=1, keepdim=True).clamp(min=1)
        surprise = -(T * output.answers.clamp(min=LEAST).log()).sum(dim=1)
        return weighted_mean(surprise, batch.weights)

    def trace(self, images: Tensor) -> RoutingTrace:
        """Return every iteration of the routing to the classes."""
        return self.class_caps.trace(self.lower(images))

    def lower(self, images: Tensor) -> Capsules:
        """Return the capsules below the classes, on a map; as one row for ConvCaps."""
        features = self.trunk(images)
        pose = self.primary_pose(features).movedim(1, -1).unflatten(-1, (self.types, self.dim))
        if self.primary_a is None:
            pose = squash(pose)
            lower = Capsules(pose, torch.linalg.vector_norm(pose, dim=-1))
        else:
            lower = Capsules(pose, self.primary_a(features).movedim(1, -1).sigmoid())
        for caps, norm in zip(self.conv_caps, self.norms, strict=True):
            upper = caps(framed(lower))
            lower = Capsules(norm(upper.pose.to(caps.W.dtype)), upper.a)
        return in_a_row(lower)

    def _routing(self, num_children: int, num_upper: int) -> Routing:
        if self.routing == "self":
            return SelfRouting(num_children, num_upper, self.dim)
        if self.routing == "em":
            return EmRouting(num_upper, self.num_iters, beta_u=0.0)  # votes spread by about 1
        return DynamicRouting(self.num_iters)

    def _conv_caps(self, size: tuple[int, int], stride: int) -> ConvCaps:
        """Return a layer that sees 3×3 places of a map with a frame of one place around it."""
        return ConvCaps(
            (size[0] + 2, size[1] + 2),
            self.types,
            self.types,
            self._routing(9 * self.types, self.types),
            stride=stride,
            lower_dim=self.dim,
            dim=self.dim,
            matrix=self.routing == "em",
            std=self._std(9 * self.types, self.types * (3 / stride) ** 2),
        )

    def _class_caps(self, num_lower: int) -> SelfRoutedClasses | ConvCaps:
        """Return the layer of classes, with transformations of its own for each place."""
        J = self.num_classes
        if self.routing == "self":
            return SelfRoutedClasses(num_lower, self.dim, J)
        return ConvCaps(
            (1, 1),
            num_lower,
            J,
            self._routing(num_lower, J),
            kernel=None,
            lower_dim=self.dim,
            dim=self.dim,
            matrix=self.routing == "em",
            std=self._std(num_lower, J),
        )

    def _std(self, num_children: int, num_parents: float) -> float | None:
        """Return how W starts: for dynamic routing so that s_j, as yet a mean share, is about 1.

        Were it larger, all classes would be as long as can be, and nothing could be learned.
        """
        if self.routing != "dynamic":
            return None
        return float(num_parents / (num_children * self.dim) ** 0.5)


class PoseNorm(nn.BatchNorm1d):
    """Batch norm of poses [N, H, W, B, D]: each number of each type, over images and places."""

    def forward(self, pose: Tensor) -> Tensor:
        """Return the poses with mean 0 and variance 1, then scaled and moved as was learned."""
        return super().forward(pose.flatten(3).flatten(0, 2)).reshape(pose.shape)


def framed(lower: Capsules) -> Capsules:
    """Return a map with a place of capsules that are not there, a = 0, on each side."""
    return Capsules(F.pad(lower.pose, (0, 0, 0, 0, 1, 1, 1, 1)), F.pad(lower.a, (0, 0, 1, 1, 1, 1)))


def in_a_row(lower: Capsules) -> Capsules:
    """Return a map [N, H, W, B, …] as one place with H * W * B types: none shares its W."""
    return Capsules(*(x.flatten(1, 3)[:, None, None] for x in lower))
