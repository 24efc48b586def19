"""All pictures of a listing as one array, read on all cores and kept in the cache.

stored = read_pictures(listing, size=None, channels=None, layout=layout); stored.images[0]

The array lies on the disk and is mapped, so that pictures at their full size are never in memory
together. It is found again by the names, sizes and times of the files.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capsnet.errors import UserError
from capsnet.files import cache_folder, locked
from capsnet.pictures.decoding import SLICE, Form, read_form
from capsnet.pictures.layout import Layout, Listing
from capsnet.pictures.reading import DEEP_WHITE, Reading
from capsnet.pictures.squares import in_window
from capsnet.pictures.worker import Job, Told, read_row

VERSION = 1  # of what is kept; another one is read anew
DEFAULT_SIZE = 32
FEW = 600  # pictures that one process has read before others have started
KEPT_DAYS = 30  # an array that nobody has asked for since is removed
SLICES = 64  # pictures at a time where all values are looked at

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Stored:
    """The pictures that could be read: an array, by which rules it was made, and what they were."""

    listing: Listing  # without those that could not be read
    images: np.ndarray  # uint8 or int16 [M, C, S, S]
    reading: Reading
    forms: tuple[Form, ...]
    values: tuple[float, float] | None  # the smallest and largest value, of more than 8 bits

    @property
    def folder(self) -> Path:
        """Where the array lies, and with it what is computed of it."""
        return Path(str(self.images.filename)).parent  # type: ignore[attr-defined]


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
    key = _key(listing, size, channels, layout)
    place = cache_folder() / "pictures" / key
    with locked(place.with_suffix(".lock")):
        if not (place / "facts.json").exists():
            _make(listing, size, channels, layout, place, progress)
            _clear_old(place)
        os.utime(place)
        return _open(listing, place)


def _key(listing: Listing, size: int | None, channels: int | None, layout: Layout) -> str:
    """Return a name for the array that the files as they are now would make."""
    digest = hashlib.sha256()
    wanted = (VERSION, size, channels, layout.fit, layout.window, layout.skip_bad)
    digest.update(json.dumps([str(listing.root.resolve()), *wanted]).encode())
    for file in listing.files:
        try:
            path = str(listing.root / file)
            found = os.stat(path.rpartition(SLICE)[0] if SLICE in file else path)
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
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=place.parent, prefix=".unfinished-"))
    except OSError as error:
        raise UserError(
            f"Could not write {place.parent}: {error.strerror}; set CAPSNET_CACHE to a folder you "
            "can write to."
        ) from None
    try:
        first = _first_form(files, layout)
        if size is None:
            size = _usual_size(files, first, layout)
        if channels not in (None, 1, 3) and first.channels in (1, 3) and first.channels != channels:
            raise UserError(f"Pictures have 1 or 3 channels, not {channels}; ask for one of these.")
        wanted = channels or (3 if first.channels in (1, 3) else first.channels)
        deep = first.bits > 8 and first.channels != 3
        out = work / "raw.npy"
        shape = (len(files), wanted, size, size)
        np.lib.format.open_memmap(out, "w+", np.float32 if deep else np.uint8, shape)
        job = Job(files, size, wanted, layout.fit, deep, str(out), layout.skip_bad)
        told = _read_all(job, work, progress)
        _finish(told, job, channels, layout, work)
        if place.exists():
            shutil.rmtree(place)
        work.replace(place)
    except OSError as error:
        raise UserError(
            f"Could not write the array of pictures to {place.parent}: {error.strerror or error}; "
            "free some space, or set CAPSNET_CACHE to another folder."
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _first_form(files: tuple[str, ...], layout: Layout) -> Form:
    """Return the form of the first picture that can be read."""
    for path in files:
        try:
            return read_form(path)
        except UserError:
            if not layout.skip_bad:
                raise
    raise UserError("None of the pictures can be read; give others.")


def _usual_size(files: tuple[str, ...], first: Form, layout: Layout) -> int:
    """Return the longest side of any picture, but DEFAULT_SIZE at most."""
    longest = max(first.width, first.height)
    for path in files:
        if longest >= DEFAULT_SIZE:
            return DEFAULT_SIZE
        try:
            form = read_form(path)
            longest = max(longest, form.width, form.height)
        except UserError:
            if not layout.skip_bad:
                raise
    return longest


def _read_all(job: Job, work: Path, progress: Progress | None) -> list[Told]:
    """Read the pictures of a job, in this process or, if they are many, in one for each core."""
    count = os.cpu_count() or 1
    if len(job.files) < FEW or count == 1:
        images = np.load(job.out, mmap_mode="r+")
        told = []
        for row in range(len(job.files)):
            told.append(read_row(job, images, row))
            if told[-1].problem and not job.skip_bad:
                break
            if progress is not None:
                progress(row + 1, len(job.files))
        return _checked(told, job)
    path = work / "job.json"
    path.write_text(json.dumps(job.to_json()), encoding="utf-8")
    words = [sys.executable, "-m", "capsnet.pictures.worker", str(path)]
    source = str(Path(__file__).parents[2])
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    workers = [
        subprocess.Popen(
            [*words, str(k), str(count)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env
        )
        for k in range(count)
    ]
    done, turn = [0], threading.Lock()

    def listen(worker: "subprocess.Popen[bytes]") -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            with turn:
                done[0] += int(line)
                if progress is not None:
                    progress(done[0], len(job.files))

    listeners = [threading.Thread(target=listen, args=(w,), daemon=True) for w in workers]
    try:
        for listener in listeners:
            listener.start()
        for listener, worker in zip(listeners, workers, strict=True):
            listener.join()
            if worker.wait() != 0:
                raise UserError("A process that read pictures was stopped; try again.")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    told = []
    for k in range(count):
        said = json.loads((work / f"told-{k}.json").read_text(encoding="utf-8"))
        told += [Told(row, form and Form(*form), problem) for row, form, problem in said]
    return _checked(sorted(told, key=lambda t: t.row), job)


def _checked(told: list[Told], job: Job) -> list[Told]:
    """Return what was told; a UserError with the first problem unless bad files are skipped."""
    problems = [t.problem for t in told if t.problem]
    if problems and not job.skip_bad:
        raise UserError(f"{problems[0]} (Leave such files out with --skip-bad.)")
    if all(t.form is None for t in told):
        raise UserError(f"None of the pictures can be read: {problems[0]}")
    return told


def _finish(told: list[Told], job: Job, channels: int | None, layout: Layout, work: Path) -> None:
    """Write the array as it is used, without the rows of bad files, and the facts."""
    raw = np.load(job.out, mmap_mode="r")
    good = [t for t in told if t.form is not None]
    rows = [t.row for t in good]
    forms = [t.form for t in good if t.form is not None]
    kept = channels or job.channels
    if channels is None and all(form.channels == 1 for form in forms):
        kept = 1
    values = window = None
    if job.deep:
        spans = [(float(raw[k].min()), float(raw[k].max())) for k in rows]
        values = min(low for low, _ in spans), max(high for _, high in spans)
        window = layout.window or values
        if not window[0] < window[1]:
            raise UserError("All values of all pictures are the same; give others, or --window.")
    elif layout.window is not None:
        raise UserError("These pictures have 8 bits, which need no window; leave --window out.")
    reading = Reading(job.size, kept, layout.fit, window)
    shape = (len(rows), kept, job.size, job.size)
    kind = np.int16 if job.deep else np.uint8
    images = np.lib.format.open_memmap(work / "images.npy", "w+", kind, shape)
    for start in range(0, len(rows), SLICES):
        part = raw[rows[start : start + SLICES], :kept]
        if window is not None:
            part = (in_window(part, reading) * DEEP_WHITE).round()
        images[start : start + SLICES] = part
    images.flush()
    del raw, images
    Path(job.out).unlink()
    facts = {
        "rows": rows,
        "forms": forms,
        "problems": [t.problem for t in told if t.problem],
        "reading": reading.to_json(),
        "values": values,
    }
    (work / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def _open(listing: Listing, place: Path) -> Stored:
    facts = json.loads((place / "facts.json").read_text(encoding="utf-8"))
    rows = facts["rows"]
    problems = tuple(facts["problems"])
    kept = listing if len(rows) == len(listing) else listing.subset(rows, problems)
    return Stored(
        kept,
        np.load(place / "images.npy", mmap_mode="r"),
        Reading.from_json(facts["reading"]),
        tuple(Form(*form) for form in facts["forms"]),
        None if facts["values"] is None else tuple(facts["values"]),
    )


def _clear_old(place: Path) -> None:
    """Remove arrays that nobody has asked for in a long time, and what killed processes left."""
    limit = time.time() - KEPT_DAYS * 86_400
    for folder in place.parent.iterdir():
        if folder.is_dir() and folder.stat().st_mtime < limit:
            shutil.rmtree(folder, ignore_errors=True)
