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
        fields: dict[str, Any] = {"epoch": f"{epoch + 1}/{self.epochs}"}
        if numbers is not None:
            fields["numbers"] = numbers
        self.bar.update(self.task, completed=epoch * self.steps + step, **fields)

    def epoch_done(self, line: dict[str, Any]) -> None:
        """Report the numbers of a finished epoch."""
        numbers = describe(line)
        self.update(line["epoch"], 0, numbers)
        if not self.console.is_terminal:
            print(f"epoch {line['epoch']}/{self.epochs}  {numbers}", file=sys.stderr, flush=True)


def describe(line: dict[str, Any]) -> str:
    """Return loss, errors and speed as one short text."""
    parts = [f"loss {line['loss']:.4f}", f"train error {line['train_error_percent']:.2f} %"]
    if "validation_error_percent" in line:
        parts.append(f"validation error {line['validation_error_percent']:.2f} %")
    parts.append(f"{line['images_per_second']:,.0f} images/s")
    return "  ".join(parts)
