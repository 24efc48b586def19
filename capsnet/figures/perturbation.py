"""Fig. 4: one dimension of the winning capsule at a time is tweaked, and the picture drawn."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from capsnet.data import Stream
from capsnet.figures.plot import artist_of, grid, show, take
from capsnet.models import Draws, Model

STEPS = torch.arange(-5, 6) * 0.05  # the paper's range: -0.25 to 0.25


@torch.inference_mode()
def perturb(artist: Draws, v: Tensor, which: int, steps: Tensor = STEPS) -> Tensor:
    """Return pictures [E, S, C, H, W]: dimension e of capsule `which` of v [J, E] changed by s."""
    E, S = v.shape[1], len(steps)
    tweaked = v.repeat(E, S, 1, 1)
    for e in range(E):
        tweaked[e, :, which, e] += steps.to(v.device)
    return artist.reconstruct(tweaked.flatten(0, 1), which).unflatten(0, (E, S))


@torch.inference_mode()
def draw_perturbation(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw all dimensions × steps for test image number `index`."""
    artist = artist_of(model)
    v = model(take(stream, index, 1).images).v[0]
    pictures = perturb(artist, v, int(torch.linalg.vector_norm(v, dim=-1).argmax()))
    figure, axes = grid(len(pictures), len(STEPS), cell=0.6)
    for e, row in enumerate(pictures):
        axes[e, 0].set_ylabel(f"{e + 1}", fontsize=8, rotation=0, labelpad=8)
        for s, picture in enumerate(row):
            show(axes[e, s], picture)
    for s, step in enumerate(STEPS.tolist()):
        axes[0, s].set_title(f"{step:+.2f}", fontsize=8)
    return figure
