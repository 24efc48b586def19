"""Does synchrony bind? Slots filled by phases, by routing, by attention, on the same capsules.

One to three digits on 48×48, the same class allowed, and two to four hollow shapes. An answer is
right only if all objects are named, as often as they are there. What differs between the rows is
what shares the primary capsules out among the slots: phases that synchronise, phases that stay
where they start, the paper's routing to the classes of all slots, slot attention. "Shuffled
phases" are those of the first row, handed to other capsules of the image after training.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from capsnet.data import Stream
from capsnet.data.streams.crowd import CrowdStream, owners
from capsnet.experiments.pages import markdown
from capsnet.experiments.runner.experiment import BATCH, Experiment, Trained
from capsnet.experiments.runner.records import Results, by_seed, current, marked, values
from capsnet.experiments.statistics import compare_paired, mean_std
from capsnet.layers.slots import SynchronySlots
from capsnet.measures.segments import foreground_ari
from capsnet.models.slots import CapsNetSlots
from capsnet.ops import synchronise
from capsnet.tasks import NOBODY, Sets
from capsnet.training.config import TrainConfig

NAME = "synchrony"
EPOCHS = 20
CROWDS = 100_000  # in one epoch
TEST = 10_000
SEGMENTED = 1_000  # of them, whose pixels are grouped
PHASES, STILL = "phases, T = 8", "phases that stay, T = 0"
ROUTING, ATTENTION = "dynamic routing", "slot attention"
BINDINGS: dict[str, tuple[str, ...]] = {
    PHASES: ("binding=synchrony",),
    STILL: ("binding=synchrony", "num_steps=0"),
    ROUTING: ("binding=dynamic",),
    ATTENTION: ("binding=attention",),
}
DATA = {"digits": ("crowds", "num_slots=3"), "hollow shapes": ("hollow", "num_slots=4")}
COLUMNS = {
    "all": "error_percent",
    "one": "error_of_1",
    "two": "error_of_2",
    "three": "error_of_3",
    "four": "error_of_4",
    "two of a class": "error_of_twins",
    "number known": "error_number_known",
    "shuffled phases": "error_shuffled",
    "FG-ARI": "ari",
    "FG-ARI, no overlap": "ari_apart",
    "FG-ARI of drawings": "ari_drawn",
}


def row_name(data: str, binding: str) -> str:
    """Return what a row is called."""
    return f"{data}: {binding}"


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows."""
    return {
        row_name(data, binding): TrainConfig(
            model="capsnet_slots",
            options=(*options, slots),
            data=source,
            num_samples=CROWDS,
            epochs=EPOCHS,
            batch_size=256,
            lr=2e-3,
            schedule="linear",
            warmup_steps=1_000,
            compile=True,
            seed=seed,
        )
        for data, (source, slots) in DATA.items()
        for binding, options in BINDINGS.items()
    }


class Seen(NamedTuple):
    """What a network says of a batch of crowds."""

    labels: Tensor  # [N, L]
    lengths: Tensor  # [N, K, J]
    shuffled: Tensor | None  # the same with phases that belong to other capsules
    owner: Tensor  # [N, H, W]
    several: Tensor  # [N, H, W], where several objects are
    shared: Tensor  # [N, H, W], whose slot has most of the capsules around a pixel
    drawn: Tensor | None  # [N, H, W], whose drawing is brightest


def measure(trained: Trained) -> dict[str, Any]:
    """Return errors by number and class of the objects, and how well pixels are grouped."""
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
    result["error_number_known"] = percent(misses_known(task, lengths, labels))
    if seen[0].shuffled is not None:
        mixed = torch.cat([x.shuffled for x in seen if x.shuffled is not None])
        result["error_shuffled"] = percent(misses(task, mixed, labels))
    return {**result, **grouping(seen[: -(-trained.count(SEGMENTED) // BATCH)])}


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
        drawn = None
        if model.decoder is not None:
            drawn = model.drawings(v).amax(dim=2).argmax(dim=1).cpu()
        yield Seen(
            batch.labels.cpu(),
            torch.linalg.vector_norm(v, dim=-1).cpu(),
            None if shuffled is None else shuffled.cpu(),
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


def table(results: Results) -> str:
    """Return errors and groupings, and phases against each of the others over seeds."""
    rows = current(results[NAME])
    body = []
    for row in recipes(0):
        runs = rows.get(row, [])
        cells = [mean_std(values(runs, key)) for key in COLUMNS.values()]
        body.append([marked(row, runs, recipes), *cells])
    said = []
    for title, key in (("Error", "error_percent"), ("Error of two of a class", "error_of_twins")):
        found = {row: by_seed(runs, key) for row, runs in rows.items()}
        for data in DATA:
            others = [b for b in BINDINGS if b != PHASES]
            pairs = [(row_name(data, PHASES), row_name(data, other)) for other in others]
            said += compare_paired(title, found, pairs)
    header = ("exact-set test error %", *COLUMNS)
    return "\n\n".join(
        [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    )


EXPERIMENT = Experiment(
    NAME,
    "Routing by synchronisation: which parts belong together",
    recipes,
    table,
    measure,
    seeds=5,
    columns={"test error %": "error_percent", "two of a class": "error_of_twins"},
)
