"""smallNORB in its original binary matrix format: toys seen by two cameras, five classes.

A matrix file is little-endian: a magic number for the type, the number of dimensions, at least
three sizes (1 where there is no dimension), then the numbers. Files may be plain or .gz.

Usage: split = load_smallnorb(folder, "train", channels=2, size=48)
"""

import gzip
import io
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from capsnet.data.splits.split import Split
from capsnet.errors import UserError

CLASSES = ("animal", "human", "airplane", "truck", "car")
STEMS = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
MAX_DIMENSIONS = 32  # of an array of numpy's
MAX_PACKED = 1100  # times that a .gz file can be smaller than what it holds
TYPES = {0x1E3D4C55: "u1", 0x1E3D4C54: "<i4", 0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8"}


def read_matrix(path: Path) -> np.ndarray:
    """Return the array of any shape that a matrix file, plain or .gz, holds."""
    try:
        packed = path.read_bytes()
        with gzip.open(path, "rb") if packed[:2] == b"\x1f\x8b" else io.BytesIO(packed) as file:
            magic, ndim = np.frombuffer(file.read(8), "<i4").tolist()
            dtype = np.dtype(TYPES[magic])
            if not 0 < ndim <= MAX_DIMENSIONS:
                raise ValueError(f"it has {ndim} dimensions")
            shape = np.frombuffer(file.read(4 * max(ndim, 3)), "<i4")[:ndim].tolist()
            if len(shape) != ndim or min(shape) < 0:
                raise ValueError("its sizes are none")
            size = math.prod(shape) * dtype.itemsize
            if size > MAX_PACKED * len(packed):
                raise ValueError("it is smaller than it says")
            content = file.read(size + 1)
            if len(content) != size:
                raise ValueError("it is not of the size that it says")
        return np.frombuffer(content, dtype).reshape(shape)
    except KeyError:
        raise UserError(f"{path} is not a NORB matrix file; give the original file.") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(
            f"{path} is cut short or damaged ({error}); give the original file."
        ) from None


def load_smallnorb(
    folder: str | Path, split: str, channels: int = 2, size: int | None = None
) -> Split:
    """Return the split [M, channels, size, size]: both cameras or the left one.

    A size that divides 96 is reached by averaging square blocks; None keeps 96.
    """
    images = torch.from_numpy(_read(folder, split, "dat").copy())
    labels = torch.from_numpy(_read(folder, split, "cat").astype(np.int64)).flatten()
    if images.ndim != 4 or images.shape[1] != 2 or images.dtype != torch.uint8:
        raise UserError(f"The images in {folder} are not stereo pairs; give the original files.")
    if channels not in (1, 2):
        raise UserError("smallNORB has two cameras; ask for 1 or 2 channels.")
    images = images[:, :channels]
    full = images.shape[-1]
    if size and full % size:
        raise UserError(f"smallNORB images of {full}×{full} need a size that divides {full}.")
    if size and size != full:
        # In pieces, as floats take four times the room.
        pieces = [F.avg_pool2d(piece.float(), full // size) for piece in images.split(1024)]
        images = torch.cat([piece.round().byte() for piece in pieces])
    return Split(images, labels, CLASSES)


def load_smallnorb_info(folder: str | Path, split: str) -> Tensor:
    """Return int64 [M, 4]: instance, elevation, azimuth and lighting of every image."""
    return torch.from_numpy(_read(folder, split, "info").astype(np.int64))


def _read(folder: str | Path, split: str, kind: str) -> np.ndarray:
    name = f"{STEMS[split]}-{kind}.mat"
    for path in (Path(folder) / name, Path(folder) / f"{name}.gz"):
        if path.is_file():
            return read_matrix(path)
    raise UserError(
        f"smallNORB's original files are needed: place {name} (or .gz) in {folder}, "
        f"and the same for -dat, -cat and -info."
    )
