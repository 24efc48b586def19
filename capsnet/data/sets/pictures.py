"""One picture file as an image for a model of 8-bit pictures, by the rules of capsnet/pictures.

Usage: image = read_image("seven.jpg", size=28, channels=1, invert=True, centre=True)
"""

from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.pictures.decoding import decode
from capsnet.pictures.squares import as_picture, centre_ink, flatten, planes, square


def read_image(
    path: str | Path | BinaryIO,
    size: int,
    channels: int,
    invert: bool = False,
    centre: bool = False,
) -> Tensor:
    """Return a picture file as uint8 [channels, size, size], 1 channel grey or 3 colour.

    The longer side is scaled to `size`, black is added around.

    Args:
        path: The file.
        size: Side of the result.
        channels: 1 or 3.
        invert: For dark ink on white paper, where transparent parts are paper.
        centre: Crop and place the ink as MNIST does.

    Returns:
        uint8 [channels, size, size].

    Example:
        >>> read_image("seven.jpg", size=28, channels=1, invert=True).shape
        torch.Size([1, 28, 28])
    """
    if channels not in (1, 3):
        raise UserError(f"Pictures have 1 or 3 channels, not {channels}; ask for one of these.")
    picture = flatten(as_picture(decode(path)[1]), channels, background=255 if invert else 0)
    if invert:
        picture = picture.point([255 - level for level in range(256)] * channels)
    pixels = centre_ink(picture, size, path) if centre else planes(square(picture, size))
    return torch.from_numpy(pixels.copy())
