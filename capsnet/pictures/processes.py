"""The pictures of a job, read by this process and, if they are many, by one for each other core.

told = read_all(job, work, progress); told[0].form
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from capsnet.errors import UserError
from capsnet.pictures.decoding import Form
from capsnet.pictures.worker import Job, Told, read_share

FEW = 600  # pictures that one process has read before others have started

Progress = Callable[[int, int], None]


def read_all(job: Job, work: Path, progress: Progress | None) -> list[Told]:
    """Read the pictures of a job; what was told of each, in order, up to one that ends the job.

    A UserError says what is wrong with the first bad file, unless these are skipped.
    """
    for old in work.glob("t*-*"):  # of an earlier try with other channels
        old.unlink()
    count = os.cpu_count() or 1
    others = 0 if len(job.files) < FEW else count - 1
    done, turn = [0], threading.Lock()

    def tell(num: int) -> None:
        with turn:
            done[0] += num
            if progress is not None:
                progress(done[0], len(job.files))

    with _helpers(job, work, others, tell):
        told = read_share(job, work, tell)
    for k in range(others):
        said = json.loads((work / f"told-{k}.json").read_text(encoding="utf-8"))
        told += [Told(row, form and Form(*form), problem) for row, form, problem in said]
    for taken in work.glob("taken-*"):
        taken.unlink()
    return _checked(sorted(told, key=lambda t: t.row), job)


@contextmanager
def _helpers(job: Job, work: Path, count: int, tell: Callable[[int], None]) -> Iterator[None]:
    """Have other processes read along during the block, and wait for them at its end."""
    path = work / "job.json"
    if count:
        path.write_text(json.dumps(job.to_json()), encoding="utf-8")
    source = str(Path(__file__).parents[2])
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "capsnet.pictures.worker", str(path), str(k)],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=env,
        )
        for k in range(count)
    ]

    def listen(worker: "subprocess.Popen[bytes]") -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            tell(int(line))

    listeners = [threading.Thread(target=listen, args=(w,), daemon=True) for w in workers]
    try:
        for listener in listeners:
            listener.start()
        yield
        for listener, worker in zip(listeners, workers, strict=True):
            listener.join()
            if worker.wait() != 0:
                raise UserError("A process that read pictures was stopped; try again.")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _checked(told: list[Told], job: Job) -> list[Told]:
    """Return what was told; a UserError with the first problem unless bad files are skipped."""
    problems = [t.problem for t in told if t.problem]
    if problems and not job.skip_bad:
        raise UserError(f"{problems[0]} (Leave such files out with --skip-bad.)")
    if all(t.form is None for t in told):
        raise UserError(f"None of the pictures can be read: {problems[0]}")
    return told
