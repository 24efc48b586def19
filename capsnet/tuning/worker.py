"""A worker: takes trials of a study, one after the other, until as many are done as were asked for.

tuned = tune(TrainConfig(model="capsnet_small", data="digits", epochs=5), trials=20)

Workers share nothing but the storage. Each trial is a run, judged on the validation split after
each epoch; the first has the settings as they were given, which the others are measured by.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.options import LARGEST_SETTING
from capsnet.plugins import load_plugins
from capsnet.training.config import TrainConfig
from capsnet.training.loop import train_one
from capsnet.training.outcome import Diverged, Epoch, Interrupted
from capsnet.tuning.page import write_tuned
from capsnet.tuning.space import Space, read_space, starting_point, suggest, value_in, with_values
from capsnet.tuning.study import Storage, give_again, open_storage, open_study, reached, shown
from capsnet.tuning.tuned import DEFAULT, METRIC, NOTE, SECONDS, Tuned, as_read, sum_up

VALIDATION_SHARE = 1 / 6  # of the training images, as of one's own pictures
SHORTEST = 2  # seconds in which a worker can give a sign of life
POLL_SECONDS = 1.0  # between looks at what the others do
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


class Surplus(Exception):
    """A trial more than was asked for, as two workers took the last one at once."""


def tune(
    config: TrainConfig,
    trials: int,
    search: tuple[str, ...] = (),
    storage: str | None = None,
    study: str | None = None,
    lost_after: int = 60,
) -> Tuned:
    """Search for better settings until the study has so many finished trials, and sum it up.

    Args:
        config: What is fixed, and what the search starts from. `out` is the folder of the tuning.
        trials: How many trials the study is to have, whoever makes them.
        search: What is searched, as `read_space` reads it.
        storage: sqlite:///FILE or postgresql://USER@HOST/DATABASE; by default a file in the folder.
        study: The name of the study in the storage; by default MODEL-DATA.
        lost_after: Seconds without a sign of life after which a worker's trial is given out again.

    Returns:
        What was found; the page and the winner's settings are in the folder. Ctrl-C and SIGTERM
        give the trial back and raise KeyboardInterrupt.

    Example:
        >>> tune(TrainConfig(data="digits", epochs=5), trials=20).best.values
        {'lr': 0.004, …}
    """
    if trials < 1:
        raise UserError("trials must be at least 1.")
    if lost_after < SHORTEST:
        raise UserError(f"lost-after must be at least {SHORTEST} seconds.")
    load_plugins(config.plugin)
    config.check()
    folder = config.out or Path("runs") / f"tune-{config.model}-{Path(config.data).name}"
    config = validated(replace(config, out=folder))
    space = read_space(search, config)
    address = storage or f"sqlite:///{folder / 'study.db'}"
    name = study or f"{config.model}-{Path(config.data).name}"
    folder.mkdir(parents=True, exist_ok=True)
    kept = open_storage(address, lost_after)
    opened = open_study(kept, name, config, space, address)
    with reached(shown(address)):
        Worker(opened, kept, config, space, trials).work()
        tuned = sum_up(opened, config, space)
    write_tuned(tuned)
    return tuned


def validated(config: TrainConfig) -> TrainConfig:
    """Return the config with images set apart for validation; a UserError where that cannot be."""
    if config.resume:
        raise UserError("A tuning goes on by itself where it was; leave --resume out.")
    if config.seeds > 1 or (config.folds and not config.fold):
        raise UserError("Each trial is one run; leave --seeds out, and of --folds give one --fold.")
    if config.holdout == 0:
        raise UserError("Trials are judged on images set apart for it; give a larger --holdout.")
    if config.holdout is None and not config.shows_own_pictures:
        images = open_data(config.data, "train", folder=config.data_folder).split
        config = replace(config, holdout=round(VALIDATION_SHARE * len(images)))
        say(f"{config.holdout:,} of {len(images):,} training images judge the trials (--holdout).")
    return config


def say(text: str) -> None:
    """Tell the user what happens; stdout belongs to the result."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Worker:
    """One of those who make the trials of a study."""

    study: optuna.Study
    storage: Storage
    config: TrainConfig
    space: Space
    total: int
    taken: int = -1  # the number of the trial under way
    is_lost: bool = False  # whether another worker has it by now
    looked_at: frozenset[int] = frozenset()

    def work(self) -> None:
        """Make trials until there are enough, and wait for those of others."""
        if not any(is_default(trial) for trial in self.live()):
            point = starting_point(self.config, self.space)
            self.study.enqueue_trial(point, user_attrs={DEFAULT: True})
        waits = False
        with leaving():
            while len(done := [t for t in self.live() if t.state in DONE]) < self.total:
                self.heed_the_lost()
                live = self.live()
                is_free = any(trial.state == TrialState.WAITING for trial in live)
                if is_free or len(live) < self.total:
                    self.make_one()
                    self.publish()
                    waits = False
                    continue
                if not waits:
                    say(f"{len(done)} of {self.total} trials are done; others make the rest.")
                waits = True
                time.sleep(POLL_SECONDS)

    def publish(self) -> None:
        """Write the page as the study stands, to be looked at while it goes on."""
        if any(trial.state == TrialState.COMPLETE for trial in self.live()):
            write_tuned(sum_up(self.study, self.config, self.space))

    def live(self) -> list[FrozenTrial]:
        """Return the trials that are done, under way or waiting."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state != TrialState.FAIL]

    def heed_the_lost(self) -> None:
        """Give the trials of workers that have not been heard of to others."""
        running = [t for t in self.live() if t.state == TrialState.RUNNING]
        for trial in running:
            # A worker killed before its first beat would never be missed: who waits beats for it.
            if trial.number not in self.looked_at:
                self.storage.record_heartbeat(trial._trial_id)
        self.looked_at |= {trial.number for trial in running}
        optuna.storages.fail_stale_trials(self.study)

    def make_one(self) -> None:
        """Take a trial and make its run."""
        try:
            self.study.optimize(self.watched_run, n_trials=1, catch=(Surplus,))
        except KeyboardInterrupt:
            trial = self.study.get_trials()[self.taken]
            if trial.state == TrialState.FAIL and not self.is_lost:
                give_again(self.study, trial)
                say(f"Trial {self.taken} was given back; the same command goes on.")
            raise
        except (UpdateFinishedTrialError, ValueError):
            if not self.is_lost:
                raise
            say(f"trial {self.taken}: not heard of for too long, another worker has it now")

    def watched_run(self, trial: optuna.Trial) -> float:
        """Make the run of a trial, and note whether it was taken away on the way."""
        self.taken, self.is_lost = trial.number, False
        try:
            return self.run(trial)
        finally:
            self.is_lost = self.study.get_trials()[trial.number].state != TrialState.RUNNING

    def run(self, trial: optuna.Trial) -> float:
        """Make the run of a trial and return its validation figure."""
        before = [other for other in self.live() if other.number < trial.number]
        is_first = is_default(trial)
        if len(before) >= self.total or (is_first and any(map(is_default, before))):
            raise Surplus
        # By its number, so that no two workers draw the same and one alone draws the same again.
        self.study.sampler = TPESampler(seed=self.config.seed + trial.number, multivariate=False)
        point = starting_point(self.config, self.space) if is_first else self.space
        values = {name: suggest(trial, name, self.space[name]) for name in point}
        told = ", ".join(f"{name} {as_read(value)}" for name, value in values.items())
        say(f"trial {trial.number}{' (the settings as given)' * is_first}: {told}")
        with TemporaryDirectory(prefix=f"trial{trial.number}-", dir=self.config.out) as out:
            made = trial_config(self.config, values, Path(out))
            outcome = train_one(made, judge(trial, not is_first, value_in(made, "epochs")))
        if isinstance(outcome, Interrupted):
            raise KeyboardInterrupt
        if isinstance(outcome, Diverged):
            trial.set_user_attr(NOTE, "the loss was no longer a number")
            raise optuna.TrialPruned
        task, figure = outcome.trained.task, outcome.result.figure
        trial.set_user_attr(METRIC, task.metric)
        trial.set_user_attr(SECONDS, outcome.seconds)
        say(f"trial {trial.number}: validation {task.tell(figure)}")
        return figure


def judge(trial: optuna.Trial, is_given_up: bool, epochs: int | None) -> Callable[[Epoch], None]:
    """Return what judges a trial after each epoch.

    Args:
        trial: The trial.
        is_given_up: Whether it is given up if it is worse than most were at that epoch.
        epochs: Its epochs, if they are known; after the last there is nothing to be saved.
    """

    def look(epoch: Epoch) -> None:
        if epoch.validation is None:
            raise UserError("These pictures have none for validation; give a --holdout.")
        trial.report(epoch.validation, epoch.epoch)
        if is_given_up and epoch.epoch != epochs and trial.should_prune():
            trial.set_user_attr(SECONDS, epoch.seconds)
            trial.set_user_attr(NOTE, f"worse than most after epoch {epoch.epoch}")
            say(f"trial {trial.number}: given up, worse than most after epoch {epoch.epoch}")
            raise optuna.TrialPruned

    return look


def trial_config(config: TrainConfig, values: dict[str, Any], out: Path) -> TrainConfig:
    """Return the settings of a trial's run, which never sees the test set and leaves nothing.

    A trial that is lost starts anew, maybe elsewhere, and so needs no checkpoints.
    """
    return replace(
        with_values(config, values),
        final_split="validation",
        baseline="none",
        tensorboard=False,
        checkpoint_seconds=LARGEST_SETTING / 2,
        out=out,
    )


def is_default(trial: FrozenTrial | optuna.Trial) -> bool:
    """Whether a trial is that of the settings as they were given."""
    return bool(trial.user_attrs.get(DEFAULT))


@contextmanager
def leaving() -> Iterator[None]:
    """Let SIGTERM leave as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
