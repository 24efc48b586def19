"""Looking inside a network: everything between a picture and its last capsules, and drawings.

analysis = analyse(net, pixels, num_drawn=1); pictures = draw(net, [[Capsule(which=3, v=…)]])
"""

import torch
from torch import Tensor

from capsnet.errors import UserError, require
from capsnet.models.drawing import NO_DECODER
from capsnet.models.reference import drawing_errors
from capsnet.ops.trace import DYNAMIC, RoutingTrace
from capsnet.prediction.answer import decided
from capsnet.prediction.trust import BLANK, doubts
from capsnet.web.nets import Net
from capsnet.web.schema import Analysis, Capsule, Votes, pack_floats, pack_pixels


@torch.inference_mode()
def analyse(net: Net, pixels: Tensor, num_drawn: int) -> Analysis:
    """Return the routing of a picture [C, H, W], and what its longest capsules draw."""
    u, trace = net.placed.primary(pixels[None]), net.traced.trace(pixels[None])
    b = agreements(trace)
    v = trace.v[-1]
    lengths = norm(v[0])
    drawn = lengths.topk(num_drawn).indices
    pictures = None if net.draws is None else net.draws.reconstruct(v, drawn[None])
    output = net.model(pixels[None])
    errors = drawing_errors(net.model, pixels[None], output)
    error = None if errors is None else float(errors[0])
    rule = net.card.calibration
    shown, said = decided(net.model.task, rule, output.answers)
    calibrated = (said[0], shown[0]) if rule is not None and rule.is_known else None
    answers = output.answers[0].tolist()
    empty = (BLANK,) if pixels.min() == pixels.max() else ()
    return Analysis(
        image=pack_pixels(pixels),
        said=said[0],
        doubts=list(doubts(net.model, answers, error, net.reference, empty, calibrated)),
        lengths=lengths.tolist(),
        v=v[0].tolist(),
        u=pack_floats(norm(u[0])),
        votes=pack_floats(norm(trace.u_hat[0])),
        b=pack_floats(b[:, 0]),
        c="" if trace.routing == DYNAMIC else pack_floats(trace.c[:, 0]),
        s_steps=norm(trace.s[:, 0]).tolist(),
        v_steps=norm(trace.v[:, 0]).tolist(),
        drawn=drawn.tolist(),
        pictures="" if pictures is None else pack_pixels(pictures),
    )


@torch.inference_mode()
def vote(net: Net, pixels: Tensor) -> Votes:
    """Return every vote of the parts of a picture [C, H, W]; a UserError if it is not so routed."""
    trace = net.traced.trace(pixels[None])
    if trace.routing != DYNAMIC:
        raise UserError(f"Votes are told of dynamic routing; this network has {trace.routing}.")
    # s is the sum of the votes, each times its coupling, and of the bias.
    bias = trace.s[0, 0] - torch.einsum("ij,ije->je", trace.c[0, 0], trace.u_hat[0])
    return Votes(votes=pack_floats(trace.u_hat[0]), bias=pack_floats(bias) if trace.biased else "")


def norm(x: Tensor) -> Tensor:
    """Return the lengths of the vectors in the last dimension."""
    return torch.linalg.vector_norm(x, dim=-1)


def agreements(trace: RoutingTrace) -> Tensor:
    """Return the sum of u_hat·v [R + 1, N, I, J] before each iteration and after the last.

    These are the logits of dynamic routing.
    """
    each = torch.einsum("nije,rnje->rnij", trace.u_hat, trace.v)
    return torch.cat([torch.zeros_like(each[:1]), each.cumsum(dim=0)])


@torch.inference_mode()
def draw(net: Net, pictures: list[list[Capsule]]) -> Tensor:
    """Return [N, C, H, W], each picture drawn from its capsules, all others zero."""
    artist = require(net.draws, NO_DECODER)
    J, E = net.blank.v.shape[2:]
    v = torch.zeros(len(pictures), J, E)
    for n, capsules in enumerate(pictures):
        for capsule in capsules:
            if capsule.which >= J:
                raise UserError(f"There is no class {capsule.which}; choose 0 to {J - 1}.")
            if len(capsule.v) != E:
                raise UserError(f"A class capsule has {E} numbers here, not {len(capsule.v)}.")
            v[n, capsule.which] = torch.tensor(capsule.v)
    return artist.draw(v)
