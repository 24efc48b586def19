"""Fig. 3: inputs above, what the longest capsule draws below; wrong answers in another colour."""

import torch
from matplotlib.figure import Figure

from capsnet.data import Stream
from capsnet.figures.plot import BLUE, RED, artist_of, as_text, grid, show, take_in_turn
from capsnet.models import Model
from capsnet.tasks import Labels

COLUMNS = 12
NAME = 8  # letters that have room above a picture


@torch.inference_mode()
def draw_reconstructions(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw test images from number `index` on, of each class in turn, and what is drawn back."""
    batch = take_in_turn(stream, index, COLUMNS)
    pictures = artist_of(model).reconstruct((output := model(batch.images)).v)
    task = stream.task
    misses = task.misses(output.answers, batch.labels)
    figure, axes = grid(2, len(batch.images))
    size = min(8.0, 8 * NAME / max(map(len, task.names)))
    for n in range(len(batch.images)):
        show(axes[0, n], batch.images[n])
        show(axes[1, n], pictures[n])
        axes[0, n].set_title(as_text(task.say(batch.labels[n])), fontsize=size)
        colour = RED if isinstance(task, Labels) and misses[n] else BLUE
        axes[1, n].set_title(as_text(task.decide(output.answers[n])), fontsize=size, color=colour)
    axes[0, 0].set_ylabel("input", fontsize=8)
    axes[1, 0].set_ylabel("drawn", fontsize=8)
    return figure
