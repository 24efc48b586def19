"""What a person sees of a run: a live bar in a terminal, one line per epoch elsewhere."""

import sys
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


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
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)


def in_words(loss: float, told: str, speed: float) -> str:
    """Return loss, the task's metric as it tells it, and images per second as one short text."""
    return f"loss {loss:.4f}  train {told}  {speed:,.0f} images/s"
