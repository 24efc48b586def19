"""What a network of slots says of crowds: errors, whose pixels are whose, and what a step costs.

found = measure(trained)
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from capsnet.data import Stream
from capsnet.data.streams.crowd import CrowdStream, owners
from capsnet.experiments.runner.experiment import BATCH, Trained
from capsnet.layers.slots import SynchronySlots
from capsnet.measures.segments import foreground_ari
from capsnet.models import Model, Progress
from capsnet.models.slots import CapsNetSlots
from capsnet.ops import synchronise
from capsnet.tasks import NOBODY, Batch, Sets

TEST = 10_000
SEGMENTED = 1_000  # of them, whose pixels are grouped
LITTLE = 0.1  # of the ink of two digits, that both have


class Seen(NamedTuple):
    """What a network says of a batch of crowds."""

    labels: Tensor  # [N, L]
    lengths: Tensor  # [N, K, J]
    shuffled: Tensor | None  # the same with phases that belong to other capsules
    overlap: Tensor  # [N], the share of the ink that several objects have
    owner: Tensor  # [N, H, W]
    several: Tensor  # [N, H, W], where several objects are
    shared: Tensor  # [N, H, W], whose slot has most of the capsules around a pixel
    drawn: Tensor | None  # [N, H, W], whose drawing is brightest


def measure(trained: Trained) -> dict[str, Any]:
    """Return errors by number, class and overlap of the objects, how well pixels are grouped, and
    what a step costs.
    """
    model, small = trained.model, trained.stream("test")
    assert isinstance(model, CapsNetSlots) and isinstance(small, CrowdStream)
    width = small.image_shape[1] if small.mover.augment.shift else None
    shift = small.mover.augment.shift
    stream = CrowdStream(small.split, trained.count(TEST), small.many, width, shift)
    task = stream.task
    seen = list(look(model.eval(), stream))
    labels = torch.cat([x.labels for x in seen])
    lengths = torch.cat([x.lengths for x in seen])
    wrong = misses(task, lengths, labels)
    many = (labels != NOBODY).sum(dim=1)
    twins = (many == 2) & (task.counts(labels).amax(dim=1) == 2)
    result: dict[str, Any] = {"num_images": len(wrong), "error_percent": percent(wrong)}
    for k in range(stream.many[0], stream.many[1] + 1):
        result[f"error_of_{k}"] = percent(wrong[many == k])
    result["error_of_twins"] = percent(wrong[twins])
    overlap = torch.cat([x.overlap for x in seen])
    result["error_apart"] = percent(wrong[(many == 2) & (overlap == 0)])
    result["error_touching"] = percent(wrong[(many == 2) & (overlap > 0) & (overlap < LITTLE)])
    result["error_overlapping"] = percent(wrong[(many == 2) & (overlap >= LITTLE)])
    result["error_number_known"] = percent(misses_known(task, lengths, labels))
    if seen[0].shuffled is not None:
        mixed = torch.cat([x.shuffled for x in seen if x.shuffled is not None])
        result["error_shuffled"] = percent(misses(task, mixed, labels))
    plan = stream.plan(None)
    batch = stream.batch({name: x[: trained.count(64)] for name, x in plan.items()})
    result["kept_kb_per_image"] = kept_bytes(model, batch) / len(batch.images) / 1e3
    result["parameters"] = sum(x.numel() for x in model.parameters())
    return {**result, **grouping(seen[: -(-trained.count(SEGMENTED) // BATCH)])}


class Kept:
    """A tensor that autograd keeps, for as long as its graph lives."""

    def __init__(self, x: Tensor) -> None:
        self.x = x


def kept_bytes(model: Model, batch: Batch) -> int:
    """Return the bytes that a training step in fp32 keeps for the way back, weights aside."""
    kept: WeakSet[Kept] = WeakSet()

    def keep(x: Tensor) -> Kept:
        kept.add(held := Kept(x))
        return held

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda held: held.x):
        loss = model.loss(model(batch.images), batch, Progress.at(0, 1))
    storages = {x.data_ptr(): x for x in (held.x.untyped_storage() for held in kept)}
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    del loss  # until here its graph holds what is counted
    model.eval()
    return sum(x.nbytes() for pointer, x in storages.items() if pointer not in weights)


def percent(wrong: Tensor) -> float | None:
    """Return the share of wrong answers, None of no image."""
    return 100 * float(wrong.float().mean()) if len(wrong) else None


def misses(task: Sets, lengths: Tensor, labels: Tensor) -> Tensor:
    """Return [N]: whether the capsules longer than one half are not just the objects."""
    return ((lengths > 0.5).sum(dim=1) != task.counts(labels)).any(dim=1)


def misses_known(task: Sets, lengths: Tensor, labels: Tensor) -> Tensor:
    """Return [N]: whether, of so many slots as there are objects, the surest name others."""
    sure, which = lengths.max(dim=2)
    place = sure.argsort(dim=1, descending=True).argsort(dim=1)
    taken = place < (labels != NOBODY).sum(dim=1, keepdim=True)
    said = torch.where(taken, which, NOBODY)
    return (task.counts(said) != task.counts(labels)).any(dim=1)


@torch.inference_mode()
def look(model: CapsNetSlots, stream: Stream) -> Iterator[Seen]:
    """Yield what a network says of each batch of the fixed crowds."""
    plan = stream.plan(None)
    rows, columns, types = model.grid
    size = stream.image_shape[1:]
    generator = torch.Generator().manual_seed(0)
    for start in range(0, stream.num_samples, BATCH):
        batch = stream.batch({name: x[start : start + BATCH] for name, x in plan.items()})
        assert batch.parts is not None
        u = model.primary(batch.images)
        v, shares = model.slots(u)
        shuffled = None
        if isinstance(model.slots, SynchronySlots):
            x = synchronise(*model.slots.swinging(u))
            order = torch.randperm(x.shape[1], generator=generator).to(x.device)
            shuffled = torch.linalg.vector_norm(model.slots.read(u, x[:, order])[0], dim=-1)
        weights = shares * torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        maps = weights.view(len(u), rows, columns, types, -1).sum(dim=3).movedim(-1, 1)
        shared = interpolate(maps.float(), size, mode="bilinear").argmax(dim=1)
        owner, several = owners(batch.parts)
        ink = (owner != NOBODY).sum(dim=(1, 2)).clamp(min=1)
        drawn = None
        if model.decoder is not None:
            drawn = model.drawings(v).amax(dim=2).argmax(dim=1).cpu()
        yield Seen(
            batch.labels.cpu(),
            torch.linalg.vector_norm(v, dim=-1).cpu(),
            None if shuffled is None else shuffled.cpu(),
            (several.sum(dim=(1, 2)) / ink).cpu(),
            owner.cpu(),
            several.cpu(),
            shared.cpu(),
            drawn,
        )


def grouping(seen: list[Seen]) -> dict[str, float]:
    """Return the mean FG-ARI of crowds of several objects: with and without pixels of several."""
    owner, several, shared = (
        torch.cat([getattr(x, name) for x in seen]).numpy()
        for name in ("owner", "several", "shared")
    )
    crowd = torch.cat([(x.labels != NOBODY).sum(dim=1) for x in seen]).numpy() > 1
    inked = owner != NOBODY
    found = {
        "ari": foreground_ari(owner[crowd], shared[crowd], inked[crowd]),
        "ari_apart": foreground_ari(owner[crowd], shared[crowd], (inked & ~several)[crowd]),
    }
    if all(x.drawn is not None for x in seen):
        drawn = torch.cat([x.drawn for x in seen if x.drawn is not None]).numpy()
        found["ari_drawn"] = foreground_ari(owner[crowd], drawn[crowd], inked[crowd])
    return {name: float(np.nanmean(x)) for name, x in found.items() if len(x)}
