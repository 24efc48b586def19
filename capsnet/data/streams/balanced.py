"""Classes of unequal size, evened out: by how often they are shown, or by what they count.

Usage: stream = BalancedStream(ImageStream(split), "sampling"); stream.plan(generator)["index"]
"""

from typing import Literal

import torch
from torch import Tensor

from capsnet.data.streams.stream import ImageStream, Plan, Stream
from capsnet.errors import UserError
from capsnet.tasks import Batch, OneLabel

Balance = Literal["loss", "sampling"]


class BalancedStream(Stream):
    """An ImageStream whose epochs show all classes equally often ("sampling"), or whose batches
    say that images of rare classes count for more ("loss"; the mean weight is 1)."""

    def __init__(self, stream: Stream, by: Balance) -> None:
        if not isinstance(stream, ImageStream) or not isinstance(stream.task, OneLabel):
            raise UserError(
                "balance is for images of one class each; leave it out for data of other kinds."
            )
        self.stream, self.by = stream, by
        self.split, self.num_samples = stream.split, stream.num_samples
        self.image_shape, self.mover = stream.image_shape, stream.mover
        self.weights = class_weights(stream.split.labels, len(stream.task.names))

    def plan(self, generator: torch.Generator | None) -> Plan:
        """Draw what the stream draws; if asked for, then an "index" [M] of its own."""
        plan = self.stream.plan(generator)
        if generator is not None and self.by == "sampling":
            # Movement does not depend on the image, so that it may go to another one.
            plan["index"] = draw_evenly(self.split.labels, self.num_samples, generator)
        return plan

    def batch(self, plan: Plan) -> Batch:
        """Make the batch of a slice of a plan, with weights [N] if asked for."""
        batch = self.stream.batch(plan)
        if self.by == "sampling":
            return batch
        return Batch(batch.images, batch.labels, batch.parts, self.weights[plan["index"]])


def class_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Return a weight [M] for each of labels [M]: every class together counts the same, mean 1."""
    counts = torch.bincount(labels, minlength=num_classes)
    share = len(labels) / (counts > 0).sum()
    return (share / counts.clamp(min=1))[labels]


def draw_evenly(labels: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Draw images [num] of labels [M]: classes equally often, and within a class images too."""
    device = labels.device
    shuffled = torch.randperm(len(labels), generator=generator, device=device)
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    kinds, counts = labels.unique(return_counts=True)
    starts = counts.cumsum(0) - counts
    row = torch.arange(num, device=device)
    kind, turn = row % len(kinds), row // len(kinds)
    index = by_class[starts[kind] + turn % counts[kind]]
    return index[torch.randperm(num, generator=generator, device=device)]
