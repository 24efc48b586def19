"""The pictures of a job read in this process or, if they are many, in one for each core.

told = read_all(job, work, progress); told[0].form
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from capsnet.errors import UserError
from capsnet.pictures.decoding import Form
from capsnet.pictures.worker import Job, Told, read_row

FEW = 600  # pictures that one process has read before others have started

Progress = Callable[[int, int], None]


def read_all(job: Job, work: Path, progress: Progress | None) -> list[Told]:
    """Read the pictures of a job; what was told of each, in order, up to one that ends the job.

    A UserError says what is wrong with the first bad file, unless these are skipped.
    """
    count = os.cpu_count() or 1
    if len(job.files) < FEW or count == 1:
        return _checked(_read_here(job, progress), job)
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


def _read_here(job: Job, progress: Progress | None) -> list[Told]:
    images = np.load(job.out, mmap_mode="r+")
    told = []
    for row in range(len(job.files)):
        told.append(read_row(job, images, row))
        if told[-1].ends(job):
            break
        if progress is not None:
            progress(row + 1, len(job.files))
    return told


def _checked(told: list[Told], job: Job) -> list[Told]:
    """Return what was told; a UserError with the first problem unless bad files are skipped."""
    problems = [t.problem for t in told if t.problem]
    if problems and not job.skip_bad:
        raise UserError(f"{problems[0]} (Leave such files out with --skip-bad.)")
    if all(t.form is None for t in told):
        raise UserError(f"None of the pictures can be read: {problems[0]}")
    return told
