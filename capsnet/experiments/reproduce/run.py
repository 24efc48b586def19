"""Make the runs of an experiment that are not made yet, within a budget of time.

A run that is cut off by the budget or by Ctrl-C leaves a checkpoint in its folder; the next call
goes on from there. A run that has a line in results/NAME.jsonl is never made again.

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
from pathlib import Path
from statistics import median
from threading import Timer
from typing import Any, NamedTuple

from capsnet.errors import UserError, unknown_name
from capsnet.experiments.reproduce.catalogue import EXPERIMENTS
from capsnet.experiments.reproduce.experiment import Experiment, Trained
from capsnet.experiments.reproduce.figures import DRAWINGS, draw
from capsnet.experiments.reproduce.recipes import smoke as small
from capsnet.experiments.reproduce.records import (
    Record,
    append,
    describe_machine,
    digest,
    git_commit,
    mend,
    read,
    same,
    settings,
)
from capsnet.files import write_text
from capsnet.models.weights import find_model
from capsnet.train.checkpoint import CHECKPOINT
from capsnet.train.config import TrainConfig
from capsnet.train.device import pick_device, pick_precision
from capsnet.train.loop import Interrupted, train

RECORD = "record.json"  # in the folder of a run that is kept
SMOKE_IMAGES = 200
_KEPT = (
    "error_percent",
    "num_images",
    "num_wrong",
    "seconds",
    "images_per_second",
    "precision",
)


class Summary(NamedTuple):
    """What a call did: runs made, runs that were there already, runs still to be made."""

    made: int
    found: int
    left: int


class Planned(NamedTuple):
    """One run of an experiment."""

    row: str
    seed: int
    config: TrainConfig


def reproduce(
    name: str,
    seeds: int | None = None,
    minutes: float | None = None,
    results_folder: Path = Path("results"),
    runs_folder: Path = Path("runs/reproduce"),
    data_folder: Path | None = None,
    device: str = "auto",
    keep: bool = False,
    smoke: bool = False,
    commit: str | None = None,
    figures_folder: Path = Path("docs/figures"),
) -> Summary:
    """Make the missing runs of the experiment `name`, one JSON line each; or draw a figure.

    seeds: number of seeds per row instead of the experiment's own. minutes: no run is started
    that is not expected to end in this time, except the first one, which is cut off then. keep:
    leave the folders of finished runs, with their weights. smoke: a try-out on embedded digits.
    commit: of the code, where git cannot tell.
    """
    if name in DRAWINGS:
        draw(name, figures_folder)
        return Summary(1, 0, 0)
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, (*EXPERIMENTS, *DRAWINGS))
    if (seeds is not None and seeds < 1) or (minutes is not None and minutes <= 0):
        raise UserError("seeds and minutes must be greater than 0.")
    deadline = time.monotonic() + 60 * minutes if minutes is not None else None
    experiment = EXPERIMENTS[name]
    machine = describe_machine(pick_device(device))
    commit = commit or git_commit()
    mend(results_folder, name)
    records = read(results_folder, name)
    planned_runs = plan(experiment, seeds, smoke)
    todo = [x for x in planned_runs if not is_done(x, records)]
    made = 0
    for planned in todo:
        folder = runs_folder / run_name(planned.config)
        started, earlier = time.monotonic(), seconds_before(folder)
        if deadline is not None and (made or started >= deadline):
            guess = estimate(planned, records, machine["device"]) - earlier
            if started + max(guess, 0) >= deadline:
                continue  # a shorter one may still fit
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
            **describe_machine(pick_device(device)),
        )
        append(results_folder, record)
        records.append(record)
        made += 1
        if keep:
            write_text(folder / RECORD, json.dumps(asdict(record), indent=2))
        else:
            shutil.rmtree(folder, ignore_errors=True)
        gc.collect()  # a captured step holds memory of the device until it is gone
    return Summary(made, len(planned_runs) - len(todo), len(todo) - made)


def plan(experiment: Experiment, seeds: int | None, smoke: bool) -> list[Planned]:
    """Return all runs, the first seed of every row before the second of any."""
    most = seeds or max([experiment.seeds, *experiment.more_seeds.values()])
    runs = []
    for seed in range(most):
        for row, config in experiment.recipes(seed).items():
            if seed < (seeds or experiment.more_seeds.get(row, experiment.seeds)):
                runs.append(Planned(row, seed, small(config) if smoke else config))
    return runs


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


def make_run(
    experiment: Experiment, config: TrainConfig, deadline: float | None, at_most: int | None
) -> dict[str, Any] | None:
    """Train, or go on training, and measure; None if it was interrupted."""
    config = replace(config, resume=(config.folder / CHECKPOINT).exists())
    try:
        with interrupt_at(deadline):
            outcome = train(config)
    except KeyboardInterrupt:
        if deadline is None or time.monotonic() < deadline:
            raise
        return None  # the time was up between the last step and the result
    except UserError as error:
        if "no longer a number" not in str(error):
            raise
        return {"diverged": True}
    if isinstance(outcome, Interrupted):
        return None
    lines = (config.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(lines[-1])
    device = pick_device(config.device)
    model, _ = find_model(str(config.folder))
    trained = Trained(
        model.to(device), config, device, pick_precision(config.precision, device), at_most
    )
    return {
        **{key: outcome[key] for key in _KEPT},
        "epochs": last["epoch"],
        "loss": last["loss"],
        "train_error_percent": last["train_error_percent"],
        "validation_error_percent": last.get("validation_error_percent"),
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
    """Return the training time of a run's finished epochs, from earlier calls."""
    log = folder / "log.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return float(json.loads(lines[-1])["seconds"]) if lines else 0.0
