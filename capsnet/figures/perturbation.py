"""Fig. 4: one dimension of the winning capsule at a time is tweaked, and the picture drawn.

The steps of a dimension are shares of its own spread over images of the class: ±0.25, the paper's
range for all, is nine standard deviations of one network's numbers and two of another's.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from capsnet.data import Stream
from capsnet.figures.plot import artist_of, as_text, grid, show, take, take_in_turn
from capsnet.models import Draws, Model
from capsnet.models.self_reading import spreads

STEPS = torch.arange(-5, 6) * 0.05  # the paper's range: -0.25 to 0.25
SPREADS = torch.arange(-5, 6) * 0.5  # standard deviations
NUM_KNOWN = 300  # test images whose spread is taken


@torch.inference_mode()
def perturb(artist: Draws, v: Tensor, which: int, steps: Tensor = STEPS) -> Tensor:
    """Return pictures [E, S, C, H, W]: dimension e of capsule `which` of v [J, E] changed by s.

    steps: [S] for all, or [E, S].
    """
    E, S = v.shape[1], steps.shape[-1]
    tweaked = v.repeat(E, S, 1, 1)
    steps = steps.to(v.device).expand(E, S)
    for e in range(E):
        tweaked[e, :, which, e] += steps[e]
    return artist.reconstruct(tweaked.flatten(0, 1), which).unflatten(0, (E, S))


@torch.inference_mode()
def draw_perturbation(model: Model, stream: Stream, index: int = 0) -> Figure:
    """Draw all dimensions × steps for test image number `index`.

    The paper's steps are taken where less than two of the first images are of its class.
    """
    artist = artist_of(model)
    v = model(take(stream, index, 1).images).v[0]
    which = int(torch.linalg.vector_norm(v, dim=-1).argmax())
    spread = spreads(model, take_in_turn(stream, 0, NUM_KNOWN).images)[which]
    known = bool(spread.any())
    steps = spread[:, None] * SPREADS.to(v.device) if known else STEPS
    pictures = perturb(artist, v, which, steps)
    figure, axes = grid(len(pictures), len(STEPS), cell=0.6)
    for e, row in enumerate(pictures):
        name = f"{e + 1}  ±{steps[e, -1]:.2f}" if known else f"{e + 1}"
        axes[e, 0].set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center")
        for s, picture in enumerate(row):
            show(axes[e, s], picture)
    for axis, step in zip(axes[0], (SPREADS if known else STEPS).tolist(), strict=True):
        axis.set_title(f"{step:+.1f} σ" if known else f"{step:+.2f}", fontsize=8)
    names = model.task.names  # a slot has no name of its own
    who = as_text(names[which]) if len(names) == len(v) else f"{which + 1}"
    unit = "standard deviations σ" if known else "steps of 0.05"
    figure.suptitle(f"Each number of capsule “{who}” changed alone, by {unit}", fontsize=9)
    return figure
