"""Figures 4 and 5 of the paper and the routing, drawn from shipped weights and embedded digits.

draw("figure-perturbation", Path("docs/figures"))
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from capsnet.data import Stream
from capsnet.figures import open_figure_data, save_figure
from capsnet.figures.overlap import two_colours
from capsnet.figures.perturbation import draw_perturbation
from capsnet.figures.plot import BLUE, GREEN, RED, artist_of, grid, show, take
from capsnet.figures.routing import draw_routing
from capsnet.models import Model
from capsnet.models.weights import find_model

SEARCHED = 500  # test pairs among which the columns are found
COLUMNS = {"right": 6, "wrong": 3, "forced": 3}


class Drawing(NamedTuple):
    """A figure: whose weights, which of the package's figures, and what it shows."""

    weights: str
    kind: str
    draw: Callable[[Model, Stream, int], Figure]
    caption: str


@torch.inference_mode()
def draw_figure_5(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw pairs that are read rightly, pairs that are not, and drawings of a digit not there."""
    batch = take(stream, index, SEARCHED)
    artist, output = artist_of(model), model(batch.images)
    guess = output.answers.topk(2, dim=1).indices
    failed = stream.task.misses(output.answers, batch.labels)
    absent = output.answers.argmin(dim=1)
    assert batch.parts is not None
    rows = (~failed).nonzero().flatten()
    picks = {
        "right": (rows[: COLUMNS["right"]], batch.labels),
        "wrong": (failed.nonzero().flatten()[: COLUMNS["wrong"]], guess),
        "forced": (
            rows[COLUMNS["right"] :][: COLUMNS["forced"]],
            torch.stack([batch.labels[:, 0], absent], 1),
        ),
    }
    colours = {"right": BLUE, "wrong": RED, "forced": GREEN}
    figure, axes = grid(3, max(1, sum(len(chosen) for chosen, _ in picks.values())), cell=0.9)
    column = 0
    for name, (chosen, classes) in picks.items():
        drawn = artist.reconstruct(output.v[chosen], classes[chosen])
        for n, picture in zip(chosen.tolist(), drawn, strict=True):
            show(axes[0, column], batch.images[n])
            axes[1, column].imshow(two_colours(batch.parts[n]))
            axes[2, column].imshow(two_colours(picture))
            axes[0, column].set_title(name, fontsize=8, color=colours[name])
            for row, labels in ((1, batch.labels[n]), (2, classes[n])):
                text = "+".join(stream.task.names[k] for k in labels.tolist())
                axes[row, column].set_title(text, fontsize=8)
            column += 1
    for row, text in enumerate(("input", "truth", "drawn")):
        axes[row, 0].set_ylabel(text, fontsize=8)
    return figure


DRAWINGS = {
    "figure-perturbation": Drawing(
        "capsnet_mnist",
        "perturbation",
        draw_perturbation,
        "Fig. 4: each of the 16 dimensions of the winning capsule changed in steps of half its "
        "standard deviation over digits of the class.",
    ),
    "figure-overlap": Drawing(
        "capsnet_multimnist",
        "overlap",
        draw_figure_5,
        "Fig. 5: two digits told apart, each drawn by its capsule; failures; and drawings forced "
        "from a label and a digit that is not there.",
    ),
    "figure-routing": Drawing(
        "capsnet_mnist",
        "routing",
        draw_routing,
        "The couplings to the winner, iteration by iteration.",
    ),
}


def draw(name: str, folder: Path) -> Path:
    """Write the figure as PNG into a folder."""
    drawing = DRAWINGS[name]
    model, _ = find_model(drawing.weights)
    stream = open_figure_data(drawing.kind, model, "digits")
    path = folder / f"{name}.png"
    save_figure(drawing.draw(model, stream, 0), path)
    return path
