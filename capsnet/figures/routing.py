"""How the couplings sharpen: where the primary capsules send their output, step by step."""

import torch
from matplotlib.figure import Figure

from capsnet.data import Stream
from capsnet.errors import require
from capsnet.figures.plot import BLUE, ORANGE, as_text, show, take
from capsnet.models import Model


@torch.inference_mode()
def draw_routing(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw couplings to the winning class by position, and all class lengths, per iteration."""
    batch = take(stream, index, 1)
    model.eval()
    lack = f"{model.name} has no routing to draw; choose a model that can be traced."
    traced, placed = require(model.traced, lack), require(model.placed, lack)
    u, trace = placed.primary(batch.images), traced.trace(batch.images)
    R, J = len(trace.c), trace.c.shape[3]
    names = [as_text(name) for name in stream.task.names]
    lengths = torch.linalg.vector_norm(trace.v[:, 0], dim=-1)
    winner = int(lengths[-1].argmax())
    # Each position shows the coupling of its capsules, weighted by how active they are.
    activity = torch.linalg.vector_norm(u[0], dim=-1).view(placed.grid)
    coupling = trace.c[:, 0, :, winner].view(R, *placed.grid)
    maps = (coupling * activity).sum(-1) / activity.sum(-1).clamp(min=1e-9)

    figure = Figure(figsize=(2.2 * (R + 1), 4.2), layout="constrained")
    axes = figure.subplots(2, R + 1)
    show(axes[0, 0], batch.images[0])
    axes[0, 0].set_title("input", fontsize=9)
    axes[0, 0].set(xticks=[], yticks=[])
    axes[1, 0].axis("off")
    for t in range(R):
        image = axes[0, t + 1].imshow(maps[t].numpy(), cmap="cividis", vmin=0, vmax=maps.max())
        axes[0, t + 1].set_title(f"iteration {t + 1}: c to {names[winner]}", fontsize=9)
        axes[0, t + 1].set(xticks=[], yticks=[])
        colours = [ORANGE if j == winner else BLUE for j in range(J)]
        axes[1, t + 1].bar(range(J), lengths[t].numpy(), color=colours)
        axes[1, t + 1].set(ylim=(0, 1), xticks=range(J))
        axes[1, t + 1].set_xticklabels(names, fontsize=7, rotation=0 if J <= 10 else 90)
        axes[1, t + 1].set_title("lengths |v|", fontsize=9)
    figure.colorbar(image, ax=axes[0, -1], fraction=0.05)
    return figure
