"""Fig. 3: inputs above, what the longest capsule draws below; wrong answers in another colour."""

import torch
from matplotlib.figure import Figure

from capsnet.data import Stream
from capsnet.figures.plot import BLUE, RED, artist_of, as_text, grid, show, take
from capsnet.models import Model
from capsnet.tasks import Labels

COLUMNS = 12


@torch.inference_mode()
def draw_reconstructions(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw test images from number `index` on with their reconstructions."""
    batch = take(stream, index, COLUMNS)
    pictures = artist_of(model).reconstruct((output := model(batch.images)).v)
    task = stream.task
    misses = task.misses(output.answers, batch.labels)
    figure, axes = grid(2, len(batch.images))
    for n in range(len(batch.images)):
        show(axes[0, n], batch.images[n])
        show(axes[1, n], pictures[n])
        axes[0, n].set_title(as_text(task.say(batch.labels[n])), fontsize=8)
        colour = RED if isinstance(task, Labels) and misses[n] else BLUE
        axes[1, n].set_title(as_text(task.decide(output.answers[n])), fontsize=8, color=colour)
    axes[0, 0].set_ylabel("input", fontsize=8)
    axes[1, 0].set_ylabel("drawn", fontsize=8)
    return figure
