"""Training steps of every head on the modern stem: the same stem, batch and optimizer for all."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from capsnet.bench.timing import Shown, counted, measure
from capsnet.data import Augment, open_data
from capsnet.models import create_model
from capsnet.training.config import TrainConfig
from capsnet.training.device import pick_precision
from capsnet.training.step import TrainStep, epoch_plan

HEADS: dict[str, tuple[str, dict[str, Any]]] = {
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
}
BASE = "dynamic, r = 3"


def bench_heads(
    batches: tuple[int, ...], device: torch.device, progress: Shown | None = None
) -> dict[str, Any]:
    """Time one step of each head, and how much longer it takes than dynamic routing's."""
    cuda = device.type == "cuda"
    tell = counted(len(batches) * len(HEADS), progress)
    rows = []
    for batch in batches:
        times, counts = {}, {}
        for name in HEADS:
            tell(f"{name}, batch {batch}")
            run, counts[name] = step_of(name, batch, device, compiled=cuda)
            times[name] = measure(run, device, repeats=30 if cuda else 7)
        for name, time in times.items():
            row = {"head": name, "batch": batch, "parameters": counts[name]}
            ratio = time.median_ms / times[BASE].median_ms
            rows.append({**row, "step": time.to_json(), "times dynamic's": ratio})
    return {"bench": "heads", "rows": rows}


def step_of(
    name: str, batch: int, device: torch.device, compiled: bool
) -> tuple[Callable[[], object], int]:
    """Return one training step of a head on embedded digits, and its number of parameters."""
    model_name, options = HEADS[name]
    stream = open_data("digits", "train", augment=Augment(shift=2), device=device)
    model = create_model(model_name, **options).to(device)
    config = TrainConfig(averaging=0.999, compile=compiled)
    step = TrainStep(model, stream, config, pick_precision("auto", device))
    plan = epoch_plan(stream, seed=0, epoch=0, num_rows=batch)
    return partial(step, plan, 1e-3, 1.0), sum(p.numel() for p in model.parameters())
