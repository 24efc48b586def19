"""Verified files: wherever a file comes from, the md5 of its raw content is what is trusted.

Places are tried in this order: a folder given by the user, the cache (CAPSNET_CACHE), system
folders, mirrors (CAPSNET_MIRRORS, separated by spaces, or the official ones), a package on the
package index. What is fetched is written to the cache whole or not at all.

Usage: located = locate(MNIST)["train-images-idx3-ubyte"]; located.place, located.raw
"""

import gzip
import hashlib
import itertools
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from capsnet.data.sources.fetching import NoAnswer, download
from capsnet.data.sources.wheel import read_mnist_wheel
from capsnet.errors import UserError
from capsnet.files import cache_folder, whole_file

Fetched = dict[str, tuple[bytes, str]]


@dataclass(frozen=True)
class Source:
    """The files of a data set, each with the md5 of its raw content, and where to find them."""

    name: str
    raw_md5: dict[str, str]
    gz_md5: dict[str, str]
    mirrors: tuple[str, ...]
    system_folder: str
    package: Callable[[], dict[str, bytes]] | None = None
    hint: str = ""


@dataclass(frozen=True)
class Located:
    """A verified file: where it lies, which place it came from, and its raw content."""

    path: Path
    place: str
    raw: bytes = field(repr=False)


class MissingFile(UserError):
    """A file that is nowhere."""


class WrongFile(UserError):
    """A file that is not the original, with no other copy of it."""


MNIST = Source(
    name="mnist",
    raw_md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    gz_md5={
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    system_folder="/usr/share/datasets/mnist",
    package=read_mnist_wheel,
)

FASHION = Source(
    name="fashion",
    raw_md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    gz_md5={
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    },
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    system_folder="/usr/share/datasets/fashion-mnist",
    hint="`apt-get install dataset-fashion-mnist` on Debian, or ",
)


def locate(
    source: Source,
    names: Iterable[str] | None = None,
    folder: str | Path | None = None,
    online: bool = True,
) -> dict[str, Located]:
    """Find and verify the named files (all by default), fetching what is missing if `online`."""
    if folder is not None and not Path(folder).is_dir():
        raise UserError(f"There is no folder {folder}; give the one that holds the files.")
    names = list(source.raw_md5 if names is None else names)
    cache, system = cache_folder() / source.name, Path(source.system_folder)
    found: dict[str, Located] = {}
    reasons: list[str] = []
    damaged: set[str] = set()
    for name in names:
        known = len(reasons)
        located = _given(source, name, folder) if folder is not None else None
        located = located or _local(source, name, cache, "cache", reasons)
        located = located or _local(source, name, system, f"system folder {system}", reasons)
        if located:
            found[name] = located
        elif len(reasons) > known:
            damaged.add(name)
    missing = [name for name in names if name not in found]
    if missing and online:
        fetched = _from_mirrors(source, missing, reasons)
        if source.package and len(fetched) < len(missing):
            fetched = _from_package(source, source.package, reasons) | fetched
        for name, (raw, place) in fetched.items():
            _store(cache / name, raw)
            note = ", in place of a damaged copy" if name in damaged else ""
            found.setdefault(name, Located(cache / name, place + note, raw))
    if missing := [name for name in missing if name not in found]:
        why = f" ({'; '.join(reasons)})" if reasons else ""
        raise (WrongFile if damaged.intersection(missing) else MissingFile)(
            f"Cannot find the {source.name} files {', '.join(missing)}{why}; {source.hint}place "
            f"them, with or without .gz, in {cache} by hand, or give their folder."
        )
    return {name: found[name] for name in names}


def _given(source: Source, name: str, folder: str | Path) -> Located | None:
    """Take a file from the user's folder; a wrong one is an error."""
    wrong: list[str] = []
    located = _local(source, name, Path(folder), f"folder {folder}", wrong)
    if wrong and not located:
        raise WrongFile(f"{wrong[0]}; replace it by the original file.")
    return located


def _local(source: Source, name: str, folder: Path, place: str, wrong: list[str]) -> Located | None:
    """Take a file from a folder, plain or .gz; note in `wrong` one that is not the original."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            raw, verdict = _verify(source, name, path)
            if raw is not None:
                return Located(path, place, raw)
            wrong.append(verdict)
    return None


def _verify(source: Source, name: str, path: Path) -> tuple[bytes | None, str]:
    """Return the raw content of a file if its digest is right, else None and what is wrong."""
    expected = source.raw_md5[name]
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        return None, f"{path} cannot be read ({error})"
    digest = hashlib.md5(raw).hexdigest()
    if digest == expected:
        return raw, ""
    return None, (
        f"{path} is not the original: the md5 of its raw content should be {expected} "
        f"(of the official .gz: {source.gz_md5[name]}) but is {digest}"
    )


def _from_mirrors(source: Source, names: list[str], reasons: list[str]) -> Fetched:
    """Download files, each from the first mirror that has the original; note each failure."""
    mirrors = os.environ.get("CAPSNET_MIRRORS", " ".join(source.mirrors)).split()
    fetched: Fetched = {}
    silent: set[str] = set()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for name, mirror in itertools.product(names, mirrors):
            host = urlsplit(mirror).netloc
            if name in fetched or host in silent:
                continue
            target = Path(scratch) / name
            try:
                download(f"{mirror.rstrip('/')}/{name}.gz", target)
            except OSError as error:
                reasons.append(str(error))
                if isinstance(error, NoAnswer):
                    silent.add(host)
                continue
            raw, verdict = _verify(source, name, target)
            if raw is None:
                reasons.append(verdict.replace(str(target), f"{name} of {mirror}"))
            else:
                fetched[name] = (raw, f"mirror {mirror}")
    return fetched


def _from_package(
    source: Source, package: Callable[[], dict[str, bytes]], reasons: list[str]
) -> Fetched:
    """Take all originals that the package index has; note each failure."""
    fetched: Fetched = {}
    try:
        files = package()
    except OSError as error:
        reasons.append(str(error))
        return fetched
    for name, raw in files.items():
        if hashlib.md5(raw).hexdigest() == source.raw_md5[name]:
            fetched[name] = (raw, "package index")
        else:
            reasons.append(f"{name} of the package index is not the original")
    return fetched


def _store(path: Path, raw: bytes) -> None:
    """Write a fetched file to the cache."""
    try:
        with whole_file(path) as temporary:
            temporary.write_bytes(raw)
    except UserError as error:
        raise UserError(f"{error} CAPSNET_CACHE names the folder.") from None
