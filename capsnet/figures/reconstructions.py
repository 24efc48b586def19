"""Fig. 3: inputs above, what the longest capsule draws below; wrong answers in another colour."""

import torch
from matplotlib.figure import Figure

from capsnet.data import Stream
from capsnet.figures.plot import BLUE, RED, as_text, grid, show, take
from capsnet.models import CapsNet

COLUMNS = 12


@torch.inference_mode()
def draw_reconstructions(model: CapsNet, stream: Stream, index: int = 0) -> Figure:
    """Draw test images from number `index` on with their reconstructions."""
    batch = take(stream, index, COLUMNS)
    model.eval()
    output = model(batch.images)
    pictures = model.reconstruct(output.v)
    figure, axes = grid(2, len(batch.images))
    for n, guess in enumerate(output.lengths.argmax(dim=1).tolist()):
        show(axes[0, n], batch.images[n])
        show(axes[1, n], pictures[n])
        right = guess in batch.labels[n].tolist()
        truth = "+".join(stream.classes[k] for k in batch.labels[n].tolist())
        axes[0, n].set_title(as_text(truth), fontsize=8)
        said = as_text(stream.classes[guess])
        axes[1, n].set_title(said, fontsize=8, color=BLUE if right else RED)
    axes[0, 0].set_ylabel("input", fontsize=8)
    axes[1, 0].set_ylabel("drawn", fontsize=8)
    return figure
