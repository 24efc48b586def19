"""The training loop: steps, checkpoints, and one look at the test set at the end.

outcome = train(TrainConfig(model="capsnet_small", data="digits", epochs=20))
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil, isfinite

import torch

from capsnet.data import Own, Stream, ahead, cut
from capsnet.errors import UserError
from capsnet.files import clear_leftovers, locked, write_text
from capsnet.models.weights import WEIGHTS, Card, save_weights
from capsnet.plugins import load_plugins
from capsnet.provenance import device_name, versions
from capsnet.training.board import Board
from capsnet.training.checkpoint import (
    CHECKPOINT,
    Position,
    begun_by_this_job,
    data_in_words,
    load_checkpoint,
    save_checkpoint,
    saved_config,
)
from capsnet.training.config import SettledConfig, TrainConfig
from capsnet.training.device import pick_device, pick_precision
from capsnet.training.distributed.meeting import Meeting
from capsnet.training.distributed.norms import shared_norms
from capsnet.training.distributed.world import (
    from_leader,
    joined,
    leads,
    rank,
    require_alike,
    size,
    total,
    was_restarted,
)
from capsnet.training.evaluation import answer, check_fit, evaluate, measured
from capsnet.training.keeping import keep_answers, keep_pictures, keep_reference, open_pictures
from capsnet.training.log import write_log
from capsnet.training.norms import IMAGES, has_norms, refresh_norms
from capsnet.training.outcome import Diverged, Epoch, Finished, Interrupted, Outcome
from capsnet.training.patience import better, out_of_patience
from capsnet.training.planning import RunPlan, look_ahead, settle
from capsnet.training.progress import TrainProgress, WorkProgress, in_words
from capsnet.training.schedule import average_weight, learning_rate
from capsnet.training.series import is_series, train_baseline, train_series
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import TrainStep, epoch_plan, means, own_rows
from capsnet.training.stopping import Stop
from capsnet.training.watching import troubles

LOCK = ".lock"  # held by the process that trains into the folder
PROBE = 8  # training images whose primary capsules are looked at
OF_A_MACHINE = {"device", "data_folder", "plugin"}  # settings that processes may differ in
WATCHED = 5  # the epoch after which capsules should live and drawings differ
SATURATED = 0.99  # mean length from which a primary capsule says nothing by its length


class Broken(Exception):
    """The loss or the weights are no longer numbers."""


def train(config: TrainConfig) -> Outcome:
    """Train a model, evaluate it once, and write weights and result into the run's folder.

    Processes that torchrun started train one model together; each of them gets the outcome.

    Args:
        config: What to train, on what, how long and where: a `TrainConfig`.

    Returns:
        `Finished` (result, history, folder, …), `Interrupted` if a signal asked to stop and the
        state was saved, `Diverged` if the loss is no longer a number, or, of folds or several
        seeds, the `Series` of them. Each says itself in words by `str()` and has `to_json()`. A
        mistake in the settings raises a `UserError`.

    Example:
        >>> outcome = train(TrainConfig(model="capsnet_small", data="digits", epochs=20))
        >>> isinstance(outcome, Finished) and outcome.result.figure
        1.2
    """
    config.check()
    with joined(config.device):
        settings = config.to_json()
        require_alike({k: x for k, x in settings.items() if k not in OF_A_MACHINE} | versions())
        load_plugins(config.plugin)
        # Torchrun starts a job anew with the command of its first start.
        if (is_series(config) and was_restarted()) or from_leader(
            lambda: begun_by_this_job(config.folder)
        ):
            config = replace(config, resume=True)
        if is_series(config):
            return train_series(config, train_one)
        outcome = train_one(config)
        stopped = train_baseline(config, train_one) if isinstance(outcome, Finished) else None
        return stopped or outcome


Watch = Callable[[Epoch], None]  # called after each epoch; what it raises ends the run


def train_one(
    config: TrainConfig, watch: Watch = lambda epoch: None
) -> Finished | Interrupted | Diverged:
    """Make one run."""
    config.check()
    load_plugins(config.plugin)
    if config.exchange != "fp32" and size() == 1:
        raise UserError("One process exchanges nothing; leave --exchange out.")
    from_leader(lambda: check_folder(config))
    device = pick_device(config.device)
    precision = pick_precision(config.precision, device)
    own = open_pictures(config, device)
    stream = open_stream(config, "train", device, own)
    held = config.holdout if own is None else "validation" in own.splits
    validation = open_stream(config, "validation", device, own) if held else None
    saved = saved_config(config.folder) if config.resume else None
    config = settle(config, stream, validation, saved)
    split = b"" if own is None else own.split_text().encode(errors="surrogateescape")
    digest = sha256(split).hexdigest()[:16]
    require_alike({"device": device.type, "data": f"{data_in_words(stream)}, split {digest}"})
    torch.manual_seed(config.seed)
    model = build_model(config, stream).to(device)
    step = TrainStep(model, stream, config, precision)
    with ExitStack() as stack:
        lock = locked(config.folder / LOCK, wait=False)
        if not from_leader(lambda: stack.enter_context(lock)):
            raise UserError(f"Another process trains into {config.folder}; choose another --out.")
        from_leader(lambda: check_folder(config))  # again: another process may have come first
        if rank():  # what a model draws by chance, as dropout does, is another's in each process
            torch.manual_seed(config.seed * 1_000_003 + rank())
        position = load_checkpoint(config.folder, step, config) if config.resume else Position()
        try:
            return _train(config, step, position, validation, own, watch)
        except Broken:
            return Diverged(config.folder, from_leader(lambda: holds(config)))


def holds(config: TrainConfig) -> bool:
    """Whether the folder holds a run that was begun."""
    return (config.folder / CHECKPOINT).exists()


def check_folder(config: TrainConfig) -> None:
    """Raise a UserError unless the folder holds a run to resume, or none to overwrite."""
    folder, holds_run = config.folder, holds(config)
    if config.resume and not holds_run:
        raise UserError(f"There is no run to resume in {folder}; start it without --resume.")
    if holds_run and not config.resume:
        raise UserError(
            f"{folder} already holds a run; continue it with --resume or choose another --out."
        )


def _train(
    config: SettledConfig,
    step: TrainStep,
    position: Position,
    validation: Stream | None,
    own: Own | None,
    watch: Watch,
) -> Finished | Interrupted:
    folder, model, stream = config.folder, step.model, step.stream
    from_leader(lambda: begin_folder(config, own))
    layers = str(step.precision).removeprefix("torch.")
    plan = look_ahead(config, model, stream, validation, layers)

    with Stop() as stop, Board(config, model, stream) as board:
        run = Run(config, step, position, validation, stop, board, plan, watch)
        if size() > 1 and not config.resume:
            run.save()  # so that whatever becomes of the others, there is a run to go on with
        finished = run.go()
        run.save()
    if not finished:
        return Interrupted(folder)
    taken = run.take_weights()
    final = open_stream(config, config.final_split, step.device, own)
    check_fit(model, final)
    doing = f"evaluating ({config.final_split})"
    with WorkProgress(doing, final.num_samples, "images") as progress:
        said = answer(model, final, precision=step.precision, progress=progress)
    calibration = None
    if own is not None:
        calibration = keep_answers(
            model, validation, final, said, config.final_split, folder, step.precision
        )
    result = measured(final.task, said, calibration)
    outcome = Finished(
        model,
        folder,
        config.model,
        config.data,
        config.final_split,
        result,
        tuple(position.history),
        device_name(step.device),
        layers,
        taken,
        plan,
    )
    if not leads():
        return outcome
    facts = outcome.to_json()
    card = Card(
        model.name,
        model.options,
        stream.task,
        config.to_json(),
        facts,
        versions(),
        reading=None if own is None else own.stored.reading,
        calibration=calibration,
        more=keep_reference(model, validation or stream) if own is not None else {},
    )
    save_weights(model, folder / WEIGHTS, card)
    write_text(folder / "result.json", json.dumps(facts, indent=2))
    return outcome


def begin_folder(config: SettledConfig, own: Own | None) -> None:
    """Write what a run's folder holds before its first step."""
    clear_leftovers(config.folder)
    if own is not None:
        keep_pictures(own, config)
    write_text(config.folder / "config.json", json.dumps(config.to_json(), indent=2))


@dataclass
class Run:
    """One run under way: `go` does the steps that are left."""

    config: SettledConfig
    step: TrainStep
    position: Position
    validation: Stream | None
    stop: Stop
    board: Board
    plan: RunPlan
    watch: Watch

    def __post_init__(self) -> None:
        self.steps = ceil(self.step.stream.num_samples / self.config.batch_size)
        self.saved = time.monotonic()
        self.meet = Meeting()
        plan = self.step.stream.plan(None)
        self.probe = self.step.stream.batch({name: x[:PROBE] for name, x in plan.items()}).images

    def go(self) -> bool:
        """Run to the end of the last epoch; False if a signal asked to stop before it."""
        done = self.position.epoch * self.steps + self.position.step
        with TrainProgress(self.config.epochs, self.steps, done) as progress:
            progress.note("\n".join([str(self.plan), *self.position.notes]))
            while not self.is_over():
                speed = self.run_steps(progress)
                if self.position.step < self.steps:
                    return False
                self.finish_epoch(speed, progress)
                stop, save = self.meet.now(bool(self.stop), self.is_late())
                if save:
                    self.save()
                if stop and not self.is_over():
                    return False
        return True

    def is_late(self) -> bool:
        """Return whether it is time for a checkpoint."""
        return time.monotonic() - self.saved > self.config.checkpoint_seconds

    def is_over(self) -> bool:
        """Return whether all epochs are done, or validation says that it is time to stop."""
        goal, history = self.config.stop_at_error, self.position.history
        if goal is not None and history:
            reached = history[-1].validation
            if reached is not None and reached <= goal:
                return True
        if out_of_patience(history, self.config.patience):
            return True
        return self.position.epoch >= self.config.epochs

    def take_weights(self) -> int:
        """Put the weights to be kept into the model; returns the epoch that they are of."""
        if (best := self.position.best) is None:
            self.step.take_average()
            self.refresh_norms(self.position.epoch)
            return self.position.epoch
        self.step.model.load_state_dict(best.weights)
        return best.epoch

    def run_steps(self, progress: TrainProgress) -> float:
        """Run the steps that are left of the epoch, or until a stop; returns images per second."""
        config, step, position = self.config, self.step, self.position
        rows, total = config.batch_size, config.epochs * self.steps
        plan = epoch_plan(step.stream, config.seed, position.epoch, self.steps * rows)
        left = cut(self.steps * rows, rows, position.step * rows)
        parts = ahead(step.stream, plan, [own_rows(x) for x in left])
        step.model.train()
        began = timed_from = shown = time.monotonic()
        timed_images = 0
        while position.step < self.steps:
            done = position.epoch * self.steps + position.step
            steady = step.steady
            step(
                next(parts),
                learning_rate(config, done, total),
                average_weight(config, done),
                done,
            )
            self.stop.listen()
            position.step += 1
            timed_images += rows
            # What happens only once is not the speed of training.
            if step.steady and not steady and position.step < self.steps:
                step.wait()
                timed_from, timed_images = time.monotonic(), 0
            now = time.monotonic()
            numbers = None
            if not step.cuda and now - shown > 1:  # on a GPU, to look is to wait
                shown = now
                numbers = self.in_words(*step.sums_so_far(), timed_images / (now - timed_from))
            progress.update(position.epoch, position.step, numbers)
            if position.step < self.steps:
                stop, save = self.meet(bool(self.stop), self.is_late())
                if stop:
                    break
                if save:
                    position.seconds += time.monotonic() - began
                    self.save()
                    began = time.monotonic()
        parts.close()
        step.wait()
        position.seconds += time.monotonic() - began
        return timed_images / (time.monotonic() - timed_from)

    def finish_epoch(self, speed: float, progress: TrainProgress) -> None:
        """Report the numbers of the epoch and move on to the next."""
        position, task = self.position, self.step.model.task
        loss, miss = means(total(self.step.sums))
        _require_finite(loss, self.step)
        self.step.sums.zero_()
        position.epoch, position.step = position.epoch + 1, 0
        length, validation = self.primary_length(), None
        if length is not None and length > SATURATED and position.epoch == 1:
            progress.note(
                "All primary capsules have grown to length 1 and hardly shrink again; "
                "start anew with a larger --warmup-steps or a smaller --lr."
            )
        if position.epoch == min(WATCHED, self.config.epochs):
            with self.step.autocast:
                for sentence in troubles(self.step.model, self.probe):
                    progress.note(sentence)
        numbers = self.in_words(loss, miss, speed)
        if self.validation is not None:
            with self.step.averaged():
                model = self.step.model
                self.refresh_norms(position.epoch)
                validation = evaluate(model, self.validation, precision=self.step.precision).figure
                if self.config.patience:
                    position.best = better(position.best, position.epoch, validation, model)
            numbers += f"  validation {task.tell(validation)}"
        epoch = Epoch(
            position.epoch,
            loss,
            task.figure(miss),
            float(self.step.lr),
            speed,
            position.seconds,
            length,
            validation,
        )
        position.history.append(epoch)
        taken = None if position.best is None else position.best.epoch
        if leads():
            write_log(self.config.folder, position.history, task.metric, taken)
        self.board.epoch(epoch)
        progress.epoch_done(position.epoch, numbers)
        self.watch(epoch)

    def in_words(self, loss: float, miss: float, speed: float) -> str:
        """Return the numbers of training so far as the task tells them."""
        task = self.step.model.task
        return in_words(loss, task.tell(task.figure(miss)), speed)

    @torch.no_grad()
    def primary_length(self) -> float | None:
        """Return the mean length of the primary capsules, if there are any, for a few images."""
        placed = self.step.model.placed
        if placed is None:
            return None
        with self.step.autocast:
            u = placed.primary(self.probe)
        return float(torch.linalg.vector_norm(u.float(), dim=-1).mean())

    def refresh_norms(self, epoch: int) -> None:
        """Measure the statistics of norms, if there are any, with the weights as they are now."""
        step, size = self.step, self.config.batch_size
        if not has_norms(step.model):
            return
        count = min(ceil(IMAGES / size), self.steps)
        plan = epoch_plan(step.stream, self.config.seed, epoch, count * size)
        parts = ahead(step.stream, plan, [own_rows(x) for x in cut(count * size, size)])
        with step.autocast, shared_norms():
            refresh_norms(step.model, map(step.stream.batch, parts), step.progress)

    def save(self) -> None:
        """Write a checkpoint, unless training has gone wrong."""
        sums = total(self.step.sums)
        _require_finite(means(sums)[0], self.step)
        from_leader(
            lambda: save_checkpoint(self.config.folder, self.step, self.config, self.position, sums)
        )
        self.saved = time.monotonic()


def _require_finite(loss: float, step: TrainStep) -> None:
    # A step can leave broken weights behind a loss that was still a number.
    if not (isfinite(loss) and step.weights_are_finite()):
        raise Broken
