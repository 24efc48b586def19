"""What came of a tuning: its trials, the best of them, and what made the difference.

tuned = sum_up(study, config, space); tuned.best.figure, tuned.default.figure, tuned.importance
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from capsnet.errors import UserError
from capsnet.training.config import TrainConfig
from capsnet.tuning.space import Space, value_in, with_values

# Attributes of a trial.
DEFAULT = "default"  # it has the settings as they were given
METRIC = "metric"
SECONDS = "seconds"
NOTE = "note"  # why it did not come to its end

PAGE, WINNER = "report.html", "best.json"
ENOUGH = 10  # finished trials from which something can be said of importance


@dataclass(frozen=True)
class Tried:
    """One trial that is over: what it tried, and its validation figure."""

    number: int
    values: dict[str, Any]
    figure: float | None  # that of the last epoch if it was given up; None: of no epoch
    is_finished: bool
    is_default: bool
    epochs: int
    seconds: float  # of training
    note: str


@dataclass(frozen=True)
class Tuned:
    """A study as it stands: `best` and `default` are among the trials."""

    study: str
    folder: Path
    config: TrainConfig  # as given
    space: Space
    metric: str
    trials: tuple[Tried, ...]
    best: Tried
    default: Tried | None  # None: it did not come to its end
    importance: dict[str, float]  # share of the differences that a setting explains; may be empty

    @property
    def winner(self) -> TrainConfig:
        """The settings of the best trial."""
        return with_values(self.config, self.best.values)

    @property
    def page(self) -> Path:
        """The page that tells of the tuning."""
        return self.folder / PAGE

    @property
    def winner_file(self) -> Path:
        """The settings of the best trial, for `capsnet train --config`."""
        return self.folder / WINNER

    @property
    def words(self) -> str:
        """What the figure is called, with its unit."""
        return self.metric.replace("_percent", " in %").replace("_", " ")

    def to_json(self) -> dict[str, Any]:
        """Return the best and the default trial as plain JSON values."""
        return {
            "study": self.study,
            "trials": len(self.trials),
            "given_up": sum(not trial.is_finished for trial in self.trials),
            "metric": self.metric,
            "best": asdict(self.best),
            "default": None if self.default is None else asdict(self.default),
            "importance": self.importance,
            "page": str(self.page),
            "settings": str(self.winner_file),
        }

    def __str__(self) -> str:
        return (
            f"{' '.join(self.sentences)}\nWrote {self.page}. 'capsnet train --config "
            f"{self.winner_file}' trains the winner and reads the test set."
        )

    @property
    def sentences(self) -> list[str]:
        """The result in words."""
        count, figure = len(self.trials), f"validation {self.words}: {as_read(self.best.figure)}"
        if self.best.is_default:
            return [f"None of {count} trials is better than the settings as given ({figure})."]
        default = "not finished" if self.default is None else as_read(self.default.figure)
        chosen = ", ".join(f"{name} {as_read(x)}" for name, x in self.best.values.items())
        told = [
            f"Best of {count} trials, {figure}; the settings as given: {default}.",
            f"It has {chosen}.",
        ]
        if self.importance:
            name, part = next(iter(self.importance.items()))
            told.append(f"{name} made most of the difference ({100 * part:.0f} %).")
        return told


def as_read(value: Any) -> str:
    """Return a value with as many digits as one reads."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sum_up(study: optuna.Study, config: TrainConfig, space: Space) -> Tuned:
    """Return what came of the trials that are over; a UserError if none came to its end."""
    over = [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
    ]
    trials = tuple(_tried(trial, config, space) for trial in over)
    finished = [trial for trial in trials if trial.is_finished]
    if not finished:
        raise UserError("No trial has come to its end; ask for more --trials, or search elsewhere.")
    return Tuned(
        study.study_name,
        config.folder,
        config,
        space,
        next(trial.user_attrs[METRIC] for trial in over if METRIC in trial.user_attrs),
        trials,
        min(finished, key=lambda trial: (trial.figure, trial.number)),
        next((trial for trial in finished if trial.is_default), None),
        _importance(study, over, space),
    )


def _tried(trial: FrozenTrial, config: TrainConfig, space: Space) -> Tried:
    values = {name: trial.params.get(name, value_in(config, name)) for name in space}
    return Tried(
        trial.number,
        values,
        trial.value,
        trial.state == TrialState.COMPLETE,
        bool(trial.user_attrs.get(DEFAULT)),
        len(trial.intermediate_values),
        trial.user_attrs.get(SECONDS, 0.0),
        trial.user_attrs.get(NOTE, ""),
    )


def _importance(study: optuna.Study, over: list[FrozenTrial], space: Space) -> dict[str, float]:
    """Return the share of each setting in the differences; nothing where too little is known."""
    full = [t for t in over if t.state == TrialState.COMPLETE and space.keys() <= t.params.keys()]
    if len(full) < ENOUGH or len({trial.value for trial in full}) == 1:
        return {}
    return get_param_importances(
        study, evaluator=FanovaImportanceEvaluator(seed=0), params=list(space)
    )
