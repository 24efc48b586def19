"""All pictures of a listing as one array, read on all cores and kept in the cache.

stored = read_pictures(listing, size=None, channels=None, layout=layout); stored.images[0]

The array lies on the disk and is mapped, so that pictures at their full size are never in memory
together. It is found again by the names, sizes and times of the files.
"""

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capsnet.errors import UserError
from capsnet.files import cache_folder, locked
from capsnet.pictures.decoding import Form, decode, read_form, slice_of
from capsnet.pictures.layout import Layout, Listing
from capsnet.pictures.processes import Progress, read_all
from capsnet.pictures.reading import DEEP_WHITE, Reading
from capsnet.pictures.squares import BLACKEST, in_window
from capsnet.pictures.worker import Job, Told

VERSION = 3  # of what is kept; another one is read anew
DEFAULT_SIZE = 32
KEPT_DAYS = 30  # an array that nobody has asked for since is removed
CHUNK_BYTES = 2**24  # pictures at a time where all values are looked at
LOOKED_AT = 20  # pictures that say whether all are taken to be grey
UNFINISHED = ".unfinished-"


@dataclass(frozen=True, eq=False)
class Stored:
    """The pictures that could be read: an array, by which rules it was made, and what they were."""

    listing: Listing  # without those that could not be read
    images: np.memmap  # uint8 or int16 [M, C, S, S]
    reading: Reading
    forms: tuple[Form, ...]
    values: tuple[float, float] | None  # the smallest and largest value, of more than 8 bits

    @property
    def folder(self) -> Path:
        """Where the array lies, and with it what is computed of it."""
        return Path(str(self.images.filename)).parent


def read_pictures(
    listing: Listing,
    size: int | None,
    channels: int | None,
    layout: Layout,
    progress: Progress | None = None,
) -> Stored:
    """Return all pictures of a listing, from the cache if they are there.

    size: by default the longest side of any picture, but 32 at most. channels: by default 1 if all
    are grey, else 3. Of pictures of more than 8 bits the whole range becomes black to white, unless
    the layout has a window.
    """
    _require_window(layout)
    place = cache_folder() / "pictures" / _key(listing, size, channels, layout)
    _require_writable(place.parent)
    with locked(place.with_suffix(".lock")):
        stored = _open(listing, place)
        if stored is None:
            _make(listing, size, channels, layout, place, progress)
            _clear_old(place)
            stored = _open(listing, place)
        if stored is None:
            raise UserError(f"{place} was changed while it was used; try again.")
        os.utime(place)
        return stored


def _require_window(layout: Layout) -> None:
    if layout.window is not None:
        low, high = layout.window
        if not (np.isfinite([low, high]).all() and low < high):
            raise UserError(
                f"The window {low:g} {high:g} is none: black must be a smaller number than white; "
                "correct --window."
            )


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(0, "it is read-only")
    except OSError as error:
        raise UserError(
            f"Could not write {folder}: {error.strerror}; set CAPSNET_CACHE to a folder you can "
            "write to."
        ) from None


def _key(listing: Listing, size: int | None, channels: int | None, layout: Layout) -> str:
    """Return a name for the array that the files as they are now would make."""
    digest = hashlib.sha256()
    wanted = (VERSION, size, channels, layout.fit, layout.window, layout.skip_bad)
    digest.update(json.dumps([str(listing.root.resolve()), *wanted]).encode())
    for file in listing.files:
        try:
            path = os.path.join(listing.root, file)  # many times faster than Path's
            found = os.stat(slice_of(path)[0])
            facts = (found.st_size, found.st_mtime_ns)
        except OSError:
            facts = (0, 0)  # reading will say what is wrong
        digest.update(f"{file}\0{facts}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _make(
    listing: Listing,
    size: int | None,
    channels: int | None,
    layout: Layout,
    place: Path,
    progress: Progress | None,
) -> None:
    """Read all files and write the array with its facts; nothing is left if that fails."""
    files = tuple(listing.path(k) for k in range(len(listing)))
    work = place.with_name(UNFINISHED + place.name)  # one for each, so that they cannot pile up
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir()
        first, deep = _first_form(files, layout)
        if size is None:
            size = _usual_size(files, first, layout)
        if channels not in (None, 1, 3) and first.channels in (1, 3) and first.channels != channels:
            raise UserError(f"Pictures have 1 or 3 channels, not {channels}; ask for one of these.")
        wanted = channels or (3 if first.channels in (1, 3) else first.channels)
        grey = channels is None and _seem_grey(files)
        kind = np.float32 if deep else np.uint8
        job = Job(
            files, size, wanted, layout.fit, deep, str(work / "raw.npy"), layout.skip_bad, grey
        )
        if grey:
            job = replace(job, channels=1)
        allocate(job.out, kind, (len(files), job.channels, size, size))
        told = read_all(job, work, progress)
        if any(t.form is not None and t.ends(job) for t in told):  # one in colour, after all
            job = replace(job, channels=wanted, grey=False)
            allocate(job.out, kind, (len(files), wanted, size, size))
            told = read_all(job, work, progress)
        _finish(told, job, channels, layout, work)
        shutil.rmtree(place, ignore_errors=True)
        work.replace(place)
    except OSError as error:
        raise UserError(
            f"Could not write the array of pictures to {place.parent}: {error.strerror or error}; "
            "free some space, or set CAPSNET_CACHE to another folder."
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def allocate(path: str | Path, kind: type, shape: tuple[int, ...]) -> np.ndarray:
    """Return a new mapped array whose place on the disk is taken at once.

    A mapped file that only seems to be there ends the process when the disk is full; so it is an
    OSError.
    """
    images = np.lib.format.open_memmap(path, "w+", kind, shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "rb+") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return images


def _first_form(files: tuple[str, ...], layout: Layout) -> tuple[Form, bool]:
    """Return the form of the first picture that can be read, and if it has more than bytes."""
    for path in files:
        try:
            form, values = decode(path)
            return form, isinstance(values, np.ndarray) and values.dtype != np.uint8
        except UserError as error:
            if not layout.skip_bad:
                raise UserError(f"{error} (Leave such files out with --skip-bad.)") from None
    raise UserError("None of the pictures can be read; give others.")


def _seem_grey(files: tuple[str, ...]) -> bool:
    """Whether some pictures from all over are grey; what cannot be read says nothing."""
    for path in files[:: max(1, len(files) // LOOKED_AT)]:
        try:
            if read_form(path).channels != 1:
                return False
        except UserError:
            continue
    return True


def _usual_size(files: tuple[str, ...], first: Form, layout: Layout) -> int:
    """Return the longest side of any picture, but DEFAULT_SIZE at most."""
    longest = max(first.width, first.height)
    for path in files:
        if longest >= DEFAULT_SIZE:
            return DEFAULT_SIZE
        try:
            form = read_form(path)
            longest = max(longest, form.width, form.height)
        except UserError as error:
            if not layout.skip_bad:
                raise UserError(f"{error} (Leave such files out with --skip-bad.)") from None
    return longest


def _finish(told: list[Told], job: Job, channels: int | None, layout: Layout, work: Path) -> None:
    """Write the array as it is used, without the rows of bad files, and the facts."""
    raw = np.load(job.out, mmap_mode="r")
    good = [t for t in told if t.form is not None]
    rows = [t.row for t in good]
    forms = [t.form for t in good if t.form is not None]
    kept = channels or job.channels
    if channels is None and all(form.channels == 1 for form in forms):
        kept = 1
    step = max(1, CHUNK_BYTES // raw[0].nbytes)
    values = window = None
    if job.deep:
        spans = [_span(raw[k]) for k in rows]
        values = min(low for low, _ in spans), max(high for _, high in spans)
        window = layout.window or values
        if not window[0] < window[1]:
            raise UserError("All values of all pictures are the same; give others, or --window.")
    elif layout.window is not None:
        raise UserError("These pictures have 8 bits, which need no window; leave --window out.")
    reading = Reading(job.size, kept, layout.fit, window)
    if raw.dtype == np.uint8 and raw.shape[:2] == (len(rows), kept):
        del raw
        Path(job.out).replace(work / "images.npy")
    else:
        kind = np.int16 if job.deep else np.uint8
        shape = (len(rows), kept, job.size, job.size)
        images = allocate(work / "images.npy", kind, shape)
        for start in range(0, len(rows), step):
            part = raw[rows[start : start + step], :kept]
            if window is not None:
                part = (in_window(part, reading) * DEEP_WHITE).round()
            images[start : start + step] = part
        del raw, images
        Path(job.out).unlink()
    with open(work / "images.npy", "rb+") as file:
        os.fsync(file.fileno())
    facts = {
        "rows": rows,
        "forms": forms,
        "problems": [t.problem for t in told if t.problem],
        "reading": reading.to_json(),
        "values": values,
    }
    (work / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def _span(values: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest value of a picture, but for what it is padded with."""
    return float(values.min(initial=np.inf, where=values > BLACKEST)), float(values.max())


def _open(listing: Listing, place: Path) -> Stored | None:
    """Return what is in the cache; None if nothing is, or not what was written."""
    try:
        facts = json.loads((place / "facts.json").read_text(encoding="utf-8"))
        rows, problems = facts["rows"], tuple(facts["problems"])
        reading = Reading.from_json(facts["reading"])
        forms = tuple(Form(*form) for form in facts["forms"])
        values = None if facts["values"] is None else tuple(facts["values"])
        images = np.load(place / "images.npy", mmap_mode="r")
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    shape = (len(rows), reading.channels, reading.size, reading.size)
    if images.shape != shape or len(forms) != len(rows):
        return None
    kept = listing if len(rows) == len(listing) else listing.subset(rows, problems)
    return Stored(kept, images, reading, forms, values)


def _clear_old(place: Path) -> None:
    """Remove arrays that nobody has asked for in a long time, and what killed processes left."""
    limit = time.time() - KEPT_DAYS * 86_400
    for folder in place.parent.iterdir():
        if folder.name.startswith(UNFINISHED):
            key = folder.name.removeprefix(UNFINISHED)
            with locked(place.with_name(f"{key}.lock"), wait=False) as mine:
                if mine:
                    shutil.rmtree(folder, ignore_errors=True)
        elif folder.is_dir() and folder.stat().st_mtime < limit:
            shutil.rmtree(folder, ignore_errors=True)
