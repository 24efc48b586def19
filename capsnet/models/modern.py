"""CapsNet on a modern stem: capsules, loss and decoder of the paper above small kernels.

output = CapsNetModern(image_shape=(3, 64, 64), num_classes=5)(images)
"""

from math import ceil, prod
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from capsnet.errors import UserError, unknown_name
from capsnet.layers import (
    ClassCaps,
    Decoder,
    PrimaryCaps,
    RoutedCaps,
    SelfAttentionCaps,
    Stem,
)
from capsnet.layers.routings import EmRouting, IdaRouting, Routing, SelfRouting, VbRouting
from capsnet.models.abilities import Placed
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.cycle import as_long_as, move_one, taken
from capsnet.models.model import Output, Progress, conv_size
from capsnet.models.registry import register_model
from capsnet.ops.losses import weighted_mean
from capsnet.options import Iterations, Part, Positive, Size
from capsnet.tasks import Batch

MOST_DENSE = 4096  # numbers of an image that a dense layer draws
RoutingName = Literal["dynamic", "em", "vb", "self", "ida", "attention"]


@register_model("capsnet_modern", "The paper's capsules on six 3×3 convolutions, for any images.")
@register_model(
    "capsnet_modern_mnist",
    "capsnet_modern for 28×28 digits, with a small decoder.",
    decoder=(128, 384),
)
@register_model(
    "capsnet_modern_fashion",
    "capsnet_modern for 28×28 clothes, with a small decoder.",
    decoder=(128, 384),
)
@register_model(
    "capsnet_modern_multimnist",
    "capsnet_modern for two overlapping digits on 36×36.",
    image_shape=(1, 36, 36),
    primary_types=24,
    decoder=(128, 256),
)
@register_model(
    "capsnet_modern_small",
    "A small capsnet_modern that trains on a CPU.",
    channels=(16, 32, 64),
    primary_types=16,
)
class CapsNetModern(CapsClassifier):
    """The paper's capsules, routing, loss and decoder on a stem of 3×3 convolutions with norms.

    channels: of the stages of the stem (`capsnet.layers.Stem`). decoder: the sizes of its dense
    layers, () for none, or "conv", whose size does not grow with the images'; if left out, F and
    2 F of F primary channels, and "conv" for images of more than 4,096 numbers.
    routing: what routes the votes of the primary capsules, which are the same for all: the paper's
    "dynamic", "em", variational Bayes ("vb"), "self"-routing, inverted dot-product attention
    ("ida") or self-"attention" (docs/routings). num_iters: 3 where it is left out, 2 for "ida";
    "self" and "attention" have none. The length of a class capsule is its activation for all.
    Loss and drawing are those of `CapsNet`.

    Two options, for training, let numbers of a capsule mean something. pose_noise: the standard
    deviation of what is added to each number before it is drawn. cycle_weight: of what is lost
    when one number of a capsule is moved by up to cycle_step, drawn and read again, by a share
    cycle_share of the batch: the margin loss, and the squared distance from the moved capsule.
    """

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        channels: tuple[Size, ...] = (64, 128, 256),
        primary_types: Size = 32,
        primary_dim: Size = 8,
        primary_stride: Size = 2,
        class_dim: Size = 16,
        routing: RoutingName = "dynamic",
        num_iters: Iterations | None = None,
        decoder: tuple[Size, ...] | Literal["conv"] | None = None,
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
        pose_noise: Positive = 0.0,
        cycle_weight: Positive = 0.0,
        cycle_step: Positive = 0.25,
        cycle_share: Part = 0.5,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.pose_noise, self.cycle_weight = pose_noise, cycle_weight
        self.cycle_step, self.cycle_share = cycle_step, cycle_share
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        convs = {"channels": channels, "conv_channels": primary_types * primary_dim}
        rest = {"conv_stride": primary_stride, "class_dim": class_dim}
        self.beside = ("cnn_modern", tuple(f"{k}={x}" for k, x in {**convs, **rest}.items()))
        self.stem = Stem(image_shape[0], image_shape[1:], channels)
        rows, columns = (conv_size(side, 3, primary_stride) for side in self.stem.size)
        self.grid = (rows, columns, primary_types)
        step = max(self.stem.step)
        self.field = (self.stem.side + 2 * step, step * primary_stride, self.stem.start)
        self.primary_caps = PrimaryCaps(
            self.stem.out_channels, primary_types, primary_dim, 3, primary_stride
        )
        sizes = (rows * columns * primary_types, primary_dim, num_classes, class_dim)
        self.class_caps = class_layer(routing, num_iters, *sizes)
        if decoder is None:
            F = primary_types * primary_dim
            decoder = (F, 2 * F) if prod(image_shape) <= MOST_DENSE else "conv"
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    @property
    def placed(self) -> Placed | None:
        """The model itself, unless its capsules lie further apart in one direction."""
        return self if self.stem.step[0] == self.stem.step[1] else None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.stem(images))

    def chain(self) -> tuple[nn.Module, ...]:
        """Return the layers from images to class capsules."""
        return *self.stem.layers, self.primary_caps, self.class_caps

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return margin loss + reconstruction_weight * SSE + cycle_weight * what a cycle loses."""
        drawn = output
        if self.training and self.pose_noise > 0:
            noise = self.pose_noise * torch.randn_like(output.v)
            drawn = output._replace(v=output.v + noise)
        T = self.task.table(batch.labels)
        loss = self.margin(output.lengths, T, batch.weights, progress)
        loss = loss + self.reconstruction(drawn, batch)
        if self.training and self.cycle_weight > 0 and self.decoder is not None:
            loss = loss + self.cycle_weight * self.cycle(output, T, batch.weights, progress)
        return loss

    def cycle(
        self, output: Output, T: Tensor, weights: Tensor | None, progress: Progress
    ) -> Tensor:
        """Return what is lost when a labelled capsule is moved, drawn and read again.

        Capsules are moved as they are: what is read may not make them easier to read. The norms
        see drawings by themselves (`Stem.look`), so that those of real images stay theirs.
        """
        n = ceil(self.cycle_share * len(T))
        v, T = output.v[:n].detach(), T[:n]
        weights = None if weights is None else weights[:n]
        which = (T * output.lengths[:n].detach()).argmax(1)
        pose = taken(v, which)
        moved = move_one(pose, self.cycle_step)
        one = torch.nn.functional.one_hot(which, self.num_classes).to(v.dtype)
        drawn = self.draw(one[:, :, None] * moved[:, None]).to(v.dtype)
        read = self.class_caps(self.primary_caps(self.stem.look(drawn))).to(v.dtype)
        lengths = torch.linalg.vector_norm(read, dim=-1)
        far = (taken(read, which) - as_long_as(moved, pose)).square().sum(1)
        apart = weighted_mean(far, weights)
        if self.average_classes:
            apart = apart / (2 * self.num_classes)
        return self.margin(lengths, one, weights, progress) + apart


def class_layer(
    routing: RoutingName, num_iters: int | None, I: int, D: int, J: int, E: int
) -> ClassCaps | RoutedCaps | SelfAttentionCaps:
    """Return a layer of class capsules, I capsules of D -> J of E, by the routing of this name."""
    if routing in ("self", "attention") and num_iters is not None:
        raise UserError(f"routing='{routing}' has no iterations; leave num_iters out.")
    if routing == "dynamic":
        return ClassCaps(I, D, J, E, num_iters or 3)
    if routing == "attention":
        return SelfAttentionCaps(I, D, J, E)
    inside: Routing
    if routing == "em":
        inside = EmRouting(J, num_iters or 3, beta_u=2.5)  # votes spread by about 0.1
    elif routing == "vb":
        inside = VbRouting(J, num_iters or 3)
    elif routing == "self":
        inside = SelfRouting(I, J, D)
    elif routing == "ida":
        inside = IdaRouting(E, num_iters or 2)
    else:
        raise unknown_name("routing", routing, get_args(RoutingName))
    return RoutedCaps(I, D, J, E, inside, readout=routing == "ida")
