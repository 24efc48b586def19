"""The demo: a small CapsNet and a small CNN, the same digits, the same time."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.experiments import FIGURES, open_figure_data, save_figure
from capsnet.models import list_models
from capsnet.models.weights import find_model, shipped_path
from capsnet.train.config import TrainConfig
from capsnet.train.evaluate import evaluate
from capsnet.train.loop import Interrupted, train

MIN_EPOCHS = 12  # a good classifier also on a machine that is busy with other work
NUM_IMAGES = 5000
RECIPE = TrainConfig(data="digits", batch_size=64, lr=2e-3, schedule="linear", device="cpu")


def run_demo(seconds: float, out: Path) -> None:
    """Train both for about `seconds`, print their errors side by side, draw two figures."""
    if seconds <= 0:
        raise UserError("The training time must be greater than 0 seconds.")
    print("Training a small CapsNet and a small CNN on 5,000 digits, for the same time each.")
    results = {"capsnet_small": train_for("capsnet_small", seconds, out)}
    results["cnn_small"] = train_for("cnn_small", results["capsnet_small"]["seconds"], out)
    weights = out / "capsnet_small"
    model, _ = find_model(str(weights))
    for kind in ("reconstructions", "perturbation"):
        capsnet, stream = open_figure_data(kind, model, "digits")
        save_figure(FIGURES[kind](capsnet, stream, 0), out / f"{kind}.png")

    print(f"\n{'model':<20}{'test error':>12}{'training':>12}")
    for name, result in results.items():
        print(f"{name:<20}{result['error_percent']:>10.1f} %{result['seconds']:>10.0f} s")
    for name, (data, error) in shipped_errors().items():
        print(f"{name:<20}{error:>10.1f} %     shipped weights, {data}")
    print(
        f"\nFigures: {out}/reconstructions.png and {out}/perturbation.png"
        "\n\nTry next:"
        f"\n  capsnet explore --weights {weights} --cnn-weights {out}/cnn_small --open"
        "      touch its capsules"
        f"\n  capsnet figure routing --weights {weights}      how the routing decides"
        f"\n  capsnet predict YOUR.png --weights {weights} --invert --centre"
        "\n  capsnet train --data YOUR_FOLDER --model capsnet_small     your own pictures"
        "\n  capsnet train --model capsnet_mnist --data mnist           the paper's network"
    )


def shipped_errors() -> dict[str, tuple[str, float]]:
    """Return data and test error of all shipped weights: embedded digits, single or overlapping."""
    errors = {}
    for name in list_models():
        if shipped_path(name).exists():
            model, card = find_model(name)
            data = "multidigits" if card["config"]["data"] == "multimnist" else "digits"
            errors[name] = data, evaluate(model, open_data(data, "test")).error_percent
    return errors


def train_for(model: str, seconds: float, out: Path) -> dict[str, Any]:
    """Time an epoch, the second, then train a fresh model for as many as fit into `seconds`."""
    probe = run(replace(RECIPE, model=model, epochs=2, out=out / "probe"))
    epochs = max(MIN_EPOCHS, round(seconds * probe["images_per_second"] / NUM_IMAGES))
    return run(replace(RECIPE, model=model, epochs=epochs, out=out / model))


def run(config: TrainConfig) -> dict[str, Any]:
    """Train in the folder of the config, replacing what is there."""
    shutil.rmtree(config.folder, ignore_errors=True)
    result = train(config)
    if isinstance(result, Interrupted):
        raise KeyboardInterrupt
    return result
