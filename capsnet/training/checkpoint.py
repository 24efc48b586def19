"""Checkpoints: all that a run needs to go on as if it had never stopped, in one file.

Weights, optimizer, average, sums and random states are tensors; position, config, history and
versions are JSON in the file's header, so that both are replaced in one move.
"""

import hashlib
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import torch
from annotated_types import Len
from torch import Tensor

from capsnet.data import Stream
from capsnet.errors import UserError
from capsnet.models.tensor_file import load_tensors, read_record, save_tensors
from capsnet.models.weights import is_finite, set_weights
from capsnet.options import Positive, check_values
from capsnet.provenance import versions
from capsnet.training.config import SettledConfig, Whole, differences
from capsnet.training.distributed.world import from_leader, job, leads, was_restarted
from capsnet.training.outcome import Epoch
from capsnet.training.patience import Best
from capsnet.training.step import TrainStep

CHECKPOINT = "checkpoint.safetensors"
# What stands in the header; _NEEDED was there from the beginning.
_RECORD: dict[str, Any] = {
    "config": dict[str, Any],
    "device": str,
    "data": str,
    "epoch": Whole,
    "step": Whole,
    "seconds": Positive,
    "history": list[dict[str, Any]],
    "best": Annotated[list[int | float], Len(2, 2)] | None,
    "versions": dict[str, Any],
    "threads": Whole,
    "pictures": str,
}
_NEEDED = ("config", "epoch", "step", "seconds", "history")
LOOKED_AT = 1 << 30  # bytes of images, to know them again
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # the state of Adam, per parameter


@dataclass
class Position:
    """Where a run is: steps done of the epoch, time spent, and one line per finished epoch."""

    epoch: int = 0
    step: int = 0  # within the epoch
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)
    best: Best | None = None  # of a run with patience
    pictures: str = ""  # the digest of the training data, once it was asked for
    notes: tuple[str, ...] = ()  # what is other than when the run was started, in sentences


def save_checkpoint(
    folder: Path, step: TrainStep, config: SettledConfig, position: Position, sums: Tensor
) -> None:
    """Write the state of a run, replacing the one before; sums: those of all processes."""
    metric, best = step.model.task.metric, position.best
    tensors = {**_tensors(step), "sums": sums}
    if best is not None:
        tensors |= {f"best.{k}": x for k, x in best.weights.items()}
    position.pictures = position.pictures or digest_of(step.stream)
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
        "threads": torch.get_num_threads(),
        "pictures": position.pictures,
        "job": job(),
    }
    save_tensors(folder / CHECKPOINT, tensors, record)


def _tensors(step: TrainStep) -> dict[str, Tensor]:
    """Return all that a step changes, and the random states, by the names of the file."""
    tensors: dict[str, Tensor] = {f"model.{k}": x for k, x in step.model.state_dict().items()}
    for i, p in enumerate(step.params):
        for moment in _MOMENTS:
            tensors[f"adam.{moment}.{i}"] = step.optimizer.state[p][moment]
    tensors |= {f"average.{i}": x for i, x in enumerate(step.average)}
    tensors["sums"] = step.sums
    tensors["random.cpu"] = torch.get_rng_state()
    if step.cuda:
        tensors["random.cuda"] = torch.cuda.get_rng_state(step.device)
    return tensors


def saved_config(folder: Path) -> dict[str, Any]:
    """Return the settings of the run in a folder."""
    path = folder / CHECKPOINT
    config = from_leader(lambda: read_record(path)).get("config")
    if not isinstance(config, dict):
        raise _no_checkpoint(path, "it tells no settings")
    check_values(get_type_hints(SettledConfig, include_extras=True), _chosen(config))
    return config


def _chosen(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in ("batch_size", "epochs", "patience") if name in config}


def begun_by_this_job(folder: Path) -> bool:
    """Whether the folder holds a run that torchrun began and now starts anew, on any machine."""
    path = folder / CHECKPOINT
    if not path.exists():
        return False
    return was_restarted() or (job() is not None and read_record(path).get("job") == job())


def load_checkpoint(folder: Path, step: TrainStep, config: SettledConfig) -> Position:
    """Set the state of a run from its folder and return where it stopped.

    All is checked before anything is set. Any number of processes can go on; the first reads the
    file for all.
    """
    path = folder / CHECKPOINT
    tensors, record = from_leader(lambda: load_tensors(path))
    for name in _NEEDED:
        if name not in record:
            raise _no_checkpoint(path, f"{name} is missing")
    try:
        check_values(_RECORD, record)
    except UserError as error:
        raise _no_checkpoint(path, str(error).removesuffix(".")) from error
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
    position = _position(record, tensors, step, config, path)
    position.pictures = digest_of(step.stream)
    if record.get("pictures", position.pictures) != position.pictures:
        raise UserError(
            f"The images are others than when the run in {folder} was started, though as many; "
            "bring them back, or choose another --out."
        )
    position.notes = _notes(record, here)
    _require_tensors(tensors, step, path)
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
    return position


def _position(
    record: dict[str, Any],
    tensors: dict[str, Tensor],
    step: TrainStep,
    config: SettledConfig,
    path: Path,
) -> Position:
    """Return where a run stopped; a UserError if it cannot have stopped there."""
    metric, steps = step.model.task.metric, ceil(step.stream.num_samples / config.batch_size)
    epoch, k = record["epoch"], record["step"]
    if epoch > config.epochs or k >= (steps if epoch < config.epochs else 1):
        raise _no_checkpoint(path, f"the run has no step {k} of epoch {epoch}")
    try:
        history = [Epoch.from_json(line, metric) for line in record["history"]]
    except ValueError as error:
        raise _no_checkpoint(path, f"in its history {error}") from error
    if [past.epoch for past in history] != [*range(1, epoch + 1)]:
        raise _no_checkpoint(path, "its history does not tell of all its epochs")
    position = Position(epoch, k, record["seconds"], history)
    if record.get("best") is not None:
        of, validation = record["best"]
        if not 1 <= of <= epoch:
            raise _no_checkpoint(path, f"its best epoch is {of} of {epoch}")
        weights = _under("best.", tensors)
        _require_alike(weights, step.model.state_dict(), path)
        position.best = Best(of, validation, {k: x.to(step.device) for k, x in weights.items()})
    return position


def _notes(record: dict[str, Any], device: str) -> tuple[str, ...]:
    """Return what is other than when the run was saved, by which its last bits may be others."""
    now = {**versions(), "threads": torch.get_num_threads()}
    then = {**record.get("versions", {}), "threads": record.get("threads")}
    names = ["capsnet", "torch", "cuda"] if device == "cuda" else ["capsnet", "torch", "threads"]
    changed = [name for name in names if then.get(name) not in (None, now[name])]
    told = ", ".join(f"{name} {then[name]} -> {now[name]}" for name in changed)
    return (f"Other than before: {told}; the result may differ in its last bits.",) if told else ()


def _require_tensors(tensors: dict[str, Tensor], step: TrainStep, path: Path) -> None:
    """Raise a UserError unless the tensors are those of this run, and numbers."""
    own = _tensors(step)
    optional = {"random.cuda"} - tensors.keys()
    kept = {k: x for k, x in tensors.items() if not k.startswith("best.")}
    _require_alike(kept, {k: x for k, x in own.items() if k not in optional}, path)
    for name, x in tensors.items():
        if name.startswith(("adam.", "average.", "sums", "best.")) and not is_finite(x):
            raise _no_checkpoint(path, f"{name} is NaN or infinite")
        # A mean of squares below 0 has no root; a run of so few steps was not made.
        if name.startswith(("adam.step.", "adam.exp_avg_sq.")) and (x < 0).any():
            raise _no_checkpoint(path, f"{name} is below 0")
    try:
        torch.Generator().set_state(tensors["random.cpu"])
    except RuntimeError as error:
        raise _no_checkpoint(path, "its random state is none") from error


def _require_alike(tensors: dict[str, Tensor], own: dict[str, Tensor], path: Path) -> None:
    for name in [*own, *tensors]:
        if name not in tensors or name not in own:
            raise _no_checkpoint(path, f"{name} is {'missing' if name in own else 'not of it'}")
        x, mine = tensors[name], own[name]
        if x.shape != mine.shape or x.dtype != mine.dtype:
            raise _no_checkpoint(path, f"{name} is of another shape or type")


def _no_checkpoint(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} is no checkpoint of this run ({why}); use another copy, or choose another --out."
    )


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {k.removeprefix(prefix): x for k, x in tensors.items() if k.startswith(prefix)}


def data_in_words(stream: Stream) -> str:
    """Return what must not change about the data of a run, in words."""
    return f"{stream.num_samples:,} images of {', '.join(stream.task.names)}"


def digest_of(stream: Stream) -> str:
    """Return a digest of the images and labels that a stream makes its batches of.

    Of more images than LOOKED_AT bytes it takes as many as that, evenly spaced.
    """
    images, labels = stream.split.images, stream.split.labels
    num = max(1, min(len(images), LOOKED_AT * len(images) // max(1, images.nbytes)))
    rows = torch.linspace(0, len(images) - 1, num, dtype=torch.float64).round().long()
    sha = hashlib.sha256(f"{images.dtype} {tuple(images.shape)}".encode())
    sha.update(labels.cpu().contiguous().numpy().data)
    for part in rows.split(1024):
        sha.update(images[part.to(images.device)].cpu().contiguous().numpy().data)
    return sha.hexdigest()
