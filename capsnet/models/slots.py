"""Capsules in slots: a network that can say "two sevens", because each slot holds one object.

counts = CapsNetSlots(image_shape=(1, 48, 48))(images).answers
"""

from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from capsnet.errors import UserError
from capsnet.layers import Decoder, PrimaryCaps, Stem
from capsnet.layers.slots import AttentionSlots, DynamicSlots, SynchronySlots
from capsnet.models.drawing import NO_DECODER
from capsnet.models.model import Model, Output, Progress, conv_size
from capsnet.models.registry import register_model
from capsnet.ops import least_cost
from capsnet.ops.losses import weighted_mean
from capsnet.options import Positive, Size, Steps
from capsnet.tasks import NOBODY, Batch, Sets

LARGEST_SIDE = 12  # of the map: a coarser one could not say who owns a stroke
STEEP = 20.0  # how fast a slot goes from none to one as its length passes one half
Binding = Literal["synchrony", "dynamic", "attention"]


@register_model("capsnet_slots", "Class capsules in several slots, for objects of the same class.")
class CapsNetSlots(Model):
    """A modern stem, and K slots of class capsules that share the primary capsules out.

    binding: what shares them out: phases that synchronise, the paper's routing to the capsules of
    all slots, or slot attention. num_steps: of the phases, or iterations of the two others; 8, 3
    and 3 if left out, and 0 for phases that do not move. num_moves: how often the slots'
    anchors move to the phases they hold, 3 if left out. A slot says a class whose capsule is
    longer than one half. decoder: the sizes of its dense layers, () for none; it draws what one
    slot holds.

    Loss: slots are assigned to the objects of an image, the rest to nobody, as it costs least; the
    cost is the margin loss of a slot's lengths + reconstruction_weight * SSE of its picture of the
    class and the object alone.
    """

    tasks: ClassVar = (Sets,)
    head: ClassVar[tuple[str, ...]] = ("slots", "decoder")
    task: Sets

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 48, 48),
        num_classes: Size = 10,
        *,
        num_slots: Size = 3,
        binding: Binding = "synchrony",
        num_steps: Steps | None = None,
        num_moves: Steps | None = None,
        channels: tuple[Size, ...] = (64, 128, 256),
        primary_types: Size = 16,
        primary_dim: Size = 8,
        class_dim: Size = 16,
        phase_dim: Size = 4,
        vote_dim: Size = 16,
        decoder: tuple[Size, ...] = (256, 512),
        reconstruction_weight: Positive = 0.0005,
    ) -> None:
        super().__init__(image_shape, Sets(tuple(map(str, range(num_classes)))))
        self.reconstruction_weight, self.num_slots = reconstruction_weight, num_slots
        self.stem = Stem(image_shape[0], image_shape[1:], channels, LARGEST_SIDE)
        rows, columns = (conv_size(side, 3, 1) for side in self.stem.size)
        self.grid = (rows, columns, primary_types)
        step = max(self.stem.step)
        self.field = (self.stem.side + 2 * step, step, self.stem.start)
        self.primary_caps = PrimaryCaps(self.stem.out_channels, primary_types, primary_dim, 3, 1)
        sizes = (self.grid, primary_dim, num_slots, num_classes, class_dim)
        self.slots: SynchronySlots | DynamicSlots | AttentionSlots
        if binding == "synchrony":
            steps = 8 if num_steps is None else num_steps
            moves = 3 if num_moves is None else num_moves
            self.slots = SynchronySlots(*sizes, steps, moves, phase_dim, vote_dim)
        elif num_moves is not None:
            raise UserError(f"binding='{binding}' has no anchors; leave num_moves out.")
        elif num_steps == 0:
            raise UserError(f"binding='{binding}' needs an iteration at least; give num_steps=1.")
        elif binding == "dynamic":
            self.slots = DynamicSlots(*sizes, num_steps or 3)
        else:
            self.slots = AttentionSlots(*sizes, num_steps or 3, vote_dim)
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.stem(images))

    def forward(self, images: Tensor) -> Output:
        """Return v [N, J, K * E] and how many there are of each class [N, J]."""
        self.check(images)
        return self.told(self.slots(self.primary(images))[0])

    def told(self, v: Tensor) -> Output:
        """Return what capsules v [N, K, J, E] of the slots say."""
        v = v.to(self.slots.W.dtype)
        lengths = torch.linalg.vector_norm(v, dim=-1)
        counts = torch.sigmoid(STEEP * (lengths - 0.5)).sum(dim=1)
        return Output(v.transpose(1, 2).flatten(2), counts)

    def in_slots(self, v: Tensor) -> Tensor:
        """Return v [N, J, K * E] of an output by its slots, [N, K, J, E]."""
        return v.unflatten(2, (self.num_slots, -1)).transpose(1, 2)

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the least cost of any assignment of slots to objects."""
        v = self.in_slots(output.v)
        K, L = self.num_slots, batch.labels.shape[1]
        if L > K:
            raise UserError(f"{K} slots cannot hold {L} objects; give num_slots={L}.")
        labels = torch.nn.functional.pad(batch.labels, (0, K - L), value=NOBODY)
        there = labels != NOBODY
        costs = self.margins(torch.linalg.vector_norm(v, dim=-1), labels)  # [N, K, K]
        if self.decoder is not None and self.reconstruction_weight > 0 and batch.parts is not None:
            pictures = self.pictures(v, batch.labels).to(batch.parts.dtype)
            far = (pictures - batch.parts.unsqueeze(1)).square().flatten(3).sum(dim=3)
            drawn = self.reconstruction_weight * far * there[:, None, :L]
            costs = costs + torch.nn.functional.pad(drawn, (0, K - L))
        slots = least_cost(costs.detach())
        chosen = costs.gather(1, slots.unsqueeze(1)).squeeze(1)
        return weighted_mean(chosen.sum(dim=1), batch.weights)

    def margins(self, lengths: Tensor, labels: Tensor) -> Tensor:
        """Return the margin loss of each slot for each object: lengths [N, K, J], [N, L] -> K, L.

        For nobody all capsules should be short.
        """
        T = one_hot(labels.clamp(min=0), lengths.shape[2]) * (labels != NOBODY).unsqueeze(-1)
        T = T.to(lengths.dtype)
        present = torch.relu(0.9 - lengths).square()
        absent = 0.5 * torch.relu(lengths - 0.1).square()
        return absent.sum(2, keepdim=True) + torch.einsum("nkj,nlj->nkl", present - absent, T)

    def pictures(self, v: Tensor, labels: Tensor) -> Tensor:
        """Return each slot's picture of each class asked for: [N, K, J, E], [N, L] -> N, K, L, …"""
        if self.decoder is None:
            raise UserError(NO_DECODER)
        K = v.shape[1]
        each = labels.clamp(min=0).repeat_interleave(K, dim=0)
        return self.decoder(v.flatten(0, 1), each).unflatten(0, (len(v), K))

    def drawings(self, v: Tensor) -> Tensor:
        """Return what each slot holds, [N, K, C, H, W], of v [N, K, J, E]; black if nothing."""
        lengths = torch.linalg.vector_norm(v, dim=-1)
        longest, which = lengths.max(dim=2)
        if self.decoder is None:
            raise UserError(NO_DECODER)
        drawn = self.decoder(v.flatten(0, 1), which.flatten()).unflatten(0, which.shape)
        return drawn * (longest > 0.5)[..., None, None, None]
