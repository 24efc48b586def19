"""The networks that the page talks to: one to look into, one for overlaps, and a CNN if it fits.

nets = load_nets("runs/mine", None, None)
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from capsnet.data.registry import shows_digits
from capsnet.errors import UserError, require
from capsnet.models import Draws, Model, Placed, Traced
from capsnet.models.reference import Reference
from capsnet.models.weights import Card, find_model
from capsnet.ops import RoutingTrace
from capsnet.prediction.trust import find_reference
from capsnet.tasks import Pairs

SHIPPED = ("capsnet_mnist", "capsnet_small")  # of the same images; the first is the usual one
OTHER_CNN = (
    "The CNN knows other images or classes than the CapsNet; give one of the same data with "
    "'--cnn-weights'."
)


@dataclass(frozen=True, eq=False)
class Net:
    """A trained model that can be looked into, and the card that says what it was trained on."""

    model: Model
    card: Card
    traced: Traced
    placed: Placed
    folder: Path | None = None  # of its run

    @property
    def draws(self) -> Draws | None:
        """The model as one that draws pictures, if it can."""
        return self.model.draws

    @property
    def draws_pairs(self) -> bool:
        """Whether it was trained on two digits over each other and can draw each of them."""
        return isinstance(self.model.task, Pairs) and self.draws is not None

    @property
    def classes(self) -> list[str]:
        """The names of its classes or numbers, one for each capsule."""
        return list(self.model.task.names)

    @cached_property
    def reference(self) -> Reference | None:
        """What is usual for it, by which doubts are told."""
        return find_reference(self.model, self.card, shows_digits(self.card.data))

    @cached_property
    def blank(self) -> RoutingTrace:
        """The routing of a black picture, for the sizes in it."""
        with torch.inference_mode():
            return self.traced.trace(torch.zeros(1, *self.model.image_shape))


@dataclass(frozen=True, eq=False)
class Nets:
    """What there is to explore; cnn is None if it does not fit the main network."""

    capsnet: Net
    overlap: Net
    cnn: Model | None
    cnn_card: Card
    others: tuple[Net, ...] = ()  # of the same images and classes as the main one

    def chosen(self, number: int) -> Net:
        """Return the main network for 0, then the others in turn; a UserError beyond them."""
        nets = (self.capsnet, *self.others)
        if number >= len(nets):
            raise UserError(f"There is no network {number}; choose 0 to {len(nets) - 1}.")
        return nets[number]


def load_nets(weights: str | None, overlap: str | None, cnn: str | None) -> Nets:
    """Load the given runs, files or names; None takes what is shipped.

    Without `overlap`, a main network that draws pairs is asked for them too.
    """
    name = weights or SHIPPED[0]
    main = _net(name)
    others = tuple(_net(other) for other in SHIPPED if name in SHIPPED and other != name)
    own = not overlap and main.draws_pairs
    pairs = main if own else _net(overlap or "capsnet_multimnist")
    if not pairs.draws_pairs:
        raise UserError(
            f"{overlap} does not draw two overlapping digits; give a CapsNet with a decoder that "
            "was trained on multimnist or multidigits."
        )
    other, card = find_model(cnn or "cnn_small")
    seen = (other.image_shape, list(other.task.names))
    fits = other.traced is None and seen == (main.model.image_shape, main.classes)
    if cnn and not fits:
        raise UserError(
            f"{cnn} is no CNN for the images and classes of the CapsNet; give one trained on the "
            "same data, or leave --cnn-weights out."
        )
    return Nets(main, pairs, other.eval() if fits else None, card, others)


def _net(where: str) -> Net:
    model, card = find_model(where)
    lack = f"{where} is a {model.name}, which has no capsules to look into; choose a CapsNet."
    folder = Path(where) if Path(where).is_dir() else Path(where).parent
    return Net(model.eval(), card, require(model.traced, lack), require(model.placed, lack), folder)
