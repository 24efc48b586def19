"""One run under way: its steps, epoch by epoch, what it says of them, and its checkpoints.

run = Run(config, step, position, validation, stop, board, plan, watch); finished = run.go()
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite

import torch

from capsnet.data import Stream, ahead, cut
from capsnet.training.board import Board
from capsnet.training.checkpoint import (
    Position,
    save_checkpoint,
)
from capsnet.training.config import SettledConfig
from capsnet.training.distributed.meeting import Meeting
from capsnet.training.distributed.norms import shared_norms
from capsnet.training.distributed.world import (
    from_leader,
    leads,
    total,
)
from capsnet.training.evaluation import evaluate
from capsnet.training.log import write_log
from capsnet.training.norms import IMAGES, has_norms, refresh_norms
from capsnet.training.outcome import Epoch
from capsnet.training.patience import better, out_of_patience
from capsnet.training.planning import RunPlan
from capsnet.training.progress import TrainProgress, in_words
from capsnet.training.schedule import average_weight, learning_rate
from capsnet.training.step import TrainStep, epoch_plan, means, own_rows
from capsnet.training.stopping import Stop
from capsnet.training.watching import troubles

PROBE = 8  # training images whose primary capsules are looked at
WATCHED = 5  # the epoch after which capsules should live and drawings differ
SATURATED = 0.99  # mean length from which a primary capsule says nothing by its length
Watch = Callable[[Epoch], None]  # called after each epoch; what it raises ends the run


class Broken(Exception):
    """The loss or the weights are no longer numbers."""


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
