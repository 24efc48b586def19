"""Make the runs of an experiment that are not made yet, within a budget of time.

A run that is cut off by the budget or by Ctrl-C leaves a checkpoint in its folder; the next call
goes on from there. A run that has a line in results/NAME.jsonl is never made again. Processes
that are given the same folders share the work: who makes a run holds its lock.

summary = reproduce("table1", minutes=9)
"""

import gc
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from statistics import median
from threading import TIMEOUT_MAX, Timer
from typing import Any, NamedTuple

from capsnet.errors import UserError, unknown_name
from capsnet.experiments.catalogue import EXPERIMENTS
from capsnet.experiments.drawings import DRAWINGS, draw
from capsnet.experiments.recipes import smoke as small
from capsnet.experiments.runner.experiment import Experiment, Trained
from capsnet.experiments.runner.records import (
    RECORD_FILE,
    Record,
    append,
    digest,
    read,
    require_writable,
    same,
    settings,
)
from capsnet.files import locked, write_text
from capsnet.models.tensor_file import read_record
from capsnet.provenance import device_name, git_commit, machine
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.config import TrainConfig
from capsnet.training.device import pick_device, pick_precision
from capsnet.training.loop import train_one
from capsnet.training.outcome import Diverged, Interrupted

RESULTS = Path("results")  # where `report` looks
SMOKE_RESULTS = Path("runs/smoke")
LOCKS = ".locks"  # in the folder of all runs: an empty file for each that was ever taken
SMOKE_IMAGES = 200
MAX_SEEDS = 1_000
_KEPT = (
    "error_percent",
    "num_images",
    "num_wrong",
    "wrong",
    "seconds",
    "images_per_second",
    "precision",
)


class Summary(NamedTuple):
    """What a call did: runs made, runs found made, runs left.

    elsewhere: how many of those left other processes were seen making; there may be more.
    """

    made: int
    found: int
    left: int
    elsewhere: int = 0


class Planned(NamedTuple):
    """One run of an experiment."""

    row: str
    seed: int
    config: TrainConfig


def reproduce(
    name: str,
    seeds: int | None = None,
    minutes: float | None = None,
    results: Path | None = None,
    runs: Path = Path("runs/reproduce"),
    data_folder: Path | None = None,
    device: str = "auto",
    keep: bool = False,
    smoke: bool = False,
    commit: str | None = None,
    figures_folder: Path = Path("docs/figures"),
    rows: tuple[str, ...] | None = None,
) -> Summary:
    """Make the missing runs of the experiment `name`, one JSON line each; or draw a figure.

    seeds: number of seeds per row, counted from 0, instead of the experiment's own. minutes: no
    run is started that is not expected to end in this time, except the first one, which is cut
    off then. results: by default RESULTS, of a try-out SMOKE_RESULTS. keep: leave the
    folders of finished runs, with their weights. smoke: a try-out on embedded digits. commit: of
    the code, where git cannot tell. rows: the only rows to make.
    """
    given = locals()
    if name in DRAWINGS:
        refuse_unused(name, given)
        draw(name, figures_folder)
        return Summary(1, 0, 0)
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, (*EXPERIMENTS, *DRAWINGS))
    if seeds is not None and not 1 <= seeds <= MAX_SEEDS:
        raise UserError(f"seeds must be 1 to {MAX_SEEDS:,}.")
    if minutes is not None and not 0 < 60 * minutes <= TIMEOUT_MAX:
        raise UserError(
            "minutes must be greater than 0 and not endless; leave it out for no limit."
        )
    if rows == ():
        raise UserError("No row was named; name one or more, or leave rows out to make all.")
    results = results or (SMOKE_RESULTS if smoke else RESULTS)
    deadline = time.monotonic() + 60 * minutes if minutes is not None else None
    experiment = EXPERIMENTS[name]
    on = device_name(pick_device(device))
    commit = commit or git_commit()
    planned_runs = plan(experiment, seeds, smoke, rows)
    todo, made = planned_runs, 0
    while True:
        records = read(results, name)
        todo = wanted = [x for x in todo if not is_done(x, records)]
        now = time.monotonic()
        if deadline is not None and (made or now >= deadline):
            known = (records, on, runs)
            wanted = [x for x in todo if now + seconds_to_go(x, *known) < deadline]
        with take(wanted, name, results, runs) as (planned, elsewhere):
            if planned is None:
                break
            require_writable(results, name)
            folder = runs / run_name(planned.config)
            started, earlier = time.monotonic(), seconds_before(folder)
            config = replace(planned.config, out=folder, data_folder=data_folder, device=device)
            print(f"{name}: {planned.row}, seed {planned.seed}", file=sys.stderr, flush=True)
            result = make_run(experiment, config, deadline, SMOKE_IMAGES if smoke else None)
            if result is None:
                break
            record = Record(
                experiment=name,
                row=planned.row,
                seed=planned.seed,
                config=settings(config),
                result=result,
                commit=commit,
                seconds=earlier + time.monotonic() - started,
                **machine(pick_device(device)),
            )
            append(results, record)
            made += 1
            todo = [x for x in todo if x is not planned]
            if keep:
                write_text(folder / RECORD_FILE, json.dumps(asdict(record), indent=2))
            elif not (folder / RECORD_FILE).exists():  # a sharing experiment may keep it
                shutil.rmtree(folder, ignore_errors=True)
        if on != "cpu":
            gc.collect()  # a captured step holds memory of the device until it is gone
    records = read(results, name)
    left = sum(not is_done(x, records) for x in planned_runs)
    return Summary(made, len(planned_runs) - left - made, left, min(elsewhere, left))


def refuse_unused(name: str, given: dict[str, Any]) -> None:
    """Raise a UserError for options given to `reproduce` that a drawing does not look at."""
    used = ("name", "figures_folder")
    options = signature(reproduce).parameters.items()
    unused = [key for key, o in options if key not in used and given[key] != o.default]
    if unused:
        names = ", ".join(unused).replace("_", "-")
        raise UserError(f"{name} is drawn and makes no runs; leave {names} out.")


def plan(
    experiment: Experiment, seeds: int | None, smoke: bool, rows: tuple[str, ...] | None = None
) -> list[Planned]:
    """Return all runs, or those of some rows, the first seed of every row before the second."""
    known = list(experiment.recipes(0))
    for row in rows or ():
        if row not in known:
            names = ", ".join(f"'{x}'" for x in known)
            raise UserError(f"{experiment.name} has no row '{row}'; choose from: {names}.")
    most = seeds or max([experiment.seeds, *experiment.own_seeds.values()])
    runs = []
    for seed in range(most):
        for row, config in experiment.recipes(seed).items():
            enough = seeds or experiment.own_seeds.get(row, experiment.seeds)
            if seed < enough and row in (rows or known):
                runs.append(Planned(row, seed, small(config) if smoke else config))
    return runs


@contextmanager
def take(
    runs: list[Planned], name: str, results_folder: Path, runs_folder: Path
) -> Iterator[tuple[Planned | None, int]]:
    """Hold the first run that is free, None if none is; and count those that others were making.

    A run is free if no living process makes it and none has made it since the runs were chosen.
    """
    elsewhere = 0
    for planned in runs:
        with locked(runs_folder / LOCKS / run_name(planned.config), wait=False) as held:
            if not held:
                elsewhere += 1
            elif not is_done(planned, read(results_folder, name)):
                yield planned, elsewhere
                return
    yield None, elsewhere


def is_done(planned: Planned, records: list[Record]) -> bool:
    """Return whether there is a result of this run."""
    return any(r.row == planned.row and same(planned.config, r) for r in records)


def run_name(config: TrainConfig) -> str:
    """Return the name of a run's folder: the same for experiments that share the run."""
    return f"{config.model}-{config.data}-seed{config.seed}-{digest(config)}"


def estimate(planned: Planned, records: list[Record], device: str) -> float:
    """Return the seconds a run will take: like other seeds of its row, or the slowest row."""
    known = [r for r in records if r.device == device]
    row = [r.seconds for r in known if r.row == planned.row]
    return median(row) if row else max((r.seconds for r in known), default=0.0)


def seconds_to_go(planned: Planned, records: list[Record], device: str, runs_folder: Path) -> float:
    """Return the seconds a run will take from where it stands."""
    before = seconds_before(runs_folder / run_name(planned.config))
    return max(0.0, estimate(planned, records, device) - before)


def make_run(
    experiment: Experiment, config: TrainConfig, deadline: float | None, at_most: int | None
) -> dict[str, Any] | None:
    """Train, or go on training, and measure; None if the time was up before the end."""
    config = replace(config, resume=(config.folder / CHECKPOINT).exists())
    try:
        with interrupt_at(deadline):
            outcome = train_one(config)
        if isinstance(outcome, Interrupted):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        if deadline is None or time.monotonic() < deadline:
            raise
        return None
    if isinstance(outcome, Diverged):
        return {"diverged": True}
    result, last = outcome.to_json(), outcome.history[-1]
    device = pick_device(config.device)
    trained = Trained(
        outcome.trained, config, device, pick_precision(config.precision, device), at_most
    )
    return {
        **{key: result[key] for key in _KEPT},
        "epochs": last.epoch,
        "loss": last.loss,
        "train_error_percent": last.train,
        "validation_error_percent": last.validation,
        **experiment.measure(trained),
    }


@contextmanager
def interrupt_at(deadline: float | None) -> Iterator[None]:
    """Ask training to save and leave at a time, as Ctrl-C does."""
    if deadline is None:
        yield
        return
    timer = Timer(max(0.0, deadline - time.monotonic()), signal.raise_signal, [signal.SIGINT])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def seconds_before(folder: Path) -> float:
    """Return the training time of a run, from earlier calls."""
    try:
        seconds = read_record(folder / CHECKPOINT).get("seconds")
    except UserError:  # nothing done yet, or all of it, by another process, this moment
        return 0.0
    return seconds if isinstance(seconds, float) else 0.0
