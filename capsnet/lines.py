"""JSON lines on disk, each with the digest of its own text at its end, so that damage is noticed.

append_line(path, sealed({"seed": 3})); for number, facts in read_sealed(path): …

Lines from before there were digests have none; they stand above those that have.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capsnet.errors import UserError
from capsnet.files import parse_json

MARK = ', "digest": "'


def sealed(facts: dict[str, Any]) -> str:
    """Return the line of some facts, its digest at the end."""
    text = json.dumps(facts)
    return f'{text[:-1]}{MARK}{_digest(text)}"}}'


def unsealed(line: bytes) -> tuple[dict[str, Any], bool]:
    """Return the facts of a line, and whether it had a digest; a ValueError if it is damaged."""
    text, mark, end = line.decode().rpartition(MARK)
    if mark and end != f'{_digest(text + "}")}"}}':
        raise ValueError("its digest does not fit")
    facts = parse_json(f"{text}}}" if mark else line)
    if not isinstance(facts, dict):
        raise ValueError("it is no object")
    last = next(reversed(facts.values()), None)
    if not mark and isinstance(last, str) and len(last) > 48:  # no old line ends so
        raise ValueError("its digest has lost its name")
    return facts, bool(mark)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_sealed(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a file, counted from 1; half a line at its end is left out, and said.

    A line without a digest below one that has it is refused: it has lost it.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UserError(
            f"Could not read {path}: {error.strerror}; choose another folder of results."
        ) from error
    if not is_json(lines[-1]) and lines.pop():
        print(
            f"The last line of {path} is cut short and left out: a process is writing it, or was "
            "stopped in the middle.",
            file=sys.stderr,
        )
    above = False
    for number, line in enumerate(lines, 1):
        try:
            facts, marked = unsealed(line)
            if above and not marked:
                raise ValueError("it has no digest, and lines above it have one")
        except ValueError as error:
            raise damaged(path, number, error) from error
        above = marked
        yield number, facts


def damaged(path: Path, number: int, why: Exception) -> UserError:
    """Return the error for a line that is not as it was written."""
    return UserError(
        f"Line {number} of {path} is not a result as it was written ({why}); take it from another "
        "copy, or remove it."
    )


def is_json(text: bytes) -> bool:
    """Return whether a line was written to its end."""
    try:
        parse_json(text)
    except ValueError:
        return False
    return True
