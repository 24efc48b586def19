"""dSprites: white squares, ellipses and hearts of known pose, 64×64, out of the verified file.

Of the 737,280 images, 3 GB as bytes, 40,000 for training and 10,000 for tests are chosen by a fixed
seed. The file has 21,574 images twice or more (its last orientation, 2 pi, is its first), so of
equal ones the first drawn alone is chosen: no test image is a training image.

Usage: split = load_dsprites("train", size=32); split.factors.values
"""

import hashlib
import io
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch.nn.functional import avg_pool2d

from capsnet.data.sources.known import DSPRITES
from capsnet.data.sources.locate import locate
from capsnet.data.splits.factors import Factors
from capsnet.data.splits.split import Split
from capsnet.errors import UserError
from capsnet.files import cache_folder, whole_file

SHAPES = ("square", "ellipse", "heart")
PERIODS = (90.0, 180.0, 360.0)  # of the shapes' rotation, in degrees
SIZES = (3, 6, 40, 32, 32)  # shapes, scales, rotations, x, y; the last varies fastest
NAMES = ("scale", "rotation", "x", "y")
RANGES = ((0.5, 1.0), (0.0, 360.0), (0.0, 1.0), (0.0, 1.0))
SIDE = 64
ROW = SIDE * SIDE // 8  # bytes of an image as bits
NUM_ALL = 737_280
COUNTS = {"train": 40_000, "test": 10_000}
SPARE = 2_000  # images drawn beyond those, as some are equal
SEED = 2017
CHOSEN = "chosen-50000.bits"
CHOSEN_MD5 = "9f9925d6d4847b188f82d024f7e79de4"
BLOCK = 4096


def load_dsprites(split: str, folder: str | Path | None = None, size: int | None = None) -> Split:
    """Return "train" [40000, 1, size, size] or "test" [10000, 1, size, size], labelled by shape.

    A size that divides 64 is reached by averaging square blocks; None keeps 64. Factors: scale,
    rotation in degrees, x and y.
    """
    if size is not None and (size < 1 or SIDE % size):
        raise UserError(f"dSprites of {SIDE}×{SIDE} need a size that divides {SIDE}, not {size}.")
    bits, index = _chosen(folder)
    start = 0 if split == "train" else COUNTS["train"]
    rows = slice(start, start + COUNTS[split])
    shape, factors = factors_of(index[rows])
    return Split(_pixels(bits[rows], size or SIDE), shape, SHAPES, factors=factors)


def factors_of(index: np.ndarray) -> tuple[torch.Tensor, Factors]:
    """Return the shapes int64 [M] and the factors of the images at these places in the file."""
    shape, scale, turn, x, y = np.unravel_index(index, SIZES)
    columns = [0.5 + scale / 10, 360 * turn / 39, x / 31, y / 31]
    values = torch.from_numpy(np.stack(columns, axis=1)).float()
    periods = torch.zeros_like(values)
    periods[:, NAMES.index("rotation")] = torch.tensor(PERIODS)[torch.from_numpy(shape)]
    return torch.from_numpy(shape), Factors(NAMES, RANGES, values, periods)


def _chosen(folder: str | Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the chosen images as bits [50000, 512], and their places in the file [50000].

    They are kept in the cache: reading all of the file takes ten seconds.
    """
    (located,) = locate(DSPRITES, folder=folder).values()
    path, num = cache_folder() / DSPRITES.name / CHOSEN, sum(COUNTS.values())
    try:
        kept = path.read_bytes()
    except OSError:
        kept = b""
    if hashlib.md5(kept).hexdigest() != CHOSEN_MD5:
        kept = choose(located.raw)
        with whole_file(path) as temporary:
            temporary.write_bytes(kept)
    bits, index = kept[: num * ROW], kept[num * ROW :]
    return np.frombuffer(bits, np.uint8).reshape(num, ROW), np.frombuffer(index, "<i4")


def choose(raw: bytes) -> bytes:
    """Return the chosen images as bits, then their places in the file as little-endian int32."""
    num = sum(COUNTS.values())
    # RandomState's numbers are the same in every version of NumPy.
    drawn = np.random.RandomState(SEED).permutation(NUM_ALL)[: num + SPARE]
    order = np.argsort(drawn)
    in_file = drawn[order]
    bits = np.empty((len(drawn), ROW), np.uint8)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive, archive.open("imgs.npy") as file:
            _skip_header(file)
            for start in range(0, NUM_ALL, BLOCK):
                block = np.frombuffer(file.read(BLOCK * SIDE * SIDE), np.uint8).reshape(-1, SIDE**2)
                first, last = np.searchsorted(in_file, [start, start + BLOCK])
                picked = block[in_file[first:last] - start]
                bits[order[first:last]] = np.packbits(picked, axis=1)
    except (KeyError, ValueError, IndexError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"dSprites' file is damaged ({error}); run 'capsnet data fetch dsprites'."
        ) from None
    first_drawn: dict[bytes, int] = {}
    for k, row in enumerate(bits):
        first_drawn.setdefault(row.tobytes(), k)
    rows = [*first_drawn.values()][:num]
    return bits[rows].tobytes() + drawn[rows].astype("<i4").tobytes()


def _skip_header(file: IO[bytes]) -> None:
    assert np.lib.format.read_magic(file) == (1, 0)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    assert shape == (NUM_ALL, SIDE, SIDE) and dtype == np.uint8


def _pixels(bits: np.ndarray, size: int) -> torch.Tensor:
    """Return images uint8 [M, 1, size, size] of bits [M, 512], a part at a time."""
    images = torch.empty(len(bits), 1, size, size, dtype=torch.uint8)
    for start in range(0, len(bits), BLOCK):
        rows = slice(start, start + BLOCK)
        part = torch.from_numpy(np.unpackbits(bits[rows], axis=1)).view(-1, 1, SIDE, SIDE)
        if size == SIDE:
            images[rows] = part * 255
        else:
            images[rows] = (255 * avg_pool2d(part.float(), SIDE // size)).round().byte()
    return images
