"""Figures of the paper for any trained model that has the ability: that draws, or can be traced."""

import warnings
from collections.abc import Callable
from pathlib import Path

from capsnet.errors import needs

with needs("Figures need matplotlib", extra="figures"):
    from matplotlib.figure import Figure

from capsnet.data import Stream, open_data
from capsnet.figures.overlap import draw_overlap, open_overlaps
from capsnet.figures.perturbation import draw_perturbation
from capsnet.figures.reconstructions import draw_reconstructions
from capsnet.figures.routing import draw_routing
from capsnet.files import whole_file
from capsnet.models import Model
from capsnet.models.weights import Card
from capsnet.training.evaluation import check_fit

FIGURES: dict[str, Callable[[Model, Stream, int], Figure]] = {
    "reconstructions": draw_reconstructions,
    "perturbation": draw_perturbation,
    "routing": draw_routing,
    "overlap": draw_overlap,
}


def open_figure_data(
    kind: str, model: Model, data: str, folder: Path | None = None, card: Card | None = None
) -> Stream:
    """Return the test images that a figure of a model shows, as the card says they were chosen."""
    channels, size, _ = model.image_shape
    stream: Stream
    if kind == "overlap":
        stream = open_overlaps(model, data, folder, 0 if card is None else card.data_seed)
    else:
        chosen = {} if card is None else card.opening(data)
        stream = open_data(
            data, "test", folder=folder, image_size=size, channels=channels, **chosen
        )
    check_fit(model, stream)
    return stream


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    with whole_file(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # names in scripts that the font lacks
        figure.savefig(temporary, format="png", dpi=150, bbox_inches="tight")
