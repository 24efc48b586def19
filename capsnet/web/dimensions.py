"""What the numbers of each class capsule do to its drawings: their order, their names, real poses.

known = measure_dimensions(net, open_samples(net)); known.names[7][known.order[7][0]]

Each number of the capsules of some test images is moved by shares of its own spread, and drawn.
First comes the number whose moves change the drawing most. Its name is the property of the stroke
that follows it: "thicker" says what happens on the way up. Poses are drawn at random with the mean
and the covariance of those of real images.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from capsnet.measures.strokes import meanings, stroke_shapes
from capsnet.models.self_reading import NUM_KNOWN, moved_drawings, spreads_of
from capsnet.prediction.seeing import reads_ink
from capsnet.web.nets import Net
from capsnet.web.samples import Samples
from capsnet.web.schema import Dimensions, Poses, pack_floats

MOST_IMAGES = 400  # whose poses are taken
MOST_MOVED = 100  # whose numbers are moved
MOST_PER_CLASS = 40
STEPS = torch.tensor([-2.0, -1.0, 1.0, 2.0])  # spreads
# On the way down and up, in the order of PROPERTIES.
WORDS = (
    ("thinner", "thicker"),
    ("leans left", "leans right"),
    ("narrower", "wider"),
    ("shorter", "taller"),
    ("turns left", "turns right"),
)
CALM = 0.9  # of the spread of real poses, in which the network reads what it draws
FOLLOWS = 0.85  # |r| from which on a property follows a number
VISIBLE = 0.25  # of how far a property varies among drawings of the class, by one spread


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the numbers of J capsules of size E; poses and spreads may be None."""

    order: list[list[int]]  # [J, E]: the numbers, that which changes the drawing most first
    names: list[list[str]]  # [J, E]: of each number; "" where nothing follows it
    spreads: list[list[float]] | None  # [J, E]: standard deviation
    mean: Tensor | None = None  # [J, E]
    ways: Tensor | None = None  # [J, E, E]: a pose is mean + z @ ways, for normal z

    @property
    def dimensions(self) -> Dimensions:
        """What the page shows."""
        return Dimensions(order=self.order, names=self.names, spreads=self.spreads)

    @property
    def poses(self) -> Poses:
        """What the page draws poses from."""
        if self.mean is None or self.ways is None:
            return Poses(mean="", ways="")
        return Poses(mean=pack_floats(self.mean), ways=pack_floats(self.ways))


@torch.inference_mode()
def measure_dimensions(net: Net, samples: Samples | None) -> Known:
    """Return what is known of a network's numbers; little, if it does not draw or has no images."""
    J, E = net.blank.v.shape[2:]
    plain = [list(range(E)) for _ in range(J)]
    unnamed = [[""] * E for _ in range(J)]
    if net.draws is None or samples is None:
        spreads = None if net.reference is None else net.reference.spreads
        return Known(plain, unnamed, None if spreads is None else [list(row) for row in spreads])
    each = max(2, min(MOST_PER_CLASS, MOST_IMAGES // J))
    rows = [row for group in samples.groups for row in group[:each]]
    images = samples.images[rows] / 255
    v = torch.cat([net.model(part).v for part in images.split(NUM_KNOWN)])
    winner = torch.linalg.vector_norm(v, dim=-1).argmax(1)
    spread = spreads_of(v)
    few = max(2, MOST_MOVED // J)
    moved = torch.cat([(winner == j).nonzero().flatten()[:few] for j in range(J)])
    effect, names = _effects(net, images[moved], v[moved], spread)
    order = np.argsort(-effect, axis=1, kind="stable").tolist()
    mean, ways = _poses(v, winner)
    told = [[round(x, 4) for x in row] for row in spread.tolist()]
    return Known(order, names, told, mean, ways)


def _effects(
    net: Net, images: Tensor, v: Tensor, spread: Tensor
) -> tuple[np.ndarray, list[list[str]]]:
    """Return how much moves of each number change a drawing [J, E], and its names."""
    winners, changes, before, after = [], [], [], []
    named = reads_ink(net.card)
    for part in moved_drawings(net.model, images, spread[..., None] * STEPS, v):
        winners.append(part.winner.numpy())
        far = (part.drawn - part.before[:, None, None]).double().square()
        changes.append(far.flatten(3).mean((2, 3)).numpy())
        if named:
            before.append(stroke_shapes(part.before[:, 0].numpy()))
            after.append(stroke_shapes(part.drawn[:, :, :, 0].numpy()))
    winner, change = np.concatenate(winners), np.concatenate(changes)
    J, E = spread.shape
    effect = np.zeros((J, E))
    names = [[""] * E for _ in range(J)]
    for j in range(J):
        own = winner == j
        if own.sum() > 1:
            effect[j] = change[own].mean(0)
            if named:
                names[j] = _names(np.concatenate(before)[own], np.concatenate(after)[own])
    return effect, names


def _names(before: np.ndarray, after: np.ndarray) -> list[str]:
    """Return the name of each of E numbers, given the shapes of drawings [N, 5], [N, E, S, 5]."""
    told = meanings(STEPS.numpy(), before, after)
    share = told.slope / np.maximum(before.std(0), 1e-9)  # of how far the property varies
    best = np.abs(told.r * share).argmax(1)
    return [
        WORDS[k][int(r[k] > 0)] if abs(r[k]) >= FOLLOWS and abs(far[k]) >= VISIBLE else ""
        for k, r, far in zip(best, told.r, share, strict=True)
    ]


def _poses(v: Tensor, winner: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean [J, E] and the ways [J, E, E] of the winning capsules of v [N, J, E].

    The rows of the ways are the principal directions, each as long as nearly its standard
    deviation. A class without images has zeros.
    """
    J, E = v.shape[1:]
    mean, ways = torch.zeros(J, E), torch.zeros(J, E, E)
    for j in range(J):
        own = v[winner == j, j]
        if len(own) == 0:
            continue
        mean[j] = own.mean(0)
        if len(own) > 1:
            _, S, R = torch.linalg.svd(own - mean[j], full_matrices=False)
            ways[j, : len(S)] = CALM * S[:, None] * R / (len(own) - 1) ** 0.5
    return mean, ways
