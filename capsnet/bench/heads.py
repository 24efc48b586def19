"""Training steps of networks that differ in their head alone: same stem, batch and optimizer.

Every head on the modern stem, and every way to fill the slots of `capsnet_slots`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from capsnet.bench.timing import Shown, counted, measure
from capsnet.data import Augment, open_data
from capsnet.models import create_model
from capsnet.training.config import TrainConfig
from capsnet.training.device import pick_precision
from capsnet.training.step import TrainStep, epoch_plan


@dataclass(frozen=True)
class Heads:
    """Networks by name, the one that all are compared with, and what they are trained on."""

    networks: dict[str, tuple[str, dict[str, Any]]]
    base: str
    data: str
    augment: Augment | None = None


TABLES = {
    "heads": Heads(
        {
            "the paper's network": ("capsnet_mnist", {}),
            "dynamic, r = 3": ("capsnet_modern", {}),
            "dynamic, r = 1": ("capsnet_modern", {"num_iters": 1}),
            "em": ("capsnet_modern", {"routing": "em"}),
            "vb": ("capsnet_modern", {"routing": "vb"}),
            "self": ("capsnet_modern", {"routing": "self"}),
            "ida": ("capsnet_modern", {"routing": "ida"}),
            "attention": ("capsnet_modern", {"routing": "attention"}),
            "CNN, dense": ("cnn_modern", {}),
            "CNN, pooled": ("cnn_modern", {"pooled": True}),
        },
        base="dynamic, r = 3",
        data="digits",
        augment=Augment(shift=2),
    ),
    "slots": Heads(
        {
            "phases, T = 8": ("capsnet_slots", {}),
            "phases that stay, T = 0": ("capsnet_slots", {"num_steps": 0}),
            "phases, T = 8, fixed slots": ("capsnet_slots", {"num_moves": 0}),
            "phases that stay, T = 0, fixed slots": (
                "capsnet_slots",
                {"num_steps": 0, "num_moves": 0},
            ),
            "dynamic routing": ("capsnet_slots", {"binding": "dynamic"}),
            "slot attention": ("capsnet_slots", {"binding": "attention"}),
        },
        base="slot attention",
        data="crowd_digits",
    ),
}


def bench_heads(
    kind: str, batches: tuple[int, ...], device: torch.device, progress: Shown | None = None
) -> dict[str, Any]:
    """Time one step of each head of a table, and how much longer it takes than the base's."""
    table, cuda = TABLES[kind], device.type == "cuda"
    tell = counted(len(batches) * len(table.networks), progress)
    rows = []
    for batch in batches:
        times, counts = {}, {}
        for name in table.networks:
            tell(f"{name}, batch {batch}")
            run, counts[name] = step_of(table, name, batch, device, compiled=cuda)
            times[name] = measure(run, device, repeats=30 if cuda else 7)
        for name, time in times.items():
            row = {"head": name, "batch": batch, "parameters": counts[name]}
            ratio = time.median_ms / times[table.base].median_ms
            rows.append({**row, "step": time.to_json(), f"times that of {table.base}": ratio})
    return {"bench": kind, "rows": rows}


def step_of(
    table: Heads, name: str, batch: int, device: torch.device, compiled: bool
) -> tuple[Callable[[], object], int]:
    """Return one training step of a head on embedded digits, and its number of parameters."""
    model_name, options = table.networks[name]
    stream = open_data(table.data, "train", augment=table.augment, device=device)
    model = create_model(model_name, **options).to(device)
    config = TrainConfig(averaging=0.999, compile=compiled)
    step = TrainStep(model, stream, config, pick_precision("auto", device))
    plan = epoch_plan(stream, seed=0, epoch=0, num_rows=batch)
    return partial(step, plan, 1e-3, 1.0), sum(p.numel() for p in model.parameters())
