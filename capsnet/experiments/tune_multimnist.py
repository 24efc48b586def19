"""The choice of the recipe for MultiMNIST: short runs, judged on pairs of held-out training digits.

The test digits are never opened here. The winner is written into multimnist.py by hand.
"""

from statistics import mean
from typing import Any

from capsnet.data.streams.geometry import SHARP
from capsnet.experiments.pages import markdown
from capsnet.experiments.recipes import AUTHORS
from capsnet.experiments.runner.experiment import Experiment
from capsnet.experiments.runner.records import Results, current, values
from capsnet.experiments.statistics import mean_std
from capsnet.training.config import TrainConfig

EPOCHS = 16
PAIRS = 250_000  # in one epoch
HOLDOUT = 10_000

AFFINE_5 = {"rotate": 5.0, "scale": 0.05, "shear": 0.05, "contrast": SHARP}
AFFINE_10 = {"rotate": 10.0, "scale": 0.1, "shear": 0.1, "contrast": SHARP}
DECAY = {"weight_decay": 0.05}
CAPSNET: dict[str, Any] = {"model": "capsnet_multimnist", "lr": 2e-3}
LONG_AUTHORS: dict[str, Any] = {**CAPSNET, "options": AUTHORS, "epochs": 32}
CNN: dict[str, Any] = {"model": "cnn_multimnist"}
MODERN: dict[str, Any] = {"model": "capsnet_modern", "lr": 2e-3, "average_classes": True}
LARGE_DECODER = "decoder=(512, 1024)"
COARSE = ("primary_stride=2", LARGE_DECODER)
LESS = ("primary_stride=2", "decoder=(256, 512)")
CNN_MODERN: dict[str, Any] = {
    "model": "cnn_modern",
    "options": ("conv_stride=2",),
    "lr": 2e-3,
    **DECAY,
}
CANDIDATES: dict[str, dict[str, Any]] = {
    "CapsNet": CAPSNET,
    "CapsNet, authors' network": {**CAPSNET, "options": AUTHORS},
    "CapsNet, weight decay 0.05": {**CAPSNET, **DECAY},
    "CapsNet, affine 10": {**CAPSNET, **AFFINE_10},
    "CapsNet, all three": {**CAPSNET, "options": AUTHORS, **DECAY, **AFFINE_10},
    "long, CapsNet, authors' network": LONG_AUTHORS,
    "long, CapsNet, authors' network and loss": {**LONG_AUTHORS, "average_classes": True},
    "long, CapsNet, authors' network and loss, affine 5": {
        **LONG_AUTHORS,
        "average_classes": True,
        **AFFINE_5,
    },
    "CNN, lr 1e-3": {**CNN, "lr": 1e-3},
    "CNN, lr 3e-4": {**CNN, "lr": 3e-4},
    "modern": {**MODERN, "options": ("primary_stride=1", LARGE_DECODER)},
    "modern, coarse": {**MODERN, "options": COARSE},
    "modern, coarse, small decoder": {**MODERN, "options": LESS},
    "modern, coarse, affine 5": {**MODERN, "options": COARSE, **AFFINE_5},
    "modern, coarse, small decoder, weight decay 0.05": {**MODERN, "options": LESS, **DECAY},
    "modern, coarse, smaller decoder, weight decay 0.05": {
        **MODERN,
        "options": ("primary_stride=2", "decoder=(128, 256)"),
        **DECAY,
    },
    "modern, coarse, smaller decoder, weight decay 0.05, 24 types": {
        **MODERN,
        "options": ("primary_stride=2", "decoder=(128, 256)", "primary_types=24"),
        **DECAY,
    },
    "modern, coarse, small decoder, weight decay 0.05, lr 4e-3": {
        **MODERN,
        "options": LESS,
        **DECAY,
        "lr": 4e-3,
    },
    "modern, coarse, small decoder, reconstruction 0.001": {
        **MODERN,
        "options": LESS,
        "reconstruction_weight": 1e-3,
    },
    "modern, coarse, small decoder, 16 types": {
        **MODERN,
        "options": (*LESS, "primary_types=16"),
    },
    "modern, coarse, smaller decoder, 192 channels": {
        **MODERN,
        "options": ("primary_stride=2", "decoder=(128, 256)", "channels=(64, 128, 192)"),
    },
    "modern, coarse, convolutions draw, weight decay 0.05": {
        **MODERN,
        "options": ("primary_stride=2", "decoder=conv"),
        **DECAY,
    },
    "modern CNN, coarse, weight decay 0.05": CNN_MODERN,
    "modern CNN, coarse, weight decay 0.05, lr 1e-3": {**CNN_MODERN, "lr": 1e-3},
    "modern CNN, coarse, weight decay 0.05, lr 4e-3": {**CNN_MODERN, "lr": 4e-3},
    "modern CNN, coarse, weight decay 0.05, lr 8e-3": {**CNN_MODERN, "lr": 8e-3},
}


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all candidates."""
    common: dict[str, Any] = {
        "data": "multimnist",
        "num_samples": PAIRS,
        "epochs": EPOCHS,
        "batch_size": 256,
        "schedule": "linear",
        "warmup_steps": 1_000,
        "compile": True,
        "holdout": HOLDOUT,
        "final_split": "validation",
        "seed": seed,
    }
    return {row: TrainConfig(**{**common, **changes}) for row, changes in CANDIDATES.items()}


def table(results: Results) -> str:
    """Return the candidates, best first."""
    rows = current(results["tune-multimnist"])
    keys = {
        "validation error %": "error_percent",
        "training error %, last epoch": "train_error_percent",
        "seconds of training": "seconds",
    }
    ranked = sorted(rows, key=lambda row: mean(values(rows[row], "error_percent") or [100.0]))
    body = [[row, *(mean_std(values(rows[row], key)) for key in keys.values())] for row in ranked]
    return "\n\n".join([markdown.table(("candidate", *keys), body), markdown.recipes(rows)])


EXPERIMENT = Experiment(
    "tune-multimnist",
    "Choice of the recipe for MultiMNIST, on held-out training digits",
    recipes,
    table,
    seeds=1,
    columns={"validation error %": "error_percent", "training error %": "train_error_percent"},
)
