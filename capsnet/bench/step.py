"""Whole training steps, epochs and inference of the paper's CapsNet."""

import importlib.util
import shutil
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import torch

from capsnet.bench.timing import Shown, counted, measure
from capsnet.data import Augment, open_data
from capsnet.errors import UserError
from capsnet.models import create_model
from capsnet.training.config import TrainConfig
from capsnet.training.device import pick_precision
from capsnet.training.loop import train
from capsnet.training.outcome import Finished
from capsnet.training.progress import WorkProgress
from capsnet.training.step import TrainStep, epoch_plan

PEER = "bench_peer.py"

Run = Callable[[], object]


def bench_step(
    batches: tuple[int, ...],
    device: torch.device,
    peer: Path | None = None,
    progress: Shown | None = None,
) -> dict[str, Any]:
    """Time one step (augment, forward, loss, backward, Adam) of ours, the reference and a peer."""
    if peer is not None and not (peer / PEER).is_file():
        raise UserError(
            f"There is no {peer / PEER}; write one that defines make_step(batch_size, device) and "
            "returns a function that runs one training step of the peer."
        )
    cuda, half = device.type == "cuda", torch.bfloat16
    tell = counted(len(batches) * (3 + cuda + (peer is not None)), progress)
    rows = []
    for batch in batches:
        # Made one at a time, so that none works in the memory another has left behind.
        variants: dict[str, Callable[[], Run]] = {
            "stored votes, fp32": partial(
                our_step, batch, device, "reference", torch.float32, graph=False
            ),
            "ours, fp32": partial(our_step, batch, device, "auto", torch.float32),
            "ours, bf16": partial(our_step, batch, device, "auto", half),
        }
        if cuda:
            compiled = partial(our_step, batch, device, "auto", half, compiled=True)
            variants["ours, bf16, compiled"] = compiled
        if peer is not None:
            variants[f"peer {peer.name}"] = partial(peer_step, peer, batch, device)
        for name, make in variants.items():
            tell(f"{name}, batch {batch}")
            timing = measure(make(), device, repeats=30 if cuda else 11)
            rows.append({"variant": name, "batch": batch, "step": timing.to_json()})
    return {"bench": "step", "rows": rows}


def our_step(
    batch: int,
    device: torch.device,
    backend: str,
    precision: torch.dtype,
    graph: bool = True,
    compiled: bool = False,
) -> Run:
    """Return one training step of capsnet_mnist on embedded digits as `capsnet train` runs it."""
    stream = open_data("digits", "train", augment=Augment(shift=2), device=device)
    model = create_model("capsnet_mnist", backend=backend).to(device)
    step = TrainStep(
        model, stream, TrainConfig(averaging=0.999, compile=compiled), precision, graph
    )
    plan = epoch_plan(stream, seed=0, epoch=0, num_rows=batch)
    return lambda: step(plan, 1e-3, 1.0)


def peer_step(folder: Path, batch: int, device: torch.device) -> Run:
    """Load FOLDER/bench_peer.py, which defines make_step(batch_size, device) -> callable."""
    spec = importlib.util.spec_from_file_location("bench_peer", folder / PEER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_step(batch, device)


def bench_epoch(
    batches: tuple[int, ...], device: torch.device, data: str, folder: Path | None
) -> dict[str, Any]:
    """Time an epoch of `capsnet train` against its number of steps times one step."""
    num_images = open_data(data, "train", folder=folder).num_samples
    rows = []
    for batch in batches:
        precision = pick_precision("auto", device)
        with WorkProgress(f"measuring one step, batch {batch}"):
            step = measure(our_step(batch, device, "auto", precision), device).median_ms
        out = Path(tempfile.mkdtemp())
        try:
            config = TrainConfig(
                data=data, data_folder=folder, epochs=4, batch_size=batch, device=str(device),
                averaging=0.999, out=out / "run",
            )  # fmt: skip
            outcome = train(config)
        finally:
            shutil.rmtree(out)
        if not isinstance(outcome, Finished):
            raise KeyboardInterrupt
        steps = ceil(num_images / batch)
        # The first epoch holds warm-up and capture.
        speed = statistics.median(epoch.images_per_second for epoch in outcome.history[1:])
        epoch = 1e3 * steps * batch / speed
        rows.append(
            {
                "batch": batch,
                "step_ms": step,
                "steps": steps,
                "epoch_ms": epoch,
                "epoch_over_steps": epoch / (steps * step),
                "images_per_second": 1e3 * num_images / epoch,
            }
        )
    return {"bench": "epoch", "data": data, "rows": rows}


@torch.inference_mode()
def bench_inference(
    batches: tuple[int, ...], device: torch.device, progress: Shown | None = None
) -> dict[str, Any]:
    """Time the forward pass that prediction and evaluation run."""
    model = create_model("capsnet_mnist").to(device).eval()
    tell = counted(2 * len(batches), progress)
    rows = []
    for batch in batches:
        images = torch.rand(batch, 1, 28, 28, device=device)
        for precision in (torch.float32, torch.bfloat16):
            tell(f"{precision}, batch {batch}".removeprefix("torch."))

            def run(images: Any = images, precision: Any = precision) -> None:
                with torch.autocast(device.type, precision, enabled=precision != torch.float32):
                    model(images)

            timing = measure(run, device, repeats=20 if device.type == "cuda" else 5)
            rows.append(
                {
                    "batch": batch,
                    "precision": str(precision).removeprefix("torch."),
                    "forward": timing.to_json(),
                    "images_per_second": 1e3 * batch / timing.median_ms,
                }
            )
    return {"bench": "inference", "rows": rows}
