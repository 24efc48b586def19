"""Pictures of any size as squares, by stated rules; or the ink on them placed as MNIST's is.

Transparent parts become black. Scaling is bilinear over the area of each new pixel.

pixels, form = read_square("scan.png", size=32, channels=1, fit="pad")
"""

from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from capsnet.errors import UserError
from capsnet.pictures.decoding import BadPicture, Form, decode
from capsnet.pictures.reading import BYTE_WHITE, Fit, Reading

GREY_OF_COLOUR = (0.299, 0.587, 0.114)
INK_FRACTION = 20 / 28
INK_LEVEL = 0.1
BLACKEST = float("-inf")  # of values whose black is not known yet: below every window


def read_square(
    source: str | Path | BinaryIO, size: int, channels: int, fit: Fit = "pad"
) -> tuple[np.ndarray, Form]:
    """Return a file as [channels, size, size], uint8 or, of more than 8 bits, float32; its form.

    Grey is shown in all channels, colour in one as its brightness. float32 is -inf where a picture
    is padded.
    """
    form, picture = decode(source, size)
    if isinstance(picture, np.ndarray):
        return _square_values(source, picture, size, channels, fit), form
    if channels not in (1, 3):
        raise UserError(f"Pictures have 1 or 3 channels, not {channels}; ask for one of these.")
    pixels = planes(square(flatten(picture, min(channels, form.channels)), size, fit))
    if len(pixels) < channels:
        pixels = np.broadcast_to(pixels, (channels, size, size))
    return pixels, form


def in_window(values: np.ndarray, reading: Reading) -> np.ndarray:
    """Return values as float32 in 0 … 1: of bytes, or between the black and white of a window."""
    low, high = reading.window or (0.0, float(BYTE_WHITE))
    return ((values.astype(np.float32) - low) / (high - low)).clip(0, 1)


def as_picture(values: np.ndarray | Image.Image) -> Image.Image:
    """Return a decoded file as a picture of 8 bits: of deeper values the highest 8 of 16."""
    if not isinstance(values, np.ndarray):
        return values
    if values.shape[2] not in (1, 3):
        raise UserError(f"A picture has 1 or 3 channels, not {values.shape[2]}; give another.")
    if values.dtype != np.uint8:
        values = (values.clip(0, 65535).astype(np.int64) >> 8).astype(np.uint8)
    return Image.fromarray(values.squeeze(2) if values.shape[2] == 1 else values)


def flatten(picture: Image.Image, channels: int, background: int = 0) -> Image.Image:
    """Return a picture of 8 bits as grey (1) or colour (3), with no transparency."""
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        ground = Image.new("RGBA", picture.size, (background,) * 3 + (255,))
        picture = Image.alpha_composite(ground, picture)
    mode = "L" if channels == 1 else "RGB"
    return picture if picture.mode == mode else picture.convert(mode)


def square(picture: Image.Image, size: int, fit: Fit = "pad") -> Image.Image:
    """Return a picture of size×size, of whatever mode it is."""
    width, height = picture.size
    if width == height == size:
        return picture
    if fit == "pad":
        return paste(scale(picture, size), size)
    box = None
    if fit == "crop":
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    return picture.resize((size, size), Image.Resampling.BILINEAR, box)


def scale(picture: Image.Image, side: int) -> Image.Image:
    """Scale a picture so that its longer side is `side`."""
    factor = side / max(picture.size)
    width, height = (max(1, round(length * factor)) for length in picture.size)
    if (width, height) == picture.size:
        return picture
    return picture.resize((width, height), Image.Resampling.BILINEAR)


def paste(picture: Image.Image, size: int, corner: tuple[int, int] | None = None) -> Image.Image:
    """Put a picture on a black square at (left, top), or in the middle."""
    if picture.size == (size, size):
        return picture
    ground = Image.new(picture.mode, (size, size), BLACKEST if picture.mode == "F" else 0)
    ground.paste(picture, corner or ((size - picture.width) // 2, (size - picture.height) // 2))
    return ground


def planes(picture: Image.Image) -> np.ndarray:
    """Return a picture as [C, H, W]."""
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def centre_ink(
    picture: Image.Image, size: int, name: object, share: float = INK_FRACTION
) -> np.ndarray:
    """Fit the box of the ink into a share of the square, its centre of mass in the middle.

    name: what a UserError calls the picture if there is nothing on it.
    """
    grey = np.asarray(picture.convert("L"), dtype=np.float64)
    grey = grey - grey.min()
    blank = UserError(f"{name} is blank: there is nothing to centre; give another picture.")
    if grey.max() == 0:
        raise blank
    ink = grey > INK_LEVEL * grey.max()
    rows, cols = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    box = picture.crop((int(cols[0]), int(rows[0]), int(cols[-1]) + 1, int(rows[-1]) + 1))
    box = scale(box, max(1, round(share * size)))
    mass = np.asarray(box.convert("L"), dtype=np.float64)
    if mass.sum() == 0:  # specks too faint to outlive the scaling
        raise blank
    corner = []
    for weights in (mass.sum(0), mass.sum(1)):
        middle = weights @ np.arange(len(weights)) / weights.sum()
        # MNIST's digits have their centre of mass at pixel 14 of 28.
        start = int(np.floor(size / 2 - middle + 0.5))
        corner.append(min(max(start, 0), size - len(weights)))
    return planes(paste(box, size, (corner[0], corner[1])))


def _square_values(
    source: object, values: np.ndarray, size: int, channels: int, fit: Fit
) -> np.ndarray:
    """Return values [H, W, C] as [channels, size, size]; bytes stay bytes."""
    has = values.shape[2]
    is_bytes = values.dtype == np.uint8
    if has == 3 and channels == 1:
        values = (values @ np.array(GREY_OF_COLOUR, dtype=np.float32))[:, :, None]
    elif has == 1 and channels > 1:
        values = values.repeat(channels, axis=2)
    elif has != channels:
        raise BadPicture(
            f"{source} has {has} channels, not {channels}; all pictures must be alike."
        )
    layers = values.astype(np.float32).transpose(2, 0, 1)
    out = np.stack([np.asarray(square(Image.fromarray(x.copy()), size, fit)) for x in layers])
    return out.round().clip(0, 255).astype(np.uint8) if is_bytes else out
