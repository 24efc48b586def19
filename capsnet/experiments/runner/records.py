"""Results on disk: one JSON line per finished run in results/NAME.jsonl; programs only add to it.

Several processes may add and read at once: who adds holds the lock of the file, who reads drops
half a line at its end. Each line carries its digest (capsnet/lines.py).

append(folder, record); records = read(folder, "table1")
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from capsnet.files import append_line, append_text, lock_of, locked
from capsnet.lines import damaged, is_json, read_sealed, sealed
from capsnet.options import check_values
from capsnet.training.config import WHERE, SettledConfig, TrainConfig

SEEDS = {"seed", "data_seed"}
RECORD_FILE = "record.json"  # in the folder of a run that is kept


@dataclass(frozen=True)
class Record:
    """One finished run."""

    experiment: str
    row: str
    seed: int
    config: dict[str, Any]
    result: dict[str, Any]
    commit: str | None
    device: str
    versions: dict[str, str | None]
    seconds: float  # from start to finish, measuring included
    date: str


Results = dict[str, list[Record]]


def settings(config: TrainConfig) -> dict[str, Any]:
    """Return what identifies a run, as it is after a trip through JSON.

    What is left to choose is for named data what it always was.
    """
    chosen = {name: getattr(SettledConfig, name) for name in ("epochs", "batch_size", "patience")}
    chosen["holdout"] = 0
    plain = {
        k: chosen.get(k) if v is None else v for k, v in config.to_json().items() if k not in WHERE
    }
    restored: dict[str, Any] = json.loads(json.dumps(plain))
    return restored


def same(config: TrainConfig, record: Record) -> bool:
    """Return whether the run was made with this config."""
    return settings(config) == complete(record).config


def complete(record: Record) -> Record:
    """Return the record with all settings of now; those it lacks were added since, at default."""
    return replace(record, config=settings(TrainConfig()) | record.config)


def marked(row: str, runs: list[Record], recipes: Callable[[int], dict[str, TrainConfig]]) -> str:
    """Return the row's name, with a mark if its runs were not made with its recipe of now."""
    up_to_date = all(row in (now := recipes(r.seed)) and same(now[row], r) for r in runs)
    return row if up_to_date else f"{row} (earlier settings)"


def digest(config: TrainConfig) -> str:
    """Return a short name of the settings, for the folder of a run."""
    return hashlib.sha256(json.dumps(settings(config), sort_keys=True).encode()).hexdigest()[:10]


def append(folder: Path, record: Record) -> None:
    """Add a run to the results of its experiment."""
    path = folder / f"{record.experiment}.jsonl"
    with locked(lock_of(path)):
        append_text(path, "")  # it may be the first run
        mend(path)
        append_line(path, sealed(asdict(record)))


def mend(path: Path) -> None:
    """End the last line, or remove it if it is half of one; the caller holds the lock.

    Half a line is left by a process killed while writing.
    """
    text = path.read_bytes()
    start = text.rfind(b"\n") + 1
    if is_json(text[start:]):
        append_line(path, "")
    else:
        os.truncate(path, start)


def require_writable(folder: Path, name: str) -> None:
    """Raise a UserError if a run could not be added to the results."""
    path = folder / f"{name}.jsonl"
    with locked(lock_of(path)):
        append_text(path, "")


def read(folder: Path, name: str) -> list[Record]:
    """Return all runs of an experiment, oldest first; half a line at the end is none."""
    path = folder / f"{name}.jsonl"
    records = []
    for number, facts in read_sealed(path):
        try:
            record = Record(**facts)
            check_values(get_type_hints(Record), vars(record))
        except (ValueError, TypeError) as error:
            raise damaged(path, number, error) from error
        records.append(record)
    return records


def current(records: list[Record]) -> dict[str, list[Record]]:
    """Return row -> runs made with the settings of the row's latest run, whatever their seeds."""
    latest = {r.row: _recipe(r) for r in records}
    rows: dict[str, list[Record]] = {row: [] for row in latest}
    for r in records:
        if _recipe(r) == latest[r.row]:
            rows[r.row].append(r)
    return rows


def values(records: list[Record], key: str) -> list[float]:
    """Return one number of each run that has it; runs that diverged have none."""
    return [r.result[key] for r in records if r.result.get(key) is not None]


def by_seed(records: list[Record], key: str) -> dict[int, float]:
    """Return seed -> one number of each run that has it."""
    return {r.seed: r.result[key] for r in records if r.result.get(key) is not None}


def _recipe(record: Record) -> dict[str, Any]:
    return {k: v for k, v in complete(record).config.items() if k not in SEEDS}
