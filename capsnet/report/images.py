"""Pictures inside a page: small, and written as text that needs no other file.

picture_url(image) -> "data:image/png;base64,…"
"""

import base64
from io import BytesIO

import numpy as np
from PIL import Image
from torch import Tensor

LARGEST = 96  # pixels; a larger picture is shown smaller
LOSSLESS = 64 * 64  # pixels up to which a picture is kept exactly


def picture_url(image: Tensor, largest: int = LARGEST) -> str:
    """Return an image [C, H, W] in [0, 1] as the address of itself."""
    return _url(_picture(image, largest))


def strips_url(images: Tensor, largest: int = LARGEST // 2) -> tuple[str, int, int]:
    """Return images [R, K, C, H, W] as one picture of R rows, and the size of a cell (w, h)."""
    R, K = images.shape[:2]
    cells = [[np.asarray(_picture(image, largest)) for image in row] for row in images]
    sheet = np.concatenate([np.concatenate(row, axis=1) for row in cells], axis=0)
    return _url(Image.fromarray(sheet)), sheet.shape[1] // K, sheet.shape[0] // R


def _picture(image: Tensor, largest: int) -> Image.Image:
    pixels = (image.detach().float().clamp(0, 1) * 255).round().byte().cpu()
    if pixels.shape[0] not in (1, 3):  # what has no colours is shown as light
        pixels = pixels[:3] if pixels.shape[0] > 3 else pixels.float().mean(0, keepdim=True).byte()
    array = pixels.permute(1, 2, 0).numpy()
    picture = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    if max(picture.size) > largest:
        scale = largest / max(picture.size)
        width, height = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return picture


def _url(picture: Image.Image) -> str:
    kept = BytesIO()
    if picture.mode == "L" or picture.width * picture.height <= LOSSLESS:
        picture.save(kept, "PNG", optimize=True)
        kind = "png"
    else:
        picture.save(kept, "WEBP", quality=80)
        kind = "webp"
    return f"data:image/{kind};base64,{base64.b64encode(kept.getvalue()).decode('ascii')}"
