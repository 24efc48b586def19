"""The log of a run: one JSON line for each finished epoch.

write_log(folder, history, "error_percent"); lines = read_log(folder)
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capsnet.errors import UserError
from capsnet.files import parse_json, write_text
from capsnet.training.outcome import Epoch

LOG = "log.jsonl"


def write_log(
    folder: Path, history: Sequence[Epoch], metric: str, taken: int | None = None
) -> None:
    """Write all epochs; the line of the one whose weights are kept, if not the last, says so."""
    lines = [epoch.to_json(metric) for epoch in history]
    for line in lines:
        if line["epoch"] == taken:
            line["taken"] = True
    write_text(folder / LOG, "".join(json.dumps(line) + "\n" for line in lines))


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's log; a UserError if there is none."""
    path = folder / LOG
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for without end
            raise ValueError("it is a folder, a pipe or a device")
        lines = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"There is no {path}; give the folder of a run.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); use another copy.") from error
    if not lines or not all(isinstance(line, dict) and "epoch" in line for line in lines):
        raise UserError(f"{path} tells of no finished epoch; train longer.")
    return lines
