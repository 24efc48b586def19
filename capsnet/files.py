"""Files appear whole or not at all; processes that share files take turns.

with whole_file("runs/a/weights.safetensors") as temporary: save(temporary)
with locked(lock_of(path)): change(path)
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from capsnet.errors import UserError

PREFIX = ".unfinished-"
OLD_START = b'{"__metadata__":{"capsnet":'  # behind 8 bytes: tensors that capsnet wrote
SUMS = "SHA256SUMS"  # beside files that come with the package: their digests, as sha256sum has them


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
    for path in folder.glob(".tmp??????"):  # earlier versions wrote through a library's own files
        if path.is_file() and not path.is_symlink() and _begins_with(path, OLD_START):
            path.unlink(missing_ok=True)


def _begins_with(path: Path, start: bytes) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(8 + len(start))[8:] == start
    return False


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock whose file is `path`; False if not `wait` and another process has it.

    The system takes the lock back when the process ends, however it ends. The file is the lock's
    alone, made if need be and on some systems removed: never a file with content.
    """
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        pass
    except OSError as error:
        raise UserError(
            f"Could not write {path}: {error.strerror}; choose a folder you can write to."
        ) from error
    try:
        yield lock.is_locked
    finally:
        lock.release()


def lock_of(path: Path) -> Path:
    """Return the lock of a file with content: a hidden file beside it, which git ignores."""
    return path.with_name(f".{path.name}.lock")


def cache_folder() -> Path:
    """Return where what can be made or fetched again is kept.

    Returns:
        The folder that the variable CAPSNET_CACHE names, or one in the user's cache.

    Example:
        >>> isinstance(cache_folder(), Path)
        True
    """
    if chosen := os.environ.get("CAPSNET_CACHE"):
        return Path(os.path.expanduser(chosen))
    import pooch

    return Path(pooch.os_cache("capsnet"))


def append_text(path: Path, text: str) -> None:
    """Add text to a file, made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise UserError(
            f"Could not write {path}: {error.strerror}; choose a file you can write to."
        ) from error


def append_line(path: Path, line: str) -> None:
    """Add one line to a file of results."""
    append_text(path, line + "\n")


def write_text(path: Path | str, text: str) -> None:
    """Write a small text file whole or not at all, the same bytes on every system.

    The name of a file that is no text keeps its bytes.
    """
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")


def known_digest(path: Path) -> str:
    """Return the SHA-256 that a file which comes with the package must have."""
    try:
        lines = (path.parent / SUMS).read_text(encoding="ascii").splitlines()
        return {name: digest for digest, name in map(str.split, lines)}[path.name]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{path.parent / SUMS} does not tell of {path.name}; install capsnet again."
        ) from error


def note_digest(path: Path) -> None:
    """Write the SHA-256 of a file that comes with the package beside it."""
    sums = path.parent / SUMS
    lines = sums.read_text(encoding="ascii").splitlines() if sums.exists() else []
    kept = [line for line in lines if not line.endswith(f"  {path.name}")]
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    lines = sorted([*kept, f"{found}  {path.name}"], key=lambda line: line.split()[1])
    write_text(sums, "".join(f"{line}\n" for line in lines))


def read_shipped(path: Path) -> bytes:
    """Return the bytes of a file that comes with the package; a UserError if they are others."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}); install capsnet again.") from error
    if hashlib.sha256(content).hexdigest() != known_digest(path):
        raise UserError(f"{path} is damaged (its digest does not fit); install capsnet again.")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file of a run holds; a UserError if it is damaged."""
    try:
        facts = parse_json(path.read_bytes())
        if not isinstance(facts, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); make the run again.") from None
    return facts


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text says; a ValueError also where it is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
