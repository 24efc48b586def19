"""A basis of each class capsule chosen for meaning: the main ways in which its images differ.

model = with_principal_directions(model, images)

Read-out and drawing do not depend on the basis of a class capsule. For orthogonal R_j, the weights
R_j W_ij (and R_j b_j) give R_j v_j in every iteration of the routing, because lengths and scalar
products are the same; the decoder's first layer A_j becomes A_j R_j^T, and draws the same.
"""

import copy

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.layers import ClassCaps, Decoder, SelfAttentionCaps
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.model import Model
from capsnet.models.self_reading import NUM_KNOWN, moved_drawings


@torch.no_grad()
def turned(model: Model, R: Tensor) -> Model:
    """Return a copy of a model whose class capsules are R_j v_j, for orthogonal R [J, E, E].

    It answers and draws as the model does, to rounding. A UserError if a routing looks at single
    numbers (EM has a variance of each) or if the decoder is the same for all classes.
    """
    if not (
        isinstance(model, CapsClassifier)
        and isinstance(model.class_caps, ClassCaps | SelfAttentionCaps)
        and isinstance(model.decoder, Decoder)
    ):
        raise UserError(
            f"The capsules of {model.name} cannot be turned; choose a model with dynamic or "
            "self-attention routing and a decoder that knows the class."
        )
    other = copy.deepcopy(model)
    assert isinstance(other.decoder, Decoder)
    caps, layer = other.class_caps, other.decoder.first
    R = R.to(caps.W.device, torch.float64)
    J, E, _ = R.shape
    _set(caps.W, torch.einsum("jfe,ijed->ijfd", R, caps.W.double()))
    if isinstance(caps, ClassCaps) and caps.bias is not None:
        _set(caps.bias, torch.einsum("jfe,je->jf", R, caps.bias.double()))
    A = layer.weight.double().unflatten(1, (J, E))
    _set(layer.weight, torch.einsum("hje,jfe->hjf", A, R).flatten(1))
    return other


@torch.no_grad()
def with_principal_directions(model: Model, images: Tensor) -> Model:
    """Return a copy of a model whose numbers are the principal directions of each class's capsule.

    Those of class j are taken over the images [N, C, H, W], on the model's device, that the model
    reads as j. First comes the direction that changes the drawing most when it is moved by one
    standard deviation of its own; each is signed so that more of it is more ink. A class with less
    than two images stays as it is. The model is put in the mode of evaluation.
    """
    model.eval()
    v = torch.cat([model(part).v for part in images.split(NUM_KNOWN)])
    winner = torch.linalg.vector_norm(v, dim=-1).argmax(1)
    J, E = v.shape[1:]
    R = torch.eye(E, dtype=torch.float64, device=v.device).repeat(J, 1, 1)
    spread = torch.zeros(J, E, dtype=torch.float64, device=v.device)
    for j in range(J):
        own = v[winner == j, j].double()
        if len(own) > 1:
            _, S, R[j] = torch.linalg.svd(own - own.mean(0), full_matrices=True)
            spread[j, : len(S)] = S / (len(own) - 1) ** 0.5
    main = turned(model, R)
    effect, ink = _effects(main, images, spread)
    order = effect.argsort(stable=True, dim=1, descending=True)
    sign = torch.where(ink < 0, -1.0, 1.0).double()
    signed = R * sign[..., None]
    return turned(model, torch.take_along_dim(signed, order[..., None], dim=1))


def _effects(model: Model, images: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much drawings change [J, E] by one spread [J, E], and how much ink it adds.

    Both are sums over images, of which only order and sign within a class are used.
    """
    both = spread[..., None] * torch.tensor([1.0, -1.0], device=spread.device)
    effect, ink = torch.zeros_like(spread), torch.zeros_like(spread)
    for winner, before, drawn in moved_drawings(model, images, both.float()):
        far = (drawn - before[:, None, None]).double().square().flatten(3).mean(3).mean(2)
        more = drawn.double().flatten(3).mean(3)
        effect.index_add_(0, winner, far)
        ink.index_add_(0, winner, more[..., 0] - more[..., 1])
    return effect, ink


def _set(parameter: Tensor, value: Tensor) -> None:
    parameter.copy_(value.to(parameter.dtype))
