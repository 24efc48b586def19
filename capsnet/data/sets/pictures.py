"""One picture file as a square image: resized by stated rules, or centred as MNIST's digits are.

Rules: turned upright by its camera's mark; transparent parts become background (black, or white if
inverted); the longer side is scaled to `size` (bilinear, area-aware), the shorter keeps its
proportion, and black is added evenly around.

Usage: image = read_image("seven.jpg", size=28, channels=1, invert=True, centre=True)
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.pictures.reading import Fit

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 64_000_000
GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")
INK_FRACTION = 20 / 28
INK_LEVEL = 0.1


def read_image(
    path: str | Path, size: int, channels: int, invert: bool = False, centre: bool = False
) -> Tensor:
    """Return a picture file as uint8 [channels, size, size], 1 channel grey or 3 colour.

    `invert` is for dark ink on white paper; `centre` crops and places the ink as MNIST does.
    """
    if channels not in (1, 3):
        raise UserError(f"Pictures have 1 or 3 channels, not {channels}; ask for one of these.")
    picture = open_picture(path)
    picture = flatten(picture, channels, background=255 if invert else 0)
    if invert:
        picture = picture.point([255 - level for level in range(256)] * channels)
    if centre:
        return centre_ink(picture, size, path)
    return _paste(_fit(picture, size), size, None)


def open_picture(path: str | Path) -> "Image":
    """Return a PNG or JPEG file decoded and upright."""
    from PIL import ImageOps

    with _opened(path) as picture:
        return ImageOps.exif_transpose(picture)


def picture_form(path: str | Path) -> tuple[int, int]:
    """Return (longer side, channels) of a picture file from its header alone."""
    with _opened(path) as picture:
        return max(picture.size), 1 if picture.mode in GREY_MODES else 3


@contextmanager
def _opened(path: str | Path) -> Iterator["Image"]:
    """Open a PNG or JPEG file to read it in the block; anything else is an error that names it."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=("PNG", "JPEG")) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                yield picture
    except Image.DecompressionBombError:
        raise UserError(
            f"{path} has more than {MAX_PIXELS:,} pixels; make it smaller first."
        ) from None
    except FileNotFoundError:
        raise UserError(f"There is no picture {path}; check the name.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name the pictures in it.") from None
    except PermissionError:
        raise UserError(f"You may not read {path}; ask its owner, or use a copy.") from None
    # A damaged file makes Pillow raise nearly anything.
    except Exception as error:
        raise UserError(
            f"{path} is not a readable PNG or JPEG picture ({error}); mend or remove it."
        ) from None


def flatten(picture: "Image", channels: int, background: int) -> "Image":
    """Return a picture of 8-bit grey or colour, with no transparency."""
    from PIL import Image

    if picture.mode.startswith("I"):  # 16-bit grey
        levels, clear = np.asarray(picture), picture.info.get("transparency")
        picture = Image.fromarray((levels.astype(np.int64) >> 8).astype(np.uint8))
        if clear is not None:
            picture.putalpha(Image.fromarray((levels != clear).astype(np.uint8) * 255))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        ground = Image.new("RGBA", picture.size, (background,) * 3 + (255,))
        picture = Image.alpha_composite(ground, picture)
    return picture.convert("L" if channels == 1 else "RGB")


def _fit(picture: "Image", side: int) -> "Image":
    """Scale a picture so that its longer side is `side`."""
    from PIL.Image import Resampling

    scale = side / max(picture.size)
    width, height = (max(1, round(length * scale)) for length in picture.size)
    if (width, height) == picture.size:
        return picture
    return picture.resize((width, height), Resampling.BILINEAR)


def fit_square(levels: np.ndarray, size: int, how: Fit) -> np.ndarray:
    """Return levels [H, W] as float32 [size, size]: padded, cropped in the middle, or stretched."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(levels, dtype=np.float32))
    if how == "pad":
        picture = _fit(picture, size)
        square = Image.new(picture.mode, (size, size))
        square.paste(picture, ((size - picture.width) // 2, (size - picture.height) // 2))
        return np.asarray(square)
    box = None
    if how == "crop":
        side = min(picture.size)
        left, top = ((length - side) / 2 for length in picture.size)
        box = (left, top, left + side, top + side)
    return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR, box))


def _paste(picture: "Image", size: int, corner: tuple[int, int] | None) -> Tensor:
    """Put a picture on a black square at (left, top), or in the middle: uint8 [C, size, size]."""
    from PIL import Image

    square = Image.new(picture.mode, (size, size))
    square.paste(picture, corner or ((size - picture.width) // 2, (size - picture.height) // 2))
    pixels = torch.from_numpy(np.array(square))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def centre_ink(
    picture: "Image", size: int, path: str | Path, share: float = INK_FRACTION
) -> Tensor:
    """Fit the box of the ink into a share of the square, its centre of mass in the middle."""
    grey = np.asarray(picture.convert("L"), dtype=np.float64)
    grey = grey - grey.min()
    blank = UserError(f"{path} is blank: there is nothing to centre; give another picture.")
    if grey.max() == 0:
        raise blank
    ink = grey > INK_LEVEL * grey.max()
    rows, cols = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    box = picture.crop((int(cols[0]), int(rows[0]), int(cols[-1]) + 1, int(rows[-1]) + 1))
    side = max(1, round(share * size))
    box = _fit(box, side)
    mass = np.asarray(box.convert("L"), dtype=np.float64)
    if mass.sum() == 0:  # specks too faint to outlive the scaling
        raise blank
    corner = []
    for weights in (mass.sum(0), mass.sum(1)):
        middle = weights @ np.arange(len(weights)) / weights.sum()
        # MNIST's digits have their centre of mass at pixel 14 of 28.
        start = int(np.floor(size / 2 - middle + 0.5))
        corner.append(min(max(start, 0), size - len(weights)))
    return _paste(box, size, (corner[0], corner[1]))
