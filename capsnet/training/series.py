"""A series: folds of one's own pictures and several seeds, each run with a CNN of its size beside.

outcome = train_series(TrainConfig(data="scans", folds=5, out=Path("runs/scans")), train_one)

Every run is a run like any other, in a folder of its own; one that is finished is not made again.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from capsnet.data import find_data
from capsnet.errors import UserError
from capsnet.files import read_json, write_text
from capsnet.models import create_model
from capsnet.models.weights import WEIGHTS, read_weights
from capsnet.tasks import Labels
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.config import SettledConfig, TrainConfig, differences
from capsnet.training.distributed.world import from_leader
from capsnet.training.outcome import Diverged, Interrupted, Member, Series

BASELINE = "baseline"  # the folder of the CNN beside a run
BASELINE_MODEL = "cnn_small"
BASELINE_MODELS = (BASELINE_MODEL, "cnn_modern")
SUMMARY = "summary.json"
WIDTHS = (*range(1, 16), *range(16, 64, 4), *range(64, 257, 16))

TrainOne = Callable[[TrainConfig], Any]


def is_series(config: TrainConfig) -> bool:
    """Whether the settings ask for more than one run."""
    return config.seeds > 1 or (config.folds > 0 and config.fold == 0)


def holds_series(folder: Path) -> bool:
    """Whether a folder holds runs in folders of their own, beside which no other run belongs."""
    return any(path.parent.name != BASELINE for path in folder.glob(f"*/{CHECKPOINT}"))


def train_series(config: TrainConfig, train_one: TrainOne) -> Series | Interrupted | Diverged:
    """Make all runs of a series that are not finished, and sum them up."""
    folder = config.folder
    held = from_leader(lambda: holds_series(folder))
    if held and not config.resume:
        raise UserError(
            f"{folder} already holds a series; continue it with --resume or choose another --out."
        )
    if not held and from_leader((folder / CHECKPOINT).exists):
        raise UserError(f"{folder} already holds a single run; choose another --out.")
    runs = []
    for part in parts(config):
        print(f"{part.folder.name}:", file=sys.stderr)
        outcome = train_with_baseline(part, train_one)
        if isinstance(outcome, Interrupted | Diverged):
            return outcome
        runs.append(outcome)
    series = Series(folder, config.model, config.data, tuple(runs))
    summary = json.dumps(series.to_json(), indent=2)
    from_leader(lambda: write_text(folder / SUMMARY, summary))
    return series


def parts(config: TrainConfig) -> Iterator[TrainConfig]:
    """Return the settings of each run of a series."""
    folds = range(1, config.folds + 1) if config.folds and not config.fold else (config.fold,)
    for fold in folds:
        for seed in range(config.seed, config.seed + config.seeds):
            names = [f"fold{fold}"] * (fold > 0) + [f"seed{seed}"] * (config.seeds > 1)
            out = config.folder / "-".join(names)
            yield replace(config, fold=fold, seed=seed, seeds=1, out=out)


def train_with_baseline(
    config: TrainConfig, train_one: TrainOne
) -> Member | Interrupted | Diverged:
    """Make one run and the CNN beside it, as far as they are not finished."""
    stopped = _finish(config, train_one)
    if stopped is not None:
        return stopped
    if (cut := train_baseline(config, train_one)) is not None:
        return cut
    return from_leader(lambda: _member(config))


def _member(config: TrainConfig) -> Member:
    metric, figure = _result(config.folder)
    beside = config.folder / BASELINE
    other = _result(beside)[1] if (beside / WEIGHTS).exists() else None
    return Member(config.folder, config.fold or None, config.seed, metric, figure, other)


def train_baseline(config: TrainConfig, train_one: TrainOne) -> Interrupted | None:
    """Make the CNN beside a finished run, if there is to be one and it is not finished."""
    beside = from_leader(lambda: baseline_config(config))
    if beside is None:
        return None
    print(f"a CNN beside {config.folder.name}:", file=sys.stderr)
    stopped = _finish(beside, train_one)
    if isinstance(stopped, Diverged):
        print(f"It is left out: {stopped}", file=sys.stderr)
        return None
    return stopped


def baseline_config(config: TrainConfig) -> TrainConfig | None:
    """Return the settings of a CNN to compare the finished run with; None: none.

    The model says which is made for it; otherwise it has as many parameters.
    """
    own = find_data(config.data)[0].own
    if config.baseline == "none" or (config.baseline == "auto" and not own):
        return None
    tensors, card = read_weights(config.folder / WEIGHTS)
    if not isinstance(card.task, Labels) or card.model in BASELINE_MODELS:
        return None  # it tells classes, and is no baseline to itself
    wanted = sum(x.numel() for x in tensors.values())
    shape = card.options["image_shape"]
    with torch.device("meta"):
        beside = create_model(card.model, **card.options).beside

    def distance(width: int) -> int:
        with torch.device("meta"):
            options = {"image_shape": shape, **(card.task.options if card.task else {})}
            model = create_model(BASELINE_MODEL, **options, channels=width)
        return abs(sum(p.numel() for p in model.parameters()) - wanted)

    name, options = beside or (BASELINE_MODEL, (f"channels={min(WIDTHS, key=distance)}",))
    usual = TrainConfig()
    return replace(
        config,
        model=name,
        options=options,
        reconstruction_weight=usual.reconstruction_weight,
        average_classes=usual.average_classes,
        start_from=None,
        freeze=False,
        baseline="none",
        out=config.folder / BASELINE,
    )


def _finish(config: TrainConfig, train_one: TrainOne) -> Interrupted | Diverged | None:
    """Make a run to its end, from where it is; None if it is finished."""
    started = from_leader((config.folder / CHECKPOINT).exists)
    if config.resume and from_leader(lambda: _is_finished(config)):
        return None
    outcome = train_one(replace(config, resume=config.resume and started))
    return outcome if isinstance(outcome, Interrupted | Diverged) else None


def _is_finished(config: TrainConfig) -> bool:
    """Whether the run in the folder is finished; with other settings, resuming says which."""
    if not (config.folder / WEIGHTS).exists():
        return False
    saved = read_json(config.folder / "config.json")
    given = {f.name: getattr(config, f.name) for f in fields(TrainConfig)}
    chosen = {name: saved.get(name) for name in ("batch_size", "epochs", "patience")}
    left = {name: x for name, x in chosen.items() if given[name] is None}
    return not differences(SettledConfig(**{**given, **left}), saved)


def _result(folder: Path) -> tuple[str, float]:
    """Return the name and value of the figure of a finished run."""
    result = read_json(folder / "result.json")
    for metric in ("error_percent", "mean_absolute_error"):
        if isinstance(result.get(metric), int | float):
            return metric, float(result[metric])
    raise UserError(f"{folder / 'result.json'} tells no result; make the run again.")
