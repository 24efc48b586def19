"""The demo: a small CapsNet and a small CNN, the same digits, the same time, and a page of it.

made = run_demo(45, Path("runs/demo")); made.page
"""

import shutil
import sys
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.experiments.demo_page import render
from capsnet.files import write_text
from capsnet.models import list_models
from capsnet.models.weights import find_model, shipped_path
from capsnet.tasks import Pairs
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import evaluate
from capsnet.training.loop import train_one
from capsnet.training.outcome import Diverged, Finished, Interrupted
from capsnet.training.progress import WorkProgress

MIN_EPOCHS = 12  # a good classifier also on a machine that is busy with other work
NUM_IMAGES = 5000
MARK = ".capsnet-demo"  # in a folder that a demo has made and the next one may replace
CNN = TrainConfig(
    model="cnn_small", data="digits", batch_size=64, lr=2e-3, schedule="linear", device="cpu"
)
# For sharp drawings: a larger decoder, a larger share of the loss, as in the authors' code, and
# more steps; half the squared error of the default settings (docs/log.md).
CAPSNET = replace(
    CNN,
    model="capsnet_small",
    options=("decoder=512,1024",),
    reconstruction_weight=0.01,
    batch_size=32,
    lr=3e-3,
    averaging=0.995,
)


@dataclass(frozen=True)
class Shipped:
    """The error of shipped weights on embedded digits."""

    model: str
    data: str
    error_percent: float


@dataclass(frozen=True)
class Demo:
    """What a demo made: two runs, the errors of what is shipped, and where its page is."""

    capsnet: Finished
    cnn: Finished
    shipped: tuple[Shipped, ...]
    page: Path

    @property
    def next(self) -> tuple[tuple[str, str], ...]:
        """Commands to go on with, and what each does; the last opens what was just trained."""
        weights, cnn = self.capsnet.folder, self.cnn.folder
        return (
            ("capsnet predict YOUR.png --weights capsnet_mnist", "Read a digit of your own"),
            ("capsnet train --data YOUR_FOLDER", "Train on your own pictures"),
            (f"capsnet figure routing --weights {weights}", "See how the routing decides"),
            (
                f"capsnet explore --weights {weights} --cnn-weights {cnn} --open",
                "Touch the capsules of this very network in the browser",
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "trained": [self.capsnet.to_json(), self.cnn.to_json()],
            "shipped": [vars(row) for row in self.shipped],
            "page": str(self.page),
        }

    def __str__(self) -> str:
        lines = [f"\n{'model':<20}{'test error':>12}{'training':>12}"]
        for run in (self.capsnet, self.cnn):
            lines.append(f"{run.model:<20}{run.result.figure:>10.1f} %{run.seconds:>10.0f} s")
        for row in self.shipped:
            error = f"{row.error_percent:>10.1f}"
            lines.append(f"{row.model:<20}{error} %     shipped weights, {row.data}")
        lines.append(f"\nWhat the capsules know, as a page: {self.page}\n")
        lines += [f"{words}:\n  {command}" for command, words in self.next]
        return "\n".join(lines)


def run_demo(seconds: float, out: Path) -> Demo:
    """Train both for about `seconds`, test what is shipped, and write the page."""
    if not (isfinite(seconds) and seconds > 0):
        raise UserError("The training time must be a number of seconds greater than 0.")
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise UserError(f"{out} holds other things than a demo's; choose another --out.")
    write_text(out / MARK, "Made by 'capsnet demo'; the next demo replaces what it made.\n")
    print(
        "Training a small CapsNet and a small CNN on 5,000 digits, for the same time each.",
        file=sys.stderr,
    )
    capsnet = train_for(CAPSNET, seconds, out)
    cnn = train_for(CNN, capsnet.seconds, out)
    made = Demo(capsnet, cnn, shipped_errors(), out / "demo.html")
    write_text(made.page, render(made))
    return made


def shipped_errors() -> tuple[Shipped, ...]:
    """Return the test error of all shipped weights: embedded digits, single or overlapping."""
    names = [name for name in list_models() if shipped_path(name).exists()]
    rows = []
    with WorkProgress("testing the shipped weights", len(names), "networks") as progress:
        for k, name in enumerate(names):
            progress(k, now=name)
            model, card = find_model(name)
            data = "multidigits" if isinstance(card.task, Pairs) else "digits"
            rows.append(Shipped(name, data, evaluate(model, open_data(data, "test")).figure))
    return tuple(rows)


def train_for(recipe: TrainConfig, seconds: float, out: Path) -> Finished:
    """Time an epoch, the second, then train a fresh model for as many as fit into `seconds`."""
    probe = run(replace(recipe, epochs=2, out=out / "probe"))
    shutil.rmtree(out / "probe")
    epochs = max(MIN_EPOCHS, round(seconds * probe.images_per_second / NUM_IMAGES))
    return run(replace(recipe, epochs=epochs, out=out / recipe.model))


def run(config: TrainConfig) -> Finished:
    """Train in the folder of the config, replacing what is there."""
    shutil.rmtree(config.folder, ignore_errors=True)
    outcome = train_one(config)
    if isinstance(outcome, Interrupted):
        raise KeyboardInterrupt
    if isinstance(outcome, Diverged):
        raise UserError(str(outcome))
    return outcome
