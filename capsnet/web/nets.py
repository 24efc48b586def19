"""The networks that the page talks to: a CapsNet, one for overlaps, and a CNN if it fits.

nets = load_nets("runs/mine", None, None)
"""

from dataclasses import dataclass
from typing import Any

from capsnet.errors import UserError
from capsnet.models import CapsNet, Classifier
from capsnet.models.weights import find_model

OVERLAP_DATA = ("multimnist", "multidigits")
OTHER_CNN = (
    "The CNN knows other images or classes than the CapsNet; give one of the same data with "
    "'--cnn-weights'."
)


@dataclass(frozen=True, eq=False)
class Net:
    """A trained CapsNet and the card that says what it was trained on."""

    model: CapsNet
    card: dict[str, Any]

    @property
    def data(self) -> str:
        """The name of the data set it was trained on."""
        return str(self.card["config"]["data"])

    @property
    def draws_pairs(self) -> bool:
        """Whether it was trained on two digits over each other and can draw each of them."""
        return self.data in OVERLAP_DATA and self.model.decoder is not None

    @property
    def classes(self) -> list[str]:
        """The names of its classes."""
        return list(self.card["classes"])


@dataclass(frozen=True, eq=False)
class Nets:
    """What there is to explore; cnn is None if it does not fit the CapsNet."""

    capsnet: Net
    overlap: Net
    cnn: Classifier | None


def load_nets(weights: str | None, overlap: str | None, cnn: str | None) -> Nets:
    """Load the given runs, files or names; None takes what is shipped.

    Without `overlap`, a main network that draws pairs is asked for them too.
    """
    main = _capsnet(weights or "capsnet_mnist")
    own = not overlap and main.draws_pairs
    pairs = main if own else _capsnet(overlap or "capsnet_multimnist")
    if not pairs.draws_pairs:
        raise UserError(
            f"{overlap} does not draw two overlapping digits; give a CapsNet with a decoder that "
            f"was trained on {' or '.join(OVERLAP_DATA)}."
        )
    other, card = find_model(cnn or "cnn_small")
    seen = (other.image_shape, list(card["classes"]))
    fits = not isinstance(other, CapsNet) and seen == (main.model.image_shape, main.classes)
    if cnn and not fits:
        raise UserError(
            f"{cnn} is no CNN for the images and classes of the CapsNet; give one trained on the "
            "same data, or leave --cnn-weights out."
        )
    return Nets(main, pairs, other.eval() if fits else None)


def _capsnet(where: str) -> Net:
    model, card = find_model(where)
    if not isinstance(model, CapsNet):
        raise UserError(f"{where} is a {model.name}, which has no capsules; choose a CapsNet.")
    model.eval()
    return Net(model, card)
