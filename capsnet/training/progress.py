"""What a person sees of work that takes long: a live bar in a terminal, elsewhere a line at times.

with WorkProgress("evaluating", 10_000, "images") as progress: evaluate(…, progress=progress)
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

QUIET_SECONDS = 2.0  # work that is done by then says nothing where there is no bar
SECONDS_BETWEEN_LINES = 10.0


class TrainProgress:
    """Use as a context; `update` within an epoch, `epoch_done` after it."""

    def __init__(self, epochs: int, steps: int, done: int) -> None:
        self.epochs, self.steps = epochs, steps
        # Messages go to stderr, so that --json has stdout to itself.
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(
            "train", total=epochs * steps, completed=done, epoch=f"1/{epochs}", numbers=""
        )

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def update(self, epoch: int, step: int, numbers: str | None = None) -> None:
        """Move the bar to a step within an epoch, with new numbers if there are any."""
        fields: dict[str, Any] = {"epoch": f"{min(epoch + 1, self.epochs)}/{self.epochs}"}
        if numbers is not None:
            fields["numbers"] = numbers
        self.bar.update(self.task, completed=epoch * self.steps + step, **fields)

    def epoch_done(self, epoch: int, numbers: str) -> None:
        """Report the numbers of a finished epoch."""
        self.update(epoch, 0, numbers)
        if not self.console.is_terminal:
            print(f"epoch {epoch}/{self.epochs}  {numbers}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Say something that should stay on the screen."""
        encoding = self.console.encoding  # the name of a class may be no text
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)


def in_words(loss: float, told: str, speed: float) -> str:
    """Return loss, the task's metric as it tells it, and images per second as one short text."""
    return f"loss {loss:.4f}  train {told}  {speed:,.0f} images/s"


class WorkProgress:
    """Use as a context; call it with the number done. Lines come also while a call is awaited.

    Args:
        doing: What is done, such as "evaluating".
        total: How much there is; None if that is not known (yet).
        unit: Of what, such as "images".
        clock: Returns seconds.

    Example:
        >>> with WorkProgress("reading", 2, "files") as progress:
        ...     progress(1)
    """

    def __init__(
        self,
        doing: str,
        total: int | None = None,
        unit: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.doing, self.total, self.unit, self.clock = doing, total, unit, clock
        self.done, self.now = 0, ""
        self.began = clock()
        self.due = self.began + QUIET_SECONDS
        self.lock, self.over = threading.Lock(), threading.Event()
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),  # names of files may hold brackets
            BarColumn(bar_width=None),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=2,  # drawing must not disturb what is timed
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task(self.in_words(), total=total)

    def __enter__(self) -> Self:
        self.bar.start()
        if self.bar.disable:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self.bar.stop()

    def __call__(self, done: int, total: int | None = None, now: str = "") -> None:
        """Say how much is done, how much there is if that is known now, and what comes next."""
        self.done, self.now = done, now
        self.total = self.total if total is None else total
        self.bar.update(self.task, description=self.in_words(), completed=done, total=self.total)
        self.tell()

    def in_words(self) -> str:
        """Return what is done and how much of it, as "evaluating: 256 of 10,000 images"."""
        now = f", now {self.now}" if self.now else ""
        if self.total is None:
            return f"{self.doing}{now}"
        count = f"{self.done:,} of {self.total:,} {self.unit}".rstrip()
        return f"{self.doing}: {count}{now}"

    def tell(self) -> None:
        """Print a line if there is no bar and it is time for one."""
        with self.lock:
            now = self.clock()
            if not self.bar.disable or now < self.due or self.over.is_set():
                return
            self.due = now + SECONDS_BETWEEN_LINES
            seconds = now - self.began
            print(f"{self.in_words()}, {seconds:.0f} s", file=sys.stderr, flush=True)

    def _watch(self) -> None:
        while not self.over.wait(0.5):
            self.tell()
