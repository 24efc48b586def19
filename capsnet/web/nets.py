"""The networks that the page talks to: one CapsNet always, one for overlaps and one CNN if any.

nets = load_nets("runs/mine", None, None)
"""

from dataclasses import dataclass
from typing import Any

from capsnet.errors import UserError
from capsnet.models import CapsNet, Classifier
from capsnet.models.weights import find_model, shipped_path

OVERLAP_DATA = ("multimnist", "multidigits")
NO_CAPSNET = (
    "No weights are shipped with this copy; train a model with 'capsnet demo', then run "
    "'capsnet explore --weights runs/demo/capsnet_small'."
)
NO_OVERLAP = (
    "This needs a CapsNet trained on pairs of digits. Train one with 'capsnet train --model "
    "capsnet_small --data multidigits', then start the explorer with '--overlap-weights "
    "runs/capsnet_small-multidigits-seed0'."
)
NO_CNN = (
    "For a CNN beside the CapsNet, train one with 'capsnet train --model cnn_small --data digits', "
    "then start the explorer with '--cnn-weights runs/cnn_small-digits-seed0'."
)
OTHER_CNN = (
    "The CNN knows other images or classes than the CapsNet; start with one of the same data."
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
    """What there is to explore; a missing network comes with a sentence on how to get it."""

    capsnet: Net
    overlap: Net | None
    cnn: Classifier | None
    why_no_cnn: str


def load_nets(weights: str | None, overlap: str | None, cnn: str | None) -> Nets:
    """Load the given runs, files or names; None takes what is shipped.

    Without `overlap`, a main network that draws pairs is asked for them too.
    """
    found = weights or _shipped("capsnet_mnist") or _shipped("capsnet_small")
    if found is None:
        raise UserError(NO_CAPSNET)
    main = _capsnet(found)
    own = not overlap and main.draws_pairs
    pairs = main if own else _capsnet(overlap or "capsnet_multimnist")
    if not pairs.draws_pairs:
        raise UserError(
            f"{overlap} does not draw two overlapping digits; give a CapsNet with a decoder that "
            f"was trained on {' or '.join(OVERLAP_DATA)}."
        )
    cnn = cnn or _shipped("cnn_small")
    if cnn is None:
        return Nets(main, pairs, None, NO_CNN)
    other, card = find_model(cnn)
    same = (other.image_shape, list(card["classes"])) == (main.model.image_shape, main.classes)
    return Nets(main, pairs, other.eval() if same else None, OTHER_CNN)


def _capsnet(where: str) -> Net:
    model, card = find_model(where)
    if not isinstance(model, CapsNet):
        raise UserError(f"{where} is a {model.name}, which has no capsules; choose a CapsNet.")
    model.eval()
    return Net(model, card)


def _shipped(name: str) -> str | None:
    return name if shipped_path(name).exists() else None
