"""The training loop: data, model, steps, checkpoints, and one look at the test set at the end.

result = train(TrainConfig(model="capsnet_small", data="digits", epochs=20))
"""

import json
import signal
import time
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.data import Augment, SplitName, Stream, find_data, open_data
from capsnet.errors import UserError
from capsnet.files import clear_leftovers, write_text
from capsnet.models import Classifier, create_model
from capsnet.models.weights import WEIGHTS, save_weights
from capsnet.train.board import Board
from capsnet.train.checkpoint import (
    CHECKPOINT,
    Position,
    load_checkpoint,
    save_checkpoint,
    versions,
)
from capsnet.train.config import TrainConfig
from capsnet.train.device import pick_device, pick_precision
from capsnet.train.evaluate import check_fit, evaluate
from capsnet.train.progress import TrainProgress
from capsnet.train.schedule import average_weight, learning_rate
from capsnet.train.step import TrainStep


@dataclass(frozen=True)
class Interrupted:
    """The run was stopped by a signal; its checkpoint says where."""

    folder: Path


def train(config: TrainConfig) -> dict[str, Any] | Interrupted:
    """Train, evaluate on the test set, write weights and result into the run's folder."""
    config.check()
    folder = config.folder
    if not config.resume and (folder / CHECKPOINT).exists():
        raise UserError(
            f"{folder} already holds a run; continue it with --resume or choose another --out."
        )
    device = pick_device(config.device)
    precision = pick_precision(config.precision, device)
    stream = open_stream(config, "train", device)
    validation = open_stream(config, "validation", device) if config.holdout else None
    torch.manual_seed(config.seed)
    model = build_model(config, stream).to(device)
    check_fit(model, stream)
    step = TrainStep(model, stream, config, precision)
    position = load_checkpoint(folder, step, config) if config.resume else Position()
    clear_leftovers(folder)
    write_text(folder / "config.json", json.dumps(config.to_json(), indent=2))

    with stop_requests() as stop, Board(config, model, stream) as board:
        finished = run_epochs(config, step, position, validation, precision, stop, board)
    save_checkpoint(folder, step, config, position)
    if not finished:
        return Interrupted(folder)
    if step.average:
        with torch.no_grad():
            torch._foreach_copy_(step.params, step.average)
    test = evaluate(model, open_stream(config, "test", device), precision=precision)
    result = {
        "model": config.model,
        "data": config.data,
        **test.to_json(),
        "seconds": position.seconds,
        "images_per_second": position.history[-1]["images_per_second"],
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "precision": str(precision).removeprefix("torch."),
        "folder": str(folder),
    }
    card = {"config": config.to_json(), "classes": stream.classes, "result": result}
    save_weights(model, folder / WEIGHTS, {**card, "versions": versions()})
    write_text(folder / "result.json", json.dumps(result, indent=2))
    return result


def run_epochs(
    config: TrainConfig,
    step: TrainStep,
    position: Position,
    validation: Stream | None,
    precision: torch.dtype,
    stop: list[int],
    board: Board,
) -> bool:
    """Run the steps that are left; False if a signal asked to stop before the last one."""
    steps = ceil(step.stream.num_samples / config.batch_size)
    total = config.epochs * steps
    saved = time.monotonic()
    with TrainProgress(config.epochs, steps, position.epoch * steps + position.step) as progress:
        while position.epoch < config.epochs:
            plan = epoch_plan(step.stream, config.seed, position.epoch, steps * config.batch_size)
            step.model.train()
            started, first = time.monotonic(), position.step
            for k in range(first, steps):
                done = position.epoch * steps + k
                rows = slice(k * config.batch_size, (k + 1) * config.batch_size)
                step(
                    {name: x[rows] for name, x in plan.items()},
                    learning_rate(config, done, total),
                    average_weight(config, done),
                )
                position.step = k + 1
                progress.update(position.epoch, position.step)
                now = time.monotonic()
                due = now - saved > config.checkpoint_seconds
                if (stop or due) and position.step < steps:
                    _require_finite(float(step.sums[0]), step, config)
                    position.seconds += now - started
                    if stop:
                        return False
                    save_checkpoint(config.folder, step, config, position)
                    started, first, saved = time.monotonic(), position.step, time.monotonic()
            loss, errors = step.take_sums()
            _require_finite(loss, step, config)
            elapsed = time.monotonic() - started
            position.seconds += elapsed
            position.epoch, position.step = position.epoch + 1, 0
            line = {
                "epoch": position.epoch,
                "loss": loss,
                "train_error_percent": 100 * errors,
                "lr": float(step.lr),
                "images_per_second": (steps - first) * config.batch_size / elapsed,
                "seconds": position.seconds,
            }
            if validation is not None:
                held_out = evaluate(step.model, validation, precision=precision)
                line["validation_error_percent"] = held_out.error_percent
            position.history.append(line)
            write_log(config.folder, position)
            board.epoch(line)
            progress.epoch_done(line)
            if stop and position.epoch < config.epochs:
                return False
    return True


def epoch_plan(stream: Stream, seed: int, epoch: int, num_rows: int) -> dict[str, Tensor]:
    """Return the order and augmentation of one epoch: a function of seed and epoch alone.

    Step k takes rows k * batch_size and on. The rows after the last image repeat the first, so
    that all batches are of one size. Several processes would each take a share of a step's rows.
    """
    generator = torch.Generator(stream.device).manual_seed(seed * 1_000_003 + epoch)
    plan = stream.plan(generator)
    rows = torch.arange(num_rows, device=stream.device) % stream.num_samples
    return {name: x[rows] for name, x in plan.items()}


def open_stream(config: TrainConfig, split: SplitName, device: torch.device) -> Stream:
    """Return the training, validation or test data of a run; only training data is augmented."""
    augment = None
    if split == "train":
        asked = config.shift is not None or config.rotate or config.scale or config.shear
        if asked or find_data(config.data)[0].takes_augment:
            shift = 2 if config.shift is None else config.shift
            augment = Augment(shift, config.rotate, config.scale, config.shear)
    return open_data(
        config.data,
        split,
        folder=config.data_folder,
        augment=augment,
        device=device,
        image_size=config.image_size,
        channels=config.channels,
        num_samples=config.num_samples if split == "train" else None,
        holdout=config.holdout,
    )


def build_model(config: TrainConfig, stream: Stream) -> Classifier:
    """Return the model of a run, made for the shape and classes of its data."""
    options: dict[str, Any] = {}
    for text in config.options:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"The option '{text}' has no value; write it as NAME=VALUE.")
        try:
            options[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    shape = {"image_shape": tuple(stream.image_shape), "num_classes": stream.num_classes}
    return create_model(config.model, **{**shape, **options})


def write_log(folder: Path, position: Position) -> None:
    """Write one JSON line per finished epoch."""
    lines = [json.dumps(line) + "\n" for line in position.history]
    write_text(folder / "log.jsonl", "".join(lines))


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Give a list that fills when Ctrl-C or a termination asks the run to save and leave."""
    asked: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(s, lambda number, frame: asked.append(number)) for s in signals]
    try:
        yield asked
    finally:
        for s, handler in zip(signals, before, strict=True):
            signal.signal(s, handler)


def _require_finite(loss: float, step: TrainStep, config: TrainConfig) -> None:
    # A step can leave broken weights behind a loss that was still a number.
    if not (isfinite(loss) and step.weights_are_finite()):
        kept = (
            ""
            if not (config.folder / CHECKPOINT).exists()
            else (f" The last good checkpoint is kept in {config.folder}.")
        )
        raise UserError(
            "The loss is no longer a number; try a smaller --lr or --precision fp32." + kept
        )
