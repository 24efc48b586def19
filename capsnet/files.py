"""Files appear whole or not at all; processes that share files take turns.

with whole_file("runs/a/weights.safetensors") as temporary: save(temporary)
with locked(path): change(path)
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capsnet.errors import UserError

PREFIX = ".unfinished-"


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Give a temporary path in the same folder and move it to `path` when the block succeeds.

    A folder that cannot be written to, or a full disk, is a UserError; nothing is left behind.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f"{PREFIX}{path.name}.", suffix=path.suffix
        )
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise UserError(
            f"Could not write {path}: {error.strerror or error}; "
            "free some space or choose a folder you can write to."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def clear_leftovers(folder: Path) -> None:
    """Remove what a process that was killed while writing left in a folder of its own."""
    for path in folder.glob(f"{PREFIX}*"):
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file, made if need be; False if not `wait` and another process has it.

    The kernel takes the lock back when the process ends, however it ends.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise UserError(
            f"Could not write {path}: {error.strerror}; choose a folder you can write to."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
        yield held


def append_line(path: Path, line: str) -> None:
    """Add one line to a file of results."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise UserError(
            f"Could not write {path}: {error.strerror}; choose a file you can write to."
        ) from error


def write_text(path: Path | str, text: str) -> None:
    """Write a small text file whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
