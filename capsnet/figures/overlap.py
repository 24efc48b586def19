"""Fig. 5: two digits over each other, and each of the two drawn alone by its own capsule."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from capsnet.data import ImageStream, OverlapStream, Stream, open_data
from capsnet.errors import UserError
from capsnet.figures.plot import ORANGE, SKY, artist_of, as_text, grid, show, take
from capsnet.models import Model

COLUMNS = 12


def open_overlaps(
    model: Model, data: str, folder: Path | None = None, seed: int = 0
) -> OverlapStream:
    """Return test pairs of any data set on the model's canvas, shifted as far as it has room."""
    channels, size, _ = model.image_shape
    ask: dict[str, Any] = {"folder": folder, "channels": channels, "seed": seed}
    stream = open_data(data, "test", **ask)
    if isinstance(stream, ImageStream) and stream.image_shape[1] > size:
        stream = open_data(data, "test", image_size=size, **ask)  # a folder's can be made smaller
    if isinstance(stream, OverlapStream | ImageStream):
        split = stream.split
        room = min(4, (size - max(split.image_shape[1:])) // 2)
        if room >= 0:
            return OverlapStream(split, len(split), size, room)
    raise UserError(f"{data} cannot be overlaid on {size}×{size}; choose single pictures.")


@torch.inference_mode()
def draw_overlap(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw overlays from number `index` on, both reconstructions in two colours, and the truth."""
    batch = take(stream, index, COLUMNS)
    artist = artist_of(model)
    output = model(batch.images)
    guess = output.answers.topk(2, dim=1).indices
    drawn = artist.reconstruct(output.v, guess)
    figure, axes = grid(3, len(batch.images))
    for n in range(len(batch.images)):
        show(axes[0, n], batch.images[n])
        assert batch.parts is not None
        axes[1, n].imshow(two_colours(batch.parts[n]))
        axes[2, n].imshow(two_colours(drawn[n]))
        for row, classes in ((1, batch.labels[n]), (2, guess[n])):
            names = "+".join(stream.task.names[k] for k in classes.tolist())
            axes[row, n].set_title(as_text(names), fontsize=8)
    for row, text in enumerate(("input", "truth", "drawn")):
        axes[row, 0].set_ylabel(text, fontsize=8)
    return figure


def two_colours(parts: Tensor) -> np.ndarray:
    """Return two pictures [2, C, H, W] as one [H, W, 3], each in its own colour."""
    colours = parts.new_tensor([to_rgb(ORANGE), to_rgb(SKY)])
    grey = parts.mean(dim=1)
    return torch.einsum("phw,pk->hwk", grey, colours).clamp(0, 1).cpu().numpy()
