"""Arrays of Matlab's files (level 5, up to version 7): what a structure says, and nothing else.

A file is 128 bytes of text, then elements: a type and a size (4 bytes each, or 2 each and up to 4
bytes of content), the content, and zeros up to a multiple of 8. A compressed element holds another
one; a matrix is made of elements: its class, its sizes, its name, then numbers, or for a structure
the names of the fields and a matrix for each. We read it ourselves, as scipy's reader ends the
process where a damaged file misleads it.

Usage: fields = read_struct(path.read_bytes(), "affNISTdata", ("image", "label_int"))
"""

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

HEADER = 128  # bytes, of which the last two say how numbers are stored
MATRIX, COMPRESSED = 14, 15  # types of elements
STRUCTURE = 2  # a class of matrices
COMPLEX = 8  # a flag
NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8"}
NUMBERS |= {12: "<i8", 13: "<u8"}
NUMERIC = range(6, 16)  # classes: double to 64-bit integers, stored as whatever is small enough


def read_struct(raw: bytes, name: str, fields: Sequence[str]) -> dict[str, np.ndarray]:
    """Return some fields of the structure with a name; a ValueError says what is wrong."""
    if len(raw) < HEADER or raw[HEADER - 2 : HEADER] != b"IM":
        raise ValueError("it is no file of Matlab's level 5")
    for kind, content in _elements(memoryview(raw)[HEADER:]):
        if kind == COMPRESSED:
            ((kind, content), *_) = [*_elements(_unpacked(content))] or [(0, content)]
        if kind != MATRIX:
            raise ValueError("it holds what is no matrix")
        number, shape, found, rest = _matrix(content)
        if found == name:
            if number != STRUCTURE or math.prod(shape) != 1:
                raise ValueError(f"{name} is not one structure")
            return _fields(rest, fields)
    raise ValueError(f"it has no {name}")


def _unpacked(content: memoryview) -> memoryview:
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(content)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:  # there the checksum stands
        raise ValueError("it is cut short")
    return memoryview(unpacked)


def _elements(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of elements that follow each other."""
    start = 0
    while start < len(data):
        if len(data) - start < 8:
            raise ValueError("it is cut short")
        kind, size = struct.unpack_from("<II", data, start)
        begin, room = start + 8, size if kind == COMPRESSED else size + -size % 8
        if kind >> 16:
            kind, size = kind & 0xFFFF, kind >> 16
            begin, room = start + 4, 4
        if size > min(room, len(data) - begin):
            raise ValueError("it is cut short")
        yield kind, data[begin : begin + size]
        start = begin + room


def _matrix(content: memoryview) -> tuple[int, list[int], str, Iterator[tuple[int, memoryview]]]:
    """Return the class, the sizes and the name of a matrix, and the elements after these."""
    parts = _elements(content)
    flags, sizes, name = (x for _, x in _first(parts, 3))
    shape = np.frombuffer(sizes, "<i4").tolist()
    if len(flags) < 2 or flags[1] & COMPLEX or len(shape) < 2 or min(shape) < 0:
        raise ValueError("a matrix of it has no class or no sizes")
    return flags[0], shape, bytes(name).decode("latin-1"), parts


def _first(parts: Iterator[tuple[int, memoryview]], num: int) -> list[tuple[int, memoryview]]:
    found = [*islice(parts, num)]
    if len(found) < num:
        raise ValueError("it is cut short")
    return found


def _fields(
    parts: Iterator[tuple[int, memoryview]], wanted: Sequence[str]
) -> dict[str, np.ndarray]:
    (_, length), (_, names) = _first(parts, 2)
    width = int.from_bytes(length, "little")
    if not 0 < width <= len(names):
        raise ValueError("its fields have no names")
    texts = [bytes(names[k : k + width]) for k in range(0, len(names), width)]
    found = {}
    for text, (kind, content) in zip(texts, parts, strict=False):
        field = text.partition(b"\0")[0].decode("latin-1")
        if field in wanted:
            if kind != MATRIX:
                raise ValueError(f"{field} is no matrix")
            found[field] = _numbers(field, content)
    if lost := set(wanted) - found.keys():
        raise ValueError(f"it has no {min(lost)}")
    return found


def _numbers(name: str, content: memoryview) -> np.ndarray:
    number, shape, _, rest = _matrix(content)
    ((kind, raw),) = _first(rest, 1)
    if number not in NUMERIC or kind not in NUMBERS:
        raise ValueError(f"{name} holds no numbers")
    dtype = np.dtype(NUMBERS[kind])
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"{name} is of another size than it says")
    return np.frombuffer(raw, dtype).reshape(shape, order="F")
