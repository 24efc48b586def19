"""How our figures look: grids of small pictures, and colours that everybody can tell apart."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from capsnet.data import Stream
from capsnet.errors import UserError, require
from capsnet.models import Draws, Model
from capsnet.tasks import Batch, OneLabel

# Okabe and Ito's palette: distinguishable under all common colour blindness.
ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)


def grid(rows: int, columns: int, cell: float = 0.75) -> tuple[Figure, np.ndarray]:
    """Return a figure of rows × columns axes without ticks."""
    figure = Figure(figsize=(columns * cell, rows * cell), layout="compressed")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    return figure, axes


def show(axis: Axes, picture: Tensor) -> None:
    """Show a picture [C, H, W] in [0, 1]: grey, colour, or the first channel of any other."""
    pixels = picture.detach().cpu().numpy()
    if len(pixels) == 3:
        axis.imshow(pixels.transpose(1, 2, 0).clip(0, 1))
    else:
        axis.imshow(pixels[0], cmap="gray", vmin=0, vmax=1)


def as_text(name: str) -> str:
    """Return the name of a class so that matplotlib shows it and takes no $ for a formula."""
    return name.encode("utf-8", "replace").decode().replace("$", r"\$")


def take(stream: Stream, index: int, count: int) -> Batch:
    """Return up to `count` test images from number `index` on."""
    return stream.batch({name: x[index : index + count] for name, x in _plan(stream, index)})


def take_in_turn(stream: Stream, index: int, count: int) -> Batch:
    """Return up to `count` test images from number `index` on, the next of each class in turn.

    Pictures of one's own lie class by class: those that follow each other would all be of one.
    """
    plan = _plan(stream, index)
    if not isinstance(stream.task, OneLabel) or len(stream.split) != stream.num_samples:
        return take(stream, index, count)
    seen: Counter[int] = Counter()
    turns = []
    for label in stream.split.labels[index:].tolist():
        turns.append(seen[label])
        seen[label] += 1
    rows = torch.tensor(np.argsort(turns, kind="stable")[:count] + index, device=stream.device)
    return stream.batch({name: x[rows] for name, x in plan})


def _plan(stream: Stream, index: int) -> Iterable[tuple[str, Tensor]]:
    if not 0 <= index < stream.num_samples:
        raise UserError(f"There is no image {index}; choose 0 to {stream.num_samples - 1}.")
    return stream.plan(None).items()


def artist_of(model: Model) -> Draws:
    """Return the model, ready to be asked, as one that draws; a UserError if it does not."""
    return require(model.eval().draws, f"{model.name} draws no pictures; choose one that does.")
