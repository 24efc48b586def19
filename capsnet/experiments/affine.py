"""Robustness to affine change, section 5.2 of the paper.

Both networks see only digits placed at random on 40×40. Tested are affNIST-style warps, whose ink
may lie anywhere on the canvas, also nearer to its edge than any digit seen in training; and warps
whose centre is where training had centres, so that nothing but the warp is new.

"Stopped at 99.2 %": training ends after the first epoch in which 98.9 % of 5,000 held-out training
digits, placed in the same way, are read rightly. These are harder than the test digits, of which
about 99.2 % are then read rightly, as in the paper. The CNN has pooling, and about as many
parameters as the CapsNet.
"""

from typing import Any

from capsnet.data import AffineStream
from capsnet.data.streams.affine import VERSIONS
from capsnet.experiments.pages import markdown
from capsnet.experiments.recipes import MNIST_IMAGES, paper
from capsnet.experiments.runner.experiment import Experiment, Trained
from capsnet.experiments.runner.records import Results, current, marked, values
from capsnet.experiments.statistics import compare, mean_std
from capsnet.training.config import TrainConfig

EPOCHS = 40
HOLDOUT = 5_000
STOP_AT_ERROR = 1.1

STOPPED, FULL = "stopped at 99.2 %", "fully trained"
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CapsNet": ("capsnet_mnist", ()),  # 13.5 million parameters on 40×40
    "CNN": ("cnn_small", ("channels=320",)),  # 13.3 million
}
# Accuracy in per cent on expanded MNIST and on affNIST.
IN_THE_PAPER = {f"CapsNet, {STOPPED}": ("99.23", "79"), f"CNN, {STOPPED}": ("99.22", "66")}

KINDS = {
    "affNIST-style images": "affine_error_percent",
    "images warped where they were trained": "warped_error_percent",
}


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
    """Return the error on affNIST-style warps of the test digits, and on such in trained places."""
    placed = trained.stream("test")
    canvas, size = placed.image_shape[1], placed.split.image_shape[1]
    num_images = trained.count(VERSIONS * len(placed.split))
    result: dict[str, Any] = {}
    for name, reach in (("affine", None), ("warped", (canvas - size) / 2)):
        stream = AffineStream(placed.split, num_images, canvas, reach)
        wrong = trained.answers(stream).misses
        result[f"{name}_error_percent"] = 100 * float(wrong.float().mean())
        result[f"{name}_num_images"] = len(wrong)
    return result


def table(results: Results) -> str:
    """Return accuracies beside the paper's, and whether the networks differ."""
    rows = current(results["affine"])
    body = []
    for ending in (STOPPED, FULL):
        for name in MODELS:
            row = f"{name}, {ending}"
            runs = rows.get(row, [])
            placed, affine = IN_THE_PAPER.get(row, ("–", "–"))
            body.append(
                [
                    marked(row, runs, recipes),
                    placed,
                    accuracy(values(runs, "error_percent")),
                    accuracy(values(runs, "warped_error_percent")),
                    affine,
                    accuracy(values(runs, "affine_error_percent")),
                    mean_std(values(runs, "epochs"), 1),
                ]
            )
    header = (
        "test accuracy %",
        "placed on 40×40, paper",
        "placed, here",
        "warped where it was trained, here",
        "affNIST, paper",
        "affNIST-style, here",
        "epochs",
    )
    pairs = []
    for what, key in KINDS.items():
        for ending in (STOPPED, FULL):
            both = {name: rows.get(f"{name}, {ending}", []) for name in MODELS}
            errors = {name: values(runs, key) for name, runs in both.items()}
            pairs.append((f"Error on {what}, {ending}", errors))
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
        "error % warped in place": "warped_error_percent",
        "validation error %": "validation_error_percent",
    },
)
