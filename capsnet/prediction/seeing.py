"""How a model sees a picture file: by the rules kept with its weights, and without the paper.

look = Look.of(model, card); seen = look("seven.jpg"); seen.pixels, seen.doubts
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from capsnet.data import read_image
from capsnet.data.registry import shows_digits
from capsnet.errors import UserError
from capsnet.models import Model
from capsnet.models.weights import Card
from capsnet.pictures.decoding import SUFFIXES, BadPicture, decode, slices_of
from capsnet.pictures.finding import walk
from capsnet.pictures.ink import Blank, find_ink, is_clean
from capsnet.pictures.reading import BYTE_WHITE, Reading
from capsnet.pictures.squares import (
    BLACKEST,
    INK_FRACTION,
    as_picture,
    centre_ink,
    flatten,
    in_window,
    read_square,
)
from capsnet.prediction.trust import BLANK
from capsnet.tasks import Pairs

PAIR_FRACTION = 24 / 36  # of the square: two digits of 20 px that are moved apart, as in training
MOST_OUTSIDE = 0.05  # of the pixels may be beyond the window of training


@dataclass(frozen=True, eq=False)
class Seen:
    """What a model is given: pixels [C, H, W] in [0, 1], and what was odd about the picture."""

    pixels: Tensor
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """How files become pixels: a callable, path -> Seen.

    ink: the ink is found on whatever paper; else pictures are taken as they are, or inverted and
    centred as it is said.
    """

    reading: Reading
    ink: bool = False
    invert: bool = False
    centre: bool = False
    share: float = INK_FRACTION  # of the square that ink fills

    @classmethod
    def of(
        cls,
        model: Model,
        card: Card,
        as_is: bool = False,
        invert: bool = False,
        centre: bool = False,
    ) -> "Look":
        """Return how a model sees pictures; inverted or centred ones are else as they are."""
        channels, size, _ = model.image_shape
        reading = card.reading or Reading(size, channels)
        ink = reads_ink(card) and not (as_is or invert or centre)
        share = PAIR_FRACTION if isinstance(model.task, Pairs) else INK_FRACTION
        return cls(reading, ink, invert, centre, share)

    def __call__(self, path: Path | str | BinaryIO) -> Seen:
        """Read one file; a UserError names it if that is not possible."""
        if self.ink:
            return self._ink(path)
        if self.invert or self.centre:
            size, channels = self.reading.size, self.reading.channels
            image = read_image(path, size, channels, self.invert, self.centre)
            return Seen(image.float() / BYTE_WHITE)
        return self._as_trained(path)

    def _ink(self, path: Path | str | BinaryIO) -> Seen:
        """Find the ink and place it as MNIST's is; what is so already stays as it is."""
        size, channels = self.reading.size, self.reading.channels
        picture = as_picture(decode(path)[1])
        grey = np.asarray(flatten(picture, 1, ground_of(picture)))
        if grey.shape == (size, size):
            for own in (grey, BYTE_WHITE - grey):
                if is_clean(own):
                    return Seen(_spread(own[None], channels))
        try:
            placed = centre_ink(Image.fromarray(find_ink(grey)), size, path, self.share)
        except Blank:
            return Seen(torch.zeros(channels, size, size), (BLANK,))
        return Seen(_spread(placed, channels))

    def _as_trained(self, path: Path | str | BinaryIO) -> Seen:
        """Read a file by the rules that training pictures were read by."""
        reading = self.reading
        values, form = read_square(path, reading.size, reading.channels, reading.fit)
        if reading.window is None and form.bits > 8 and values.dtype != np.uint8:
            raise UserError(
                f"{path} has {form.bits} bits for a value, the model was trained on 8; bring it to "
                "8 bits, which says what is black and what is white."
            )
        if reading.window is not None and values.dtype == np.uint8:
            raise UserError(
                f"{path} is read as 8 bits for a value, the model was trained on more; give the "
                "picture as deep as those of training."
            )
        odd = []
        if reading.window is not None:
            low, high = reading.window
            own = values[values > BLACKEST]  # not what it is padded with
            outside = float(np.mean((own < low) | (own > high)))
            if outside > MOST_OUTSIDE:
                odd.append(
                    f"{100 * outside:.0f} % of its pixels are darker or brighter than the black "
                    f"({low:g}) and white ({high:g}) of training"
                )
        return Seen(torch.from_numpy(in_window(values, reading)), tuple(odd))


def reads_ink(card: Card) -> bool:
    """Whether a model reads bright ink on black: its card says so, or it was trained on digits."""
    return card.reading.ink if card.reading is not None else shows_digits(card.data)


def ground_of(picture: Image.Image) -> int:
    """Return what to lay under the transparent parts of a picture: what its ink is not."""
    if picture.mode not in ("RGBA", "LA", "PA") and "transparency" not in picture.info:
        return 0
    both = np.asarray(picture.convert("RGBA").convert("LA"), dtype=np.float64)
    grey, alpha = both[..., 0], both[..., 1]
    mean = (grey * alpha).sum() / max(alpha.sum(), 1)
    return BYTE_WHITE if mean < BYTE_WHITE / 2 else 0


def _spread(image: np.ndarray, channels: int) -> Tensor:
    """Return grey bytes [1, H, W] as pixels [C, H, W] in [0, 1]."""
    return torch.from_numpy(image.copy()).expand(channels, -1, -1).float() / BYTE_WHITE


def pictures_in(places: Iterable[Path | str]) -> list[Path]:
    """Return files as they are, and all pictures below folders, in the order of their names.

    A volume is its slices, as it is in training.
    """
    found: list[Path] = []
    for place in map(Path, places):
        if not place.is_dir():
            found += _slices(place)
            continue
        below = [place / name for name in walk(place)[0]]
        if not below:
            kinds = ", ".join(x[1:] for x in SUFFIXES)
            raise UserError(f"{place} holds no pictures ({kinds}); give another folder or files.")
        found += [name for file in below for name in _slices(file)]
    return found


def _slices(path: Path) -> list[Path]:
    try:
        return [Path(name) for name in slices_of(str(path))]
    except BadPicture:
        return [path]  # what is wrong with it is said when it is read
