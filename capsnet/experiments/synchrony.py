"""Does synchrony bind? Slots filled by phases, by routing, by attention, on the same capsules.

One to three digits, the same class allowed, and two to four hollow shapes. An answer is right only
if all objects are named, as often as they are there. What differs between the rows is what shares
the primary capsules out among the slots: phases that synchronise, phases that stay where they
start, each read by slots that follow the phases they hold or by fixed ones, the paper's routing to
the classes of all slots, slot attention. "Shuffled phases" are those of a row, handed to other
capsules of the image after training.

`synchrony` is made for a GPU; `synchrony-small`, with digits of half size and a small stem, is made
by any computer in some hours.
"""

from collections.abc import Callable, Iterator
from functools import partial
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
from capsnet.models import Model, Progress
from capsnet.models.slots import CapsNetSlots
from capsnet.ops import synchronise
from capsnet.tasks import NOBODY, Batch, Sets
from capsnet.training.config import TrainConfig

NAME, SMALL = "synchrony", "synchrony-small"
TEST = 10_000
SEGMENTED = 1_000  # of them, whose pixels are grouped
LITTLE = 0.1  # of the ink of two digits, that both have
PHASES, STILL = "phases, T = 8", "phases that stay, T = 0"
FIXED, STILL_FIXED = f"{PHASES}, fixed slots", f"{STILL}, fixed slots"
ROUTING, ATTENTION = "dynamic routing", "slot attention"
LONG = f"{ATTENTION}, six times as long"
BINDINGS: dict[str, tuple[str, ...]] = {
    PHASES: ("binding=synchrony",),
    STILL: ("binding=synchrony", "num_steps=0"),
    FIXED: ("binding=synchrony", "num_moves=0"),
    STILL_FIXED: ("binding=synchrony", "num_steps=0", "num_moves=0"),
    ROUTING: ("binding=dynamic",),
    ATTENTION: ("binding=attention",),
}
PAIRS = (
    (PHASES, STILL),
    (PHASES, FIXED),
    (PHASES, ROUTING),
    (PHASES, ATTENTION),
    (FIXED, STILL_FIXED),
)
DIGITS, HOLLOW = "digits", "hollow shapes"
DATA = {DIGITS: ("crowds", "num_slots=3"), HOLLOW: ("hollow", "num_slots=4")}
COLUMNS = {
    "all": "error_percent",
    "one": "error_of_1",
    "two": "error_of_2",
    "three": "error_of_3",
    "four": "error_of_4",
    "two of a class": "error_of_twins",
    "two apart": "error_apart",
    "two that touch": "error_touching",
    "two that overlap": "error_overlapping",
    "number known": "error_number_known",
    "shuffled phases": "error_shuffled",
    "FG-ARI": "ari",
    "FG-ARI, no overlap": "ari_apart",
    "FG-ARI of drawings": "ari_drawn",
    "kB an image": "kept_kb_per_image",
}


def row_name(data: str, binding: str) -> str:
    """Return what a row is called."""
    return f"{data}: {binding}"


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows of the large comparison."""
    return {
        row_name(data, binding): TrainConfig(
            model="capsnet_slots",
            options=(*options, slots),
            data=source,
            num_samples=100_000,
            epochs=20,
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


def small_recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows of the small comparison; the learning rate was chosen for slot attention."""
    rows = {binding: (options, 5) for binding, options in BINDINGS.items()}
    rows[LONG] = (BINDINGS[ATTENTION], 30)
    return {
        row_name(DIGITS, binding): TrainConfig(
            model="capsnet_slots",
            options=(*options, "channels=(16, 32, 64)", "decoder=(128, 256)"),
            data="small_crowds",
            num_samples=20_000,
            epochs=epochs,
            batch_size=64,
            lr=5e-3,
            schedule="linear",
            warmup_steps=200,
            averaging=0.998,
            precision="bf16",
            seed=seed,
        )
        for binding, (options, epochs) in rows.items()
    }


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


def kept_bytes(model: Model, batch: Batch) -> int:
    """Return the bytes that a training step in fp32 keeps for the way back, weights aside."""
    known = {x.untyped_storage().data_ptr() for x in model.parameters()}
    kept: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return x

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        loss = model.loss(model(batch.images), batch, Progress.at(0, 1))
    del loss
    model.eval()
    return sum(kept.values())


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


def table(name: str, make: Callable[[int], dict[str, TrainConfig]], results: Results) -> str:
    """Return errors and groupings, and what phases buy over seeds."""
    rows = current(results[name])
    columns = {
        title: key
        for title, key in COLUMNS.items()
        if any(values(runs, key) for runs in rows.values())
    }
    body = []
    for row in make(0):
        runs = rows.get(row, [])
        cells = [mean_std(values(runs, key)) for key in columns.values()]
        sizes = ", ".join(f"{x:,}" for x in sorted({*values(runs, "parameters")})) or "–"
        body.append([marked(row, runs, make), *cells, sizes])
    said = []
    for title, key in (("Error", "error_percent"), ("Error of two of a class", "error_of_twins")):
        found = {row: by_seed(runs, key) for row, runs in rows.items()}
        for data in DATA:
            pairs = [(row_name(data, a), row_name(data, b)) for a, b in PAIRS]
            if any(row in rows for pair in pairs for row in pair):
                said += compare_paired(title, found, pairs)
    header = ("exact-set test error %", *columns, "parameters")
    return "\n\n".join(
        [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    )


def experiment(
    name: str, title: str, make: Callable[[int], dict[str, TrainConfig]], own: dict[str, int]
) -> Experiment:
    """Return one of the two comparisons."""
    return Experiment(
        name,
        title,
        make,
        partial(table, name, make),
        measure,
        seeds=5,
        own_seeds=own,
        columns={"test error %": "error_percent", "two of a class": "error_of_twins"},
    )


EXPERIMENTS = (
    experiment(NAME, "Routing by synchronisation: which parts belong together", recipes, {}),
    experiment(
        SMALL,
        "Routing by synchronisation: small digits, a small stem",
        small_recipes,
        {row_name(DIGITS, LONG): 1},
    ),
)
