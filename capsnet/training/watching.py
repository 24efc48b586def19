"""What goes wrong in training without a wrong number: said once, after an epoch that showed it.

for sentence in troubles(model, images): progress.note(sentence)
"""

import torch
from torch import Tensor

from capsnet.models import Model
from capsnet.ops.trace import DYNAMIC

UNIFORM = 1e-3  # difference of all couplings from their mean, below which routing does nothing
SAME = 0.02  # of the spread of images, below which drawings are all one


@torch.no_grad()
def troubles(model: Model, images: Tensor) -> list[str]:
    """Return a sentence for each trouble that a few different images show."""
    training = model.training
    model.eval()  # no norm is to learn from this, and no dropout to draw
    found = []
    if model.traced is not None:
        trace = model.traced.trace(images)
        c = trace.c[-1]
        if (
            trace.routing == DYNAMIC
            and len(trace.c) > 1
            and float((c - c.mean()).abs().max()) < UNIFORM
        ):
            found.append(
                "The capsules are dead: every one is shared out evenly, so that routing does "
                "nothing; start anew with a smaller --lr, or with a norm between the layers."
            )
    if model.draws is not None and len(images) > 1:
        drawn = model.draws.reconstruct(model(images).v)
        if float(drawn.float().std(dim=0).mean()) < SAME * float(images.float().std(dim=0).mean()):
            found.append(
                "The decoder draws the same picture whatever it is shown; train longer, or give "
                "--reconstruction-weight more."
            )
    model.train(training)
    return found
