"""Robustness to affine change, section 5.2 of the paper.

Both networks see only digits placed at random on 40×40, and are tested on affNIST-style warps.
"Stopped": training ends after the first epoch in which 99.2 % of 5,000 held-out training digits,
placed in the same way, are read rightly. The rule is fixed beforehand and sees no test image. The
CNN has pooling, and about as many parameters as the CapsNet.
"""

from typing import Any

from capsnet.data import AffineStream
from capsnet.data.affine import VERSIONS
from capsnet.experiments.reproduce import markdown
from capsnet.experiments.reproduce.experiment import Experiment, Trained
from capsnet.experiments.reproduce.recipes import MNIST_IMAGES, paper
from capsnet.experiments.reproduce.records import Results, current, values
from capsnet.experiments.reproduce.statistics import compare, mean_std
from capsnet.train.config import TrainConfig

EPOCHS = 20
HOLDOUT = 5_000
STOP_AT_ERROR = 0.8

STOPPED, FULL = "stopped at 99.2 %", "fully trained"
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CapsNet": ("capsnet_mnist", ()),  # 13.5 million parameters on 40×40
    "CNN": ("cnn_small", ("channels=320",)),  # 13.3 million
}
# Accuracy in per cent on expanded MNIST and on affNIST.
IN_THE_PAPER = {f"CapsNet, {STOPPED}": ("99.23", "79"), f"CNN, {STOPPED}": ("99.22", "66")}


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return both networks, stopped and fully trained."""
    rows = {}
    for ending, stop in ((STOPPED, STOP_AT_ERROR), (FULL, None)):
        for name, (model, options) in MODELS.items():
            settings: dict[str, Any] = {
                "model": model,
                "options": options,
                "data": "mnist40",
                "seed": seed,
                "holdout": HOLDOUT,
                "stop_at_error": stop,
                **paper(EPOCHS, MNIST_IMAGES - HOLDOUT),
            }
            rows[f"{name}, {ending}"] = TrainConfig(**settings)
    return rows


def measure(trained: Trained) -> dict[str, Any]:
    """Return the error on affNIST-style warps of the test digits, and on such without a warp."""
    placed = trained.stream("test")
    result: dict[str, Any] = {}
    for name, versions, extent in (("affine", VERSIONS, 1.0), ("between", 1, 0.0)):
        num_images = trained.count(versions * len(placed.split))
        stream = AffineStream(placed.split, num_images, placed.image_shape[1], extent)
        wrong = trained.answers(stream).wrong
        result[f"{name}_error_percent"] = 100 * float(wrong.float().mean())
        result[f"{name}_num_images"] = len(wrong)
    return result


def table(results: Results) -> str:
    """Return accuracies beside the paper's, and whether the networks differ."""
    rows = current(results["affine"])
    body = []
    for ending in (STOPPED, FULL):
        for name in MODELS:
            runs = rows.get(f"{name}, {ending}", [])
            placed, warped = IN_THE_PAPER.get(f"{name}, {ending}", ("–", "–"))
            body.append(
                [
                    f"{name}, {ending}",
                    placed,
                    accuracy(values(runs, "error_percent")),
                    accuracy(values(runs, "between_error_percent")),
                    warped,
                    accuracy(values(runs, "affine_error_percent")),
                    mean_std(values(runs, "epochs"), 1),
                ]
            )
    header = (
        "test accuracy %",
        "placed on 40×40, paper",
        "placed, here",
        "placed between pixels, here",
        "affNIST, paper",
        "affNIST-style, here",
        "epochs",
    )
    pairs = []
    for ending in (STOPPED, FULL):
        both = {name: rows.get(f"{name}, {ending}", []) for name in MODELS}
        errors = {name: values(runs, "affine_error_percent") for name, runs in both.items()}
        pairs.append((f"Error on affNIST-style images, {ending}", errors))
    parts = [markdown.table(header, body), markdown.bullets(compare(pairs)), markdown.recipes(rows)]
    return "\n\n".join(parts)


def accuracy(errors: list[float]) -> str:
    """Return errors in per cent as accuracy."""
    return mean_std([100 - error for error in errors])


EXPERIMENT = Experiment(
    "affine",
    "Robustness to affine change",
    recipes,
    table,
    measure,
    columns={
        "error % placed": "error_percent",
        "error % affNIST-style": "affine_error_percent",
        "validation error %": "validation_error_percent",
    },
)
