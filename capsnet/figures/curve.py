"""The learning curve of a run: loss, and the task's figure in training and validation, by epoch."""

from pathlib import Path

from matplotlib.figure import Figure

from capsnet.figures.plot import BLUE, ORANGE, RED
from capsnet.training.log import read_log


def draw_curve(folder: Path) -> Figure:
    """Draw the log of the run in a folder; the epoch whose weights are kept is marked."""
    lines = read_log(folder)
    epochs = [line["epoch"] for line in lines]
    taken = next((line["epoch"] for line in lines if line.get("taken")), epochs[-1])
    metric = next(name for name in lines[0] if name.startswith("train_")).removeprefix("train_")
    shown = metric.replace("_percent", " in %").replace("_", " ")
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [line["loss"] for line in lines], color=BLUE, marker=_marker(epochs))
    left.set(ylabel="training loss")
    for name, colour in (("train", BLUE), ("validation", ORANGE)):
        points = [
            (line["epoch"], line[key]) for line in lines if (key := f"{name}_{metric}") in line
        ]
        if points:
            right.plot(*zip(*points, strict=True), color=colour, marker=_marker(points), label=name)
    right.set(ylabel=shown)
    for axis in (left, right):
        axis.axvline(taken, color=RED, linestyle="--", linewidth=1, label=f"kept: epoch {taken}")
        axis.set(xlabel="epoch", ylim=(0, None))
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    right.legend()
    return figure


def _marker(points: list) -> str:
    """Return a dot where a line of a single point, or a few, would hardly be seen."""
    return "o" if len(points) < 20 else ""
