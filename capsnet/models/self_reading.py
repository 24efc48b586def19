"""Whether a network reads its own drawings: one number of a capsule is changed, drawn and read.

found = self_reading(model, images, 0.25); found.same, found.change
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from capsnet.errors import UserError, require
from capsnet.models.drawing import NO_DECODER
from capsnet.models.model import Model
from capsnet.tasks import OneLabel

BATCH = 512  # drawings at a time
NUM_KNOWN = 64  # images at a time


@dataclass(frozen=True)
class SelfReading:
    """What drawings of changed capsules are read as, over images, dimensions and both signs."""

    num_images: int
    same: float  # the share that is read as the class that drew it
    change: float  # mean squared change of a pixel
    same_of: tuple[float, ...]  # [E], of each dimension
    change_of: tuple[float, ...]  # [E]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return asdict(self)


class Moved(NamedTuple):
    """Drawings of N images' winning capsules, each of E numbers changed by each of S steps."""

    winner: Tensor  # [N]
    before: Tensor  # [N, C, H, W], drawn of the capsule as it is
    drawn: Tensor  # [N, E, S, C, H, W]


@torch.inference_mode()
def moved_drawings(
    model: Model, images: Tensor, steps: Tensor, v: Tensor | None = None
) -> Iterator[Moved]:
    """Yield what is drawn of images [N, C, H, W], some at a time, in their order.

    steps: what is added to a number, [S] of all or [J, E, S] of each class and dimension.
    v: the capsules [N, J, E] of the images, if they are known.
    """
    artist = require(model.draws, NO_DECODER)
    S = steps.shape[-1]
    if len(images) == 0:
        return
    E = v.shape[2] if v is not None else model(images[:1]).v.shape[2]
    steps = steps.to(images.device)
    for start in range(0, len(images), count := max(1, BATCH // (E * S))):
        part = images[start : start + count]
        known = model(part).v if v is None else v[start : start + count]
        winner = torch.linalg.vector_norm(known, dim=-1).argmax(1)
        n, rows = len(part), torch.arange(len(part), device=images.device)
        added = steps.expand(n, E, S) if steps.dim() == 1 else steps[winner]
        moved = known[:, None, None].repeat(1, E, S, 1, 1)
        each = torch.eye(E, device=images.device, dtype=known.dtype)
        moved[rows, :, :, winner] += added[..., None].to(known.dtype) * each[:, None]
        which = winner.repeat_interleave(E * S)
        drawn = artist.reconstruct(moved.flatten(0, 2), which).unflatten(0, (n, E, S))
        yield Moved(winner, artist.reconstruct(known, winner), drawn)


@torch.inference_mode()
def self_reading(
    model: Model, images: Tensor, amount: float | Tensor, reader: Model | None = None
) -> SelfReading:
    """Return how often a network reads a drawing of a changed capsule as the class that drew it.

    For each image, each of the E numbers of the winning capsule is changed by +amount and by
    -amount, the others are left; the picture is drawn, and read.

    Args:
        model: One that draws and says one class of an image, in the mode of evaluation.
        images: [N, C, H, W], on its device.
        amount: One for all numbers, or of each class and dimension its own, [J, E].
        reader: Another model of the same classes that reads the drawings instead. A network could
            agree with itself on pictures that nobody else takes for the class.

    Example:
        >>> model = create_model("capsnet_mnist", pretrained=True).eval()
        >>> self_reading(model, images, 0.05).same
        0.97
    """
    if not isinstance(model.task, OneLabel):
        raise UserError(f"{model.name} does not tell one class of an image; choose one that does.")
    if len(images) == 0:
        raise UserError("There is no image to draw; give at least one.")
    both = torch.as_tensor(amount).cpu()[..., None] * torch.tensor([1.0, -1.0])
    same, change = [], []
    for winner, before, drawn in moved_drawings(model, images, both):
        read = (reader or model)(drawn.flatten(0, 2)).answers.argmax(1).view(drawn.shape[:3])
        same.append((read == winner[:, None, None]).double().mean(2))
        far = (drawn - before[:, None, None]).double().square()
        change.append(far.flatten(3).mean(3).mean(2))
    same_of, change_of = torch.cat(same).mean(0), torch.cat(change).mean(0)
    return SelfReading(
        len(images),
        float(same_of.mean()),
        float(change_of.mean()),
        tuple(same_of.tolist()),
        tuple(change_of.tolist()),
    )


@torch.inference_mode()
def spreads(model: Model, images: Tensor) -> Tensor:
    """Return the standard deviation [J, E] of each number of each class's capsule.

    It is taken over those images [N, C, H, W] that the model reads as the class; zero of a class
    with less than two.
    """
    return spreads_of(torch.cat([model(part).v for part in images.split(NUM_KNOWN)]))


def spreads_of(v: Tensor) -> Tensor:
    """Return the standard deviation [J, E] of the longest of each image's capsules v [N, J, E]."""
    v = v.double()
    T = torch.nn.functional.one_hot(
        torch.linalg.vector_norm(v, dim=-1).argmax(1), v.shape[1]
    ).double()
    num = T.sum(0)[:, None]
    mean = torch.einsum("nj,nje->je", T, v) / num.clamp(min=1)
    squares = torch.einsum("nj,nje->je", T, (v - mean).square())
    return (squares / (num - 1).clamp(min=1)).sqrt().float()
