"""IDX, the file format of MNIST: four magic bytes, big-endian sizes, then the numbers.

Usage: images = read_idx(raw)  # uint8 [60000, 28, 28]
"""

import math
import struct

import numpy as np

from capsnet.errors import UserError

UBYTE = 8


def read_idx(raw: bytes, name: str = "this file") -> np.ndarray:
    """Return the uint8 array of any shape that `raw` holds."""
    if len(raw) < 4 or raw[:3] != bytes([0, 0, UBYTE]):
        raise UserError(f"{name} is not an IDX file of bytes; give the original file.")
    start = 4 + 4 * raw[3]
    shape = struct.unpack(f">{raw[3]}I", raw[4:start]) if len(raw) >= start else ()
    try:
        if len(raw) < start or len(raw) - start != math.prod(shape):
            raise ValueError
        return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)
    except ValueError:  # also sizes that no array can have
        raise UserError(f"{name} is cut short or damaged; give the original file.") from None


def write_idx(array: np.ndarray) -> bytes:
    """Return the IDX bytes of a uint8 array of any shape."""
    assert array.dtype == np.uint8, array.dtype
    header = bytes([0, 0, UBYTE, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()
