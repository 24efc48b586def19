"""Reads a share of the pictures of a job; started by store.py as a process of its own.

python -m capsnet.pictures.worker JOB NUMBER

A process of its own, and no pool: a pool would import the user's script again, or copy the threads
of torch. It needs neither, and starts in a sixth of a second.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capsnet.pictures.decoding import BadPicture, Form
from capsnet.pictures.reading import Fit
from capsnet.pictures.squares import read_square

PART = 100  # pictures that a process takes at a time


@dataclass(frozen=True)
class Job:
    """Which files become which rows of the array at `out`, [M, channels, size, size]."""

    files: tuple[str, ...]
    size: int
    channels: int
    fit: Fit
    deep: bool  # float32, else bytes
    out: str
    skip_bad: bool
    grey: bool = False  # all are taken to be grey; the first in colour ends the job

    def to_json(self) -> dict[str, Any]:
        """Return the job as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Told:
    """What is said of one file: its form, or what is wrong with it."""

    row: int
    form: Form | None
    problem: str = ""

    def ends(self, job: Job) -> bool:
        """Whether there is no use in reading on."""
        if self.form is None:
            return not job.skip_bad
        return job.grey and self.form.channels != 1


def read_share(job: Job, work: Path, tell: Callable[[int], None]) -> "list[Told]":
    """Read pictures that nobody else has taken into the array, until none is left.

    tell: called at times with how many there were since the last time.
    """
    images = np.asarray(np.load(job.out, mmap_mode="r+"))  # its rows are cheaper than a memmap's
    told: list[Told] = []
    for rows in take(work, len(job.files)):
        for row in rows:
            told.append(read_row(job, images, row))
            if told[-1].ends(job):
                return told
        tell(len(rows))
    return told


def take(work: Path, total: int) -> Iterator[range]:
    """Yield parts of the rows, each to one process alone: who makes its file first has it."""
    for start in range(0, total, PART):
        try:
            os.close(os.open(work / f"taken-{start}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        yield range(start, min(start + PART, total))


def read_row(job: Job, images: np.ndarray, row: int) -> Told:
    """Read one picture into its row."""
    try:
        pixels, form = read_square(job.files[row], job.size, job.channels, job.fit)
    except BadPicture as error:
        return Told(row, None, str(error))
    deep = pixels.dtype != np.uint8
    if deep != job.deep:
        first = "more than 8" if job.deep else "8"
        kept = ", of which 8 are kept" if form.bits > 8 and not deep else ""
        return Told(
            row,
            None,
            f"{job.files[row]} has {form.bits} bits for a value{kept}, others have {first}; bring "
            "all pictures to one depth.",
        )
    images[row] = pixels
    return Told(row, form)


def main(words: list[str]) -> None:
    """Do a share of a job, and write what is told of its files beside the job."""
    path, number = Path(words[0]), words[1]
    facts = json.loads(path.read_text(encoding="utf-8"))
    job = Job(**{**facts, "files": tuple(facts["files"])})
    told = read_share(job, path.parent, lambda num: print(num, flush=True))
    lines = json.dumps([[t.row, t.form, t.problem] for t in told])
    path.with_name(f"told-{number}.json").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (BrokenPipeError, FileNotFoundError):  # whoever asked is gone, and may be its folder
        os._exit(1)
