"""Does a CapsNet need fewer labels? Both networks on small parts of MNIST, drawn anew per seed.

Every size gets the same number of steps.
"""

from math import ceil
from statistics import mean, stdev
from typing import Any

from matplotlib.figure import Figure

from capsnet.experiments.pages import markdown
from capsnet.experiments.recipes import BATCH_SIZE, paper
from capsnet.experiments.runner.experiment import Experiment
from capsnet.experiments.runner.records import Results, current, values
from capsnet.experiments.statistics import compare, mean_std
from capsnet.figures.plot import BLUE, RED
from capsnet.training.config import TrainConfig

STEPS = 3_000
CLASSES = 10
PER_CLASS = (10, 50, 100, 500, 1000)
MODELS = {"CapsNet": "capsnet_mnist", "CNN": "cnn_baseline"}
COLOURS = {"CapsNet": BLUE, "CNN": RED}


def row_name(model: str, per_class: int) -> str:
    """Return the name of a row."""
    return f"{model}, {per_class:,} per class"


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return both networks at every size; the class shares are MNIST's own."""
    rows = {}
    for per_class in PER_CLASS:
        num_images = CLASSES * per_class
        batch_size = min(BATCH_SIZE, num_images // 5)
        epochs = ceil(STEPS / ceil(num_images / batch_size))
        for name, model in MODELS.items():
            settings: dict[str, Any] = {
                "model": model,
                "data": "mnist",
                "num_samples": num_images,
                "seed": seed,
                "data_seed": seed,
                **paper(epochs, num_images, batch_size),
            }
            rows[row_name(name, per_class)] = TrainConfig(**settings)
    return rows


def table(results: Results) -> str:
    """Return the error of both networks at every size, with a test."""
    rows = current(results["few-labels"])
    body, pairs = [], []
    for per_class in PER_CLASS:
        errors = {
            name: values(rows.get(row_name(name, per_class), []), "error_percent")
            for name in MODELS
        }
        body.append([f"{per_class:,}", *(mean_std(x) for x in errors.values())])
        pairs.append((f"Error with {per_class:,} images per class", errors))
    header = (
        "labelled images per class, on average",
        *(f"{name}, test error %" for name in MODELS),
    )
    parts = [markdown.table(header, body), markdown.bullets(compare(pairs)), markdown.recipes(rows)]
    return "\n\n".join(parts)


def plot(results: Results) -> Figure:
    """Draw the error against the number of labels, mean and standard deviation."""
    rows = current(results["few-labels"])
    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for name in MODELS:
        runs = {n: values(rows.get(row_name(name, n), []), "error_percent") for n in PER_CLASS}
        sizes = [n for n, x in runs.items() if x]
        axis.errorbar(
            sizes,
            [mean(runs[n]) for n in sizes],
            [stdev(runs[n]) if len(runs[n]) > 1 else 0.0 for n in sizes],
            fmt="o-",
            capsize=3,
            color=COLOURS[name],
            label=name,
        )
    axis.set(xscale="log", yscale="log")
    axis.set(xlabel="labelled images per class, on average", ylabel="test error, %")
    axis.set_xticks(PER_CLASS, [f"{n:,}" for n in PER_CLASS], minor=False)
    axis.yaxis.set_minor_formatter(lambda y, _: f"{y:g}")
    axis.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axis.legend()
    return figure


EXPERIMENT = Experiment("few-labels", "Few labels", recipes, table, plot=plot)
