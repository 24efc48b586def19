"""The runs that a report is about: what each left in its folder, and its data opened again.

runs = open_runs(Path("runs/scans"), say); runs.done[0].test.answers
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import torch

from capsnet.data import SplitName, Stream
from capsnet.errors import UserError
from capsnet.files import read_json
from capsnet.measures.answered import Answered
from capsnet.models import Model
from capsnet.models.weights import SPLIT_FILE, WEIGHTS, Card, load_weights
from capsnet.options import check_values, tuples
from capsnet.plugins import load_plugins
from capsnet.tasks import Calibration, Sets
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import answer
from capsnet.training.keeping import open_pictures
from capsnet.training.log import read_log
from capsnet.training.outcome import Epoch
from capsnet.training.setup import open_stream

CONFIG = "config.json"
BASELINE = "baseline"  # the folder in a run's that holds the CNN beside it
PATHS = ("data_folder", "out")
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class RunData:
    """What a run was trained and tested on, unaugmented."""

    train: Stream
    validation: Stream | None
    test: Stream


@dataclass(frozen=True, eq=False)
class DoneRun:
    """A finished run: its settings, model, epochs, answers and data."""

    name: str  # of its folder within the report's; empty if it is the only one
    folder: Path
    config: TrainConfig
    model: Model
    card: Card
    history: tuple[Epoch, ...]
    validation: Answered | None
    test: Answered
    data: RunData
    checked: dict[str, Any]  # what the check of the data found, data.json

    @property
    def calibration(self) -> Calibration:
        """What was chosen on the validation pictures."""
        return self.card.calibration or Calibration()


@dataclass(frozen=True, eq=False)
class Runs:
    """All runs of a folder: the finished ones, their CNNs if all have one, and the unfinished."""

    folder: Path
    done: tuple[DoneRun, ...]
    cnns: tuple[DoneRun, ...]
    unfinished: tuple[str, ...]


def open_runs(folder: Path, say: Say = lambda text: None) -> Runs:
    """Read a run, or all runs of a folder of folds and seeds; a UserError if none is finished.

    say: called with what is done next.
    """
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; give the folder of a finished run.")
    places, unfinished = find_runs(folder)
    unfinished += unbegun(folder, places)
    if not places:
        hint = f"; finish {', '.join(unfinished)} with --resume" if unfinished else ""
        raise UserError(f"There is no finished run in {folder}{hint or '; give one that is'}.")
    done = tuple(_open(place, _name(place, folder), say) for place in places)
    if len({run.test.task.to_json()["kind"] + repr(run.test.task.names) for run in done}) > 1:
        raise UserError(f"The runs in {folder} have different classes; report on them one by one.")
    if isinstance(done[0].test.task, Sets):
        raise UserError(
            f"{folder} tells sets of objects, of which there is no report; see 'capsnet evaluate'."
        )
    cnns: tuple[DoneRun, ...] = ()
    if all((place / BASELINE / WEIGHTS).exists() for place in places):
        cnns = tuple(
            _open(place / BASELINE, run.name, say, run.data)
            for place, run in zip(places, done, strict=True)
        )
    return Runs(folder, done, cnns, unfinished)


def find_runs(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the folders of finished runs, and the names of unfinished ones."""
    if (folder / WEIGHTS).exists():
        return [folder], ()
    inner = sorted(
        (place for place in folder.iterdir() if (place / CONFIG).is_file()),
        key=lambda place: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", place.name)],
    )
    if (folder / CONFIG).is_file() and not inner:
        return [], (folder.name,)
    done = [place for place in inner if (place / WEIGHTS).exists()]
    return done, tuple(place.name for place in inner if place not in done)


def unbegun(folder: Path, places: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of folds that the runs in a folder ask for, and that were never begun."""
    inner = [place for place in places if place != folder]
    wanted = max((config_of(read_json(place / CONFIG)).folds for place in inner), default=0)
    begun = {place.name.split("-")[0] for place in folder.iterdir()}
    return tuple(name for k in range(wanted) if (name := f"fold{k + 1}") not in begun)


def config_of(facts: dict[str, Any]) -> TrainConfig:
    """Return the settings that a run saved; those it does not know are at their default."""
    known = {field.name for field in fields(TrainConfig)}
    given = {name: tuples(x) for name, x in facts.items() if name in known}
    try:
        given |= {n: Path(given[n]) for n in PATHS if given.get(n) is not None}
        given |= {"plugin": tuple(map(Path, given.get("plugin", ())))}
        check_values(get_type_hints(TrainConfig, include_extras=True), given)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"The {CONFIG} of a run is damaged ({error}); make the run again."
        ) from error
    return TrainConfig(**given)


def _name(place: Path, folder: Path) -> str:
    return "" if place == folder else place.name


def _open(folder: Path, name: str, say: Say, data: RunData | None = None) -> DoneRun:
    say(f"reading {folder.name}")
    config = config_of(read_json(folder / CONFIG))
    load_plugins(config.plugin)
    model, card = load_weights(folder / WEIGHTS)
    data = data or open_run_data(config, folder)
    final, kept = config.final_split, folder / "answers-validation.npz"
    validation = Answered.load(kept) if kept.exists() and final != "validation" else None
    kept = folder / f"answers-{final}.npz"
    if kept.exists():
        test = Answered.load(kept)
        _check_pictures(test, data.test, config.data)
    else:
        test = answered(model, data.test, final, say)
    checked = folder / "data.json"
    return DoneRun(
        name,
        folder,
        config,
        model.cpu().eval(),
        card,
        _history(folder, data.test.task.metric),
        validation,
        test,
        data,
        read_json(checked) if checked.exists() else {},
    )


def open_run_data(config: TrainConfig, folder: Path) -> RunData:
    """Return the data of a run as it was divided then."""
    device = torch.device("cpu")
    if (folder / SPLIT_FILE).exists():
        split = str(folder / SPLIT_FILE)
        config = replace(config, split_from=split, allow_leak=True, folds=0, fold=0)
    own = open_pictures(config, device)
    names: list[SplitName] = ["train", config.final_split]
    train, test = (open_stream(config, name, device, own) for name in names)
    validation = None
    held = config.holdout if own is None else "validation" in own.splits
    if held and config.final_split != "validation":
        validation = open_stream(config, "validation", device, own)
    return RunData(train, validation, test)


def answered(model: Model, stream: Stream, prefix: str, say: Say) -> Answered:
    """Return what a model says of all pictures of a stream."""
    num = stream.num_samples
    said = answer(model, stream, progress=lambda n: say(f"answering, {n:,} of {num:,} pictures"))
    files, groups = names_of(stream, prefix)
    return Answered(stream.task, said.answers.numpy(), said.labels.numpy(), files, groups)


def _check_pictures(test: Answered, stream: Stream, name: str) -> None:
    """Raise a UserError if the pictures of a run are no longer those that it answered."""
    there = names_of(stream, "")[0] if stream.split.files else test.files
    gone = sorted({*test.files} - {*there})
    if gone or len(test) != stream.num_samples:
        such = f" ({gone[0]!a} is gone)" if gone else ""
        raise UserError(
            f"The pictures of {name} are others than when the run was made{such}; bring them back, "
            "or train again."
        )


def names_of(stream: Stream, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the file and the group of each picture; numbers where they have no file."""
    num = stream.num_samples
    files, groups = stream.split.files, stream.split.groups
    if len(files) != num:
        files = tuple(f"{prefix} {k}" for k in range(num))
    return files, groups if len(groups) == num else files


def _history(folder: Path, metric: str) -> tuple[Epoch, ...]:
    try:
        return tuple(Epoch.from_json(line, metric) for line in read_log(folder))
    except (UserError, ValueError, KeyError, TypeError):
        return ()  # the report then has no learning curves, and says so
