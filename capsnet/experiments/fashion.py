"""Fashion-MNIST: capsules on a modern stem and a CNN on the same stem, by one recipe.

The CNN has the capsules' recipe, which was not tuned for it; tune-fashion ranks candidates on
held-out training images.
"""

from typing import Any

from capsnet.experiments.pages import markdown
from capsnet.experiments.recipes import clothes
from capsnet.experiments.rows import MODERN, MODERN_CNN, verdicts
from capsnet.experiments.runner.experiment import Experiment
from capsnet.experiments.runner.records import Results, current, marked, values
from capsnet.experiments.statistics import mean_std
from capsnet.training.config import TrainConfig

NAME = "fashion"
EPOCHS = 100
MODELS = {MODERN: "capsnet_modern_fashion", MODERN_CNN: "cnn_modern"}
CHANGES: dict[str, dict[str, Any]] = {MODERN: {"reconstruction_weight": 0.005}, MODERN_CNN: {}}


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return both rows."""
    common = {"data": "fashion", "seed": seed, **clothes(EPOCHS)}
    return {
        row: TrainConfig(model=model, **common, **CHANGES[row]) for row, model in MODELS.items()
    }


def table(results: Results) -> str:
    """Return errors, and a test of the difference."""
    rows = current(results[NAME])
    body = []
    for row in MODELS:
        runs = rows.get(row, [])
        cells = (mean_std(values(runs, key)) for key in ("error_percent", "train_error_percent"))
        body.append([marked(row, runs, recipes), *cells])
    header = ("head", "test error %", "training error %")
    parts = [markdown.table(header, body), markdown.bullets(verdicts(rows, [(MODERN, MODERN_CNN)]))]
    return "\n\n".join([*parts, markdown.recipes(rows)])


EXPERIMENT = Experiment(NAME, "Fashion-MNIST", recipes, table)
