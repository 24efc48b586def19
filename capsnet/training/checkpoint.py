"""Checkpoints: all that a run needs to go on as if it had never stopped, in one file.

Weights, optimizer, average, sums and random states are tensors; position, config, history and
versions are JSON in the file's header, so that both are replaced in one move.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.data import Stream
from capsnet.errors import UserError
from capsnet.models.weights import load_tensors, save_tensors, set_weights
from capsnet.provenance import versions
from capsnet.training.config import SettledConfig, differences
from capsnet.training.distributed.world import from_leader, job, leads, was_restarted
from capsnet.training.outcome import Epoch
from capsnet.training.patience import Best
from capsnet.training.step import TrainStep

CHECKPOINT = "checkpoint.safetensors"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # the state of Adam, per parameter


@dataclass
class Position:
    """Where a run is: steps done of the epoch, time spent, and one line per finished epoch."""

    epoch: int = 0
    step: int = 0  # within the epoch
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)
    best: Best | None = None  # of a run with patience


def save_checkpoint(
    folder: Path, step: TrainStep, config: SettledConfig, position: Position, sums: Tensor
) -> None:
    """Write the state of a run, replacing the one before; sums: those of all processes."""
    tensors: dict[str, Tensor] = {f"model.{k}": x for k, x in step.model.state_dict().items()}
    for i, p in enumerate(step.params):
        for moment in _MOMENTS:
            tensors[f"adam.{moment}.{i}"] = step.optimizer.state[p][moment]
    tensors |= {f"average.{i}": x for i, x in enumerate(step.average)}
    tensors["sums"] = sums
    tensors["random.cpu"] = torch.get_rng_state()
    if step.cuda:
        tensors["random.cuda"] = torch.cuda.get_rng_state(step.device)
    metric, best = step.model.task.metric, position.best
    if best is not None:
        tensors |= {f"best.{k}": x for k, x in best.weights.items()}
    record = {
        "config": config.to_json(),
        "device": step.device.type,
        "data": data_in_words(step.stream),
        "epoch": position.epoch,
        "step": position.step,
        "seconds": position.seconds,
        "history": [epoch.to_json(metric) for epoch in position.history],
        "best": None if best is None else [best.epoch, best.validation],
        "versions": versions(),
        "job": job(),
    }
    save_tensors(folder / CHECKPOINT, tensors, record)


def saved_config(folder: Path) -> dict[str, Any]:
    """Return the settings of the run in a folder."""
    config: dict[str, Any] = from_leader(lambda: _record(folder)).get("config", {})
    return config


def _record(folder: Path) -> dict[str, Any]:
    return load_tensors(folder / CHECKPOINT)[1]


def begun_by_this_job(folder: Path) -> bool:
    """Whether the folder holds a run that torchrun began and now starts anew, on any machine."""
    if not (folder / CHECKPOINT).exists():
        return False
    return was_restarted() or (job() is not None and _record(folder).get("job") == job())


def load_checkpoint(folder: Path, step: TrainStep, config: SettledConfig) -> Position:
    """Set the state of a run from its folder and return where it stopped.

    Any number of processes can go on; the first reads the file for all.
    """
    path = folder / CHECKPOINT
    tensors, record = from_leader(lambda: load_tensors(path))
    changed = differences(config, record["config"])
    if changed:
        raise UserError(
            f"The run in {folder} was started with other settings ({'; '.join(changed)}); "
            "repeat its command with --resume, or choose another --out."
        )
    here = step.device.type
    there = record.get("device", here)
    if there != here:  # order, augmentation and arithmetic would be others
        raise UserError(
            f"The run in {folder} was made on {there}, not on {here}; "
            f"resume it with --device {there}, or choose another --out."
        )
    now = data_in_words(step.stream)
    before = record.get("data", now)
    if before != now:
        raise UserError(
            f"The run in {folder} was started with {before}, now there are {now}; bring the data "
            "back, or choose another --out."
        )
    set_weights(step.model, _under("model.", tensors), path)
    for i, p in enumerate(step.params):
        state = {m: tensors[f"adam.{m}.{i}"].to(step.device) for m in _MOMENTS}
        # Moments must lie in memory as their parameter does.
        step.optimizer.state[p] = {
            m: x.clone() if m == "step" else torch.empty_like(p).copy_(x) for m, x in state.items()
        }
    for i, x in enumerate(step.average):
        x.copy_(tensors[f"average.{i}"])
    if leads():  # what is summed over processes must be there once
        step.sums.copy_(tensors["sums"])
    if leads():  # the others draw numbers of their own
        torch.set_rng_state(tensors["random.cpu"])
        if step.cuda and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], step.device)
    history = [Epoch.from_json(line, step.model.task.metric) for line in record["history"]]
    position = Position(record["epoch"], record["step"], record["seconds"], history)
    if record.get("best") is not None:
        weights = {k: x.to(step.device) for k, x in _under("best.", tensors).items()}
        epoch, validation = record["best"]
        position.best = Best(epoch, validation, weights)
    return position


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {k.removeprefix(prefix): x for k, x in tensors.items() if k.startswith(prefix)}


def data_in_words(stream: Stream) -> str:
    """Return what must not change about the data of a run, in words."""
    return f"{stream.num_samples:,} images of {', '.join(stream.task.names)}"
