"""Tensors and a JSON record as one safetensors file that knows when a bit of it has changed.

save_tensors(path, {"W": W}, {"epoch": 3}); tensors, record = load_tensors(path)

The format is a length (8 bytes), a JSON header and the tensors' bytes. We write it ourselves: the
SHA-256 of the whole file goes into its own header (at a fixed place, read as zeros when the digest
is taken), no tensor is held twice, and a process that is killed leaves one file, of our own name.
Any reader of safetensors reads these files. Files from before there was a digest are read too.
"""

import hashlib
import io
import json
import math
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.files import parse_json, whole_file

HEADER = "capsnet"  # the key of our JSON among the metadata of the file
DIGEST = "digest"  # the key beside it
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
LARGEST_HEADER = 100_000_000  # bytes, as in the format's own library
LENGTH = struct.Struct("<Q")
START = b'{"__metadata__":{"digest":"'  # how the header of a file with a digest begins
NO_DIGEST = b"0" * 64
PLACE = slice(len(START), len(START) + len(NO_DIGEST))  # of the digest, in the header


@dataclass(frozen=True)
class TensorFile:
    """What a file holds; digest: the one that was found and is right, None in an old file."""

    tensors: dict[str, Tensor]
    record: dict[str, Any]
    digest: str | None


class _Wrong(Exception):
    """What is wrong with the bytes of a file, in a few words."""


def save_tensors(path: Path, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Write tensors and a JSON record as one safetensors file, whole or not at all."""
    plain = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    # The largest elements first: then each tensor stands where its type may stand.
    names = sorted(plain, key=lambda name: (-plain[name].element_size(), name))
    header: dict[str, Any] = {
        "__metadata__": {DIGEST: NO_DIGEST.decode(), HEADER: json.dumps(record)}
    }
    end = 0
    for name in names:
        x = plain[name]
        start, end = end, end + x.nbytes
        header[name] = {"dtype": NAMES[x.dtype], "shape": [*x.shape], "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    assert text.startswith(START)
    sha = hashlib.sha256()
    with whole_file(path) as temporary, temporary.open("wb") as file:
        parts: list[bytes | memoryview] = [LENGTH.pack(len(text)), text]
        for part in [*parts, *(_bytes(plain[name]) for name in names)]:
            file.write(part)
            sha.update(part)
        file.seek(LENGTH.size + PLACE.start)
        file.write(sha.hexdigest().encode())


def _bytes(x: Tensor) -> memoryview:
    return x.reshape(-1).view(torch.uint8).numpy().data


def load_tensors(path: Path, known: str | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; a UserError says what is wrong with the file.

    known: the SHA-256 of a file that comes with the package; its own digest is then not needed.
    """
    file = read_tensor_file(path, known)
    return file.tensors, file.record


def read_tensor_file(path: Path, known: str | None = None) -> TensorFile:
    """Read and check a file; a UserError says what is wrong with it."""
    with _opened(path, "install capsnet again" if known else "use another copy") as (file, size):
        header = _read_header(file, size, as_it_is=known is not None)
        tensors = {}
        for name, dtype, shape in header.tensors:
            x = torch.empty(shape, dtype=dtype)
            content = _bytes(x)
            if file.readinto(content) != x.nbytes:
                raise _Wrong("it changed while it was read")
            header.sha.update(content)
            tensors[name] = x
        if (known or header.digest) not in (None, header.sha.hexdigest()):
            raise _Wrong("its digest does not fit")
    return TensorFile(tensors, header.record, header.digest)


def read_record(path: Path) -> dict[str, Any]:
    """Read the JSON record alone; it is not checked before the whole file is read."""
    with _opened(path) as (file, size):
        return _read_header(file, size).record


@contextmanager
def _opened(
    path: Path, remedy: str = "use another copy"
) -> Iterator[tuple[io.BufferedReader, int]]:
    """Open a file to read it, with its size; what is wrong with it becomes a UserError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for without end
            raise UserError(f"{path} is no file but a folder, a pipe or a device; give a file.")
        with path.open("rb") as file:
            yield file, path.stat().st_size
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}; train a model first.") from error
    except PermissionError as error:
        raise UserError(f"You may not read {path}; ask its owner, or use another copy.") from error
    except (_Wrong, OSError, RuntimeError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); it is damaged or cut short: {remedy}."
        ) from error
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} was not written by capsnet; give a file that was.") from error


class _Header(NamedTuple):
    record: dict[str, Any]
    tensors: list[tuple[str, torch.dtype, list[int]]]  # as they follow each other
    digest: str | None
    sha: "hashlib._Hash"  # of what was read so far


def _read_header(file: io.BufferedReader, file_size: int, as_it_is: bool = False) -> _Header:
    """Read and check a header; as_it_is: the digest in it counts too in what is hashed."""
    first = file.read(LENGTH.size)
    size = LENGTH.unpack(first)[0] if len(first) == LENGTH.size else LARGEST_HEADER
    data_size = file_size - LENGTH.size - size
    if data_size < 0 or size >= LARGEST_HEADER:
        raise _Wrong("its header does not fit into it")
    raw = file.read(size)
    text, digest = bytearray(raw), None
    if text.startswith(START):
        digest = text[PLACE].decode("ascii", "replace")
        text[PLACE] = NO_DIGEST
    sha = hashlib.sha256(first + (raw if as_it_is else text))
    header = parse_json(bytes(text))
    if not isinstance(header, dict):
        raise _Wrong("its header is none")
    metadata = dict(header.pop("__metadata__", None) or {})
    if metadata.keys() != {HEADER} | ({DIGEST} if digest else set()):
        # What was once written with a digest must not pass as an old file.
        raise _Wrong("its digest is gone") if HEADER in metadata else KeyError(HEADER)
    record = parse_json(metadata[HEADER])
    if not isinstance(record, dict):
        raise TypeError("the record must be an object")
    return _Header(record, _in_order(header, data_size), digest, sha)


def _in_order(header: dict[str, Any], data_size: int) -> list[tuple[str, torch.dtype, list[int]]]:
    """Return what the tensors of a header are, as they follow each other without a gap."""
    found, edge = [], 0
    for name, entry in header.items():
        try:
            dtype, shape = DTYPES[entry["dtype"]], [*entry["shape"]]
            start, end = entry["data_offsets"]
        except (KeyError, TypeError, ValueError) as error:
            raise _Wrong(f"it does not say what {name!a} is") from error
        if not all(type(x) is int and 0 <= x < 1 << 62 for x in (*shape, start, end)):
            raise _Wrong(f"the sizes of {name!a} are none")
        if end - start != math.prod(shape) * dtype.itemsize:
            raise _Wrong(f"{name!a} is of another size than it says")
        found.append((start, end, name, dtype, shape))
    found.sort(key=lambda one: one[:2])
    for start, end, *_ in found:
        if start != edge:
            raise _Wrong("its tensors do not follow each other")
        edge = end
    if edge != data_size:
        raise _Wrong("its tensors do not fill it")
    return [(name, dtype, shape) for _, _, name, dtype, shape in found]
