"""The demo: a small CapsNet and a small CNN, the same digits, the same time."""

import shutil
import sys
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.figures import FIGURES, open_figure_data, save_figure
from capsnet.files import write_text
from capsnet.models import list_models
from capsnet.models.weights import find_model, shipped_path
from capsnet.training.config import TrainConfig
from capsnet.training.evaluate import evaluate
from capsnet.training.loop import Interrupted, train

MIN_EPOCHS = 12  # a good classifier also on a machine that is busy with other work
NUM_IMAGES = 5000
MARK = ".capsnet-demo"  # in a folder that a demo has made and the next one may replace
RECIPE = TrainConfig(data="digits", batch_size=64, lr=2e-3, schedule="linear", device="cpu")


def run_demo(seconds: float, out: Path) -> dict[str, Any]:
    """Train both for about `seconds`, draw two figures; return all errors and where things are."""
    if not (isfinite(seconds) and seconds > 0):
        raise UserError("The training time must be a number of seconds greater than 0.")
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise UserError(f"{out} holds other things than a demo's; choose another --out.")
    write_text(out / MARK, "Made by 'capsnet demo'; the next demo replaces what it made.\n")
    print(
        "Training a small CapsNet and a small CNN on 5,000 digits, for the same time each.",
        file=sys.stderr,
    )
    capsnet = train_for("capsnet_small", seconds, out)
    cnn = train_for("cnn_small", capsnet["seconds"], out)
    model, _ = find_model(capsnet["folder"])
    figures = []
    for kind in ("reconstructions", "perturbation"):
        capsules, stream = open_figure_data(kind, model, "digits")
        figures.append(str(out / f"{kind}.png"))
        save_figure(FIGURES[kind](capsules, stream, 0), Path(figures[-1]))
    return {"trained": [capsnet, cnn], "shipped": shipped_errors(), "figures": figures}


def describe(result: dict[str, Any]) -> str:
    """Return the errors side by side, and what to try next, as text for people."""
    lines = [f"\n{'model':<20}{'test error':>12}{'training':>12}"]
    for row in result["trained"]:
        lines.append(f"{row['model']:<20}{row['error_percent']:>10.1f} %{row['seconds']:>10.0f} s")
    for row in result["shipped"]:
        error = f"{row['error_percent']:>10.1f}"
        lines.append(f"{row['model']:<20}{error} %     shipped weights, {row['data']}")
    weights, cnn_weights = (row["folder"] for row in result["trained"])
    return "\n".join(lines) + (
        f"\n\nFigures: {' and '.join(result['figures'])}"
        "\n\nTry next:"
        f"\n  capsnet explore --weights {weights} --cnn-weights {cnn_weights} --open"
        "      touch its capsules"
        f"\n  capsnet figure routing --weights {weights}      how the routing decides"
        f"\n  capsnet predict YOUR.png --weights {weights} --invert --centre"
        "\n  capsnet train --data YOUR_FOLDER --model capsnet_small     your own pictures"
        "\n  capsnet train --model capsnet_mnist --data mnist           the paper's network"
    )


def shipped_errors() -> list[dict[str, Any]]:
    """Return the test error of all shipped weights: embedded digits, single or overlapping."""
    rows = []
    for name in list_models():
        if shipped_path(name).exists():
            model, card = find_model(name)
            data = "multidigits" if card["config"]["data"] == "multimnist" else "digits"
            error = evaluate(model, open_data(data, "test")).error_percent
            rows.append({"model": name, "data": data, "error_percent": error})
    return rows


def train_for(model: str, seconds: float, out: Path) -> dict[str, Any]:
    """Time an epoch, the second, then train a fresh model for as many as fit into `seconds`."""
    probe = run(replace(RECIPE, model=model, epochs=2, out=out / "probe"))
    shutil.rmtree(out / "probe")
    epochs = max(MIN_EPOCHS, round(seconds * probe["images_per_second"] / NUM_IMAGES))
    return run(replace(RECIPE, model=model, epochs=epochs, out=out / model))


def run(config: TrainConfig) -> dict[str, Any]:
    """Train in the folder of the config, replacing what is there."""
    shutil.rmtree(config.folder, ignore_errors=True)
    result = train(config)
    if isinstance(result, Interrupted):
        raise KeyboardInterrupt
    return result
