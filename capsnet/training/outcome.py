"""What came of a run: finished, interrupted or diverged, and the line that each epoch leaves.

outcome = train(config); if isinstance(outcome, Finished): outcome.result.figure
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from capsnet.models import Model
from capsnet.tasks import LabelsResult, Result
from capsnet.training.evaluation import pack
from capsnet.training.planning import RunPlan


@dataclass(frozen=True)
class Epoch:
    """The numbers of one epoch; `train` and `validation` in the unit of the task's metric."""

    epoch: int  # counted from 1
    loss: float
    train: float
    lr: float
    images_per_second: float
    seconds: float  # of training so far
    primary_length: float | None = None  # mean length of the primary capsules, if there are any
    validation: float | None = None

    def to_json(self, metric: str) -> dict[str, Any]:
        """Return the line of the log, where the metric has its name."""
        line = {
            "epoch": self.epoch,
            "loss": self.loss,
            f"train_{metric}": self.train,
            "lr": self.lr,
            "images_per_second": self.images_per_second,
            "seconds": self.seconds,
            "primary_length": self.primary_length,
            f"validation_{metric}": self.validation,
        }
        return {name: x for name, x in line.items() if x is not None}

    @classmethod
    def from_json(cls, line: dict[str, Any], metric: str) -> "Epoch":
        """Return the epoch that a line of a log tells of; a ValueError if it tells none."""
        names = ["epoch", "loss", f"train_{metric}", "lr", "images_per_second", "seconds"]
        more = ["primary_length", f"validation_{metric}"]
        if not isinstance(line, dict) or type(line.get("epoch")) is not int:
            raise ValueError("no epoch is told")
        for name in names + [name for name in more if name in line]:
            if type(line.get(name)) not in (int, float):
                raise ValueError(f"{name} of epoch {line['epoch']} is no number")
        return cls(*(line[name] for name in names), *(line.get(name) for name in more))


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that came to its end: the model, its result on the final split, how it was made."""

    trained: Model = field(repr=False)
    folder: Path
    model: str
    data: str
    split: str
    result: Result
    history: tuple[Epoch, ...]
    device: str
    precision: str
    taken: int  # the epoch, counted from 1, whose weights these are
    plan: RunPlan  # what was said before the first step

    @property
    def seconds(self) -> float:
        """The time spent on training steps."""
        return self.history[-1].seconds

    @property
    def images_per_second(self) -> float:
        """The speed of the last epoch."""
        return self.history[-1].images_per_second

    def to_json(self) -> dict[str, Any]:
        """Return what result.json holds."""
        result = self.result.to_json()
        if isinstance(self.result, LabelsResult):
            result["wrong"] = pack(self.result.wrong.numpy())
        return {
            "model": self.model,
            "data": self.data,
            "split": self.split,
            **result,
            "seconds": self.seconds,
            "images_per_second": self.images_per_second,
            "device": self.device,
            "precision": self.precision,
            "taken_epoch": self.taken,
            "plan": self.plan.to_json(),
            "folder": str(self.folder),
        }

    def __str__(self) -> str:
        last = self.history[-1].epoch
        taken = f" of epoch {self.taken} of {last}" if self.plan.patience else ""
        return (
            f"{self.model} on {self.data}, {self.split}: {self.result} after {self.seconds:.1f} s "
            f"of training ({self.images_per_second:,.0f} images/s); weights{taken} in "
            f"{self.folder}."
        )


@dataclass(frozen=True)
class Interrupted:
    """A run that a signal stopped; its checkpoint says where."""

    folder: Path

    def to_json(self) -> dict[str, Any]:
        """Return what there is to say."""
        return {"interrupted": True, "folder": str(self.folder)}

    def __str__(self) -> str:
        return f"Stopped and saved in {self.folder}; the same command with --resume goes on."


@dataclass(frozen=True)
class Diverged:
    """A run whose loss or weights are no longer numbers."""

    folder: Path
    checkpoint_kept: bool  # whether an earlier, good state can be found in the folder

    def to_json(self) -> dict[str, Any]:
        """Return what there is to say."""
        return {"diverged": True, "folder": str(self.folder)}

    def __str__(self) -> str:
        kept = (
            f" The last good checkpoint is kept in {self.folder}." if self.checkpoint_kept else ""
        )
        return (
            "The loss is no longer a number; try smaller settings, first of all --lr, or "
            f"--precision fp32.{kept}"
        )


@dataclass(frozen=True)
class Member:
    """One run of a series: its figure, and that of the CNN beside it if there is one."""

    folder: Path
    fold: int | None
    seed: int
    metric: str
    figure: float
    baseline: float | None

    def to_json(self) -> dict[str, Any]:
        """Return what summary.json holds of it."""
        return {**asdict(self), "folder": self.folder.name}


@dataclass(frozen=True)
class Series:
    """Several runs of the same settings on other folds or seeds, all finished."""

    folder: Path
    model: str
    data: str
    runs: tuple[Member, ...]

    @property
    def figures(self) -> tuple[float, ...]:
        """The figure of each run."""
        return tuple(run.figure for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """Return what summary.json holds."""
        return {
            "model": self.model,
            "data": self.data,
            "folder": str(self.folder),
            "metric": self.runs[0].metric,
            "mean": mean(self.figures),
            "spread": spread(self.figures),
            "num_runs": len(self.runs),
            "runs": [run.to_json() for run in self.runs],
        }

    def __str__(self) -> str:
        beside = [run.baseline for run in self.runs if run.baseline is not None]
        other = f"; the CNN beside it {_told(beside)}" if beside else ""
        metric = self.runs[0].metric.replace("_percent", " in %").replace("_", " ")
        return (
            f"{self.model} on {self.data}, {metric}: {_told(self.figures)}{other}. "
            f"'capsnet report {self.folder}' tells more."
        )


def spread(figures: Sequence[float]) -> float | None:
    """Return the standard deviation of several figures; None of one."""
    return stdev(figures) if len(figures) > 1 else None


def _told(figures: Sequence[float]) -> str:
    wide = spread(figures)
    around = "" if wide is None else f" ± {wide:.2f}"
    return f"{mean(figures):.2f}{around} ({len(figures)} runs)"


Outcome = Finished | Interrupted | Diverged | Series
