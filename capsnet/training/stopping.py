"""Ctrl-C, terminations, closed terminals: a run saves and leaves after its step, or at once.

with Stop() as stop: …; stop.listen(); if stop: save and leave
"""

import os
import signal
import stat
import time
from contextlib import suppress
from types import FrameType

from capsnet.training.distributed.world import leads

HANG_UP = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has no such signal
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([HANG_UP] if HANG_UP else []))
PATIENCE = 1.0  # seconds after which another Ctrl-C is a second one, and leaves at once


class Stop:
    """Whether a signal has asked the run to save and leave."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __enter__(self) -> "Stop":
        self.before = [signal.getsignal(s) for s in SIGNALS]
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for s, handler in zip(SIGNALS, self.before, strict=True):
            signal.signal(s, handler)

    def __bool__(self) -> bool:
        return bool(self.asked)

    def listen(self) -> None:
        """Take the signals, to be done again after each step.

        When Triton compiles a kernel, its compiler puts handlers before ours. They pass a signal
        on, but a process that gets two at once, as from `timeout`, often dies in between.
        """
        for s, handler in zip(SIGNALS, self.before, strict=True):
            if s != HANG_UP or handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(s, self.ask)

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Note the wish, and leave at once where it is not the first."""
        if number == HANG_UP:
            _write_nowhere()
        if not self.asked and leads():
            # Unbuffered: the signal may have come in the middle of a print.
            with suppress(OSError):  # whoever started us may have closed it
                os.write(2, b"\nStopping after this step; Ctrl-C again leaves without saving.\n")
        self.asked.append(time.monotonic())
        if number == signal.SIGINT and self.asked[-1] - self.asked[0] > PATIENCE:
            raise KeyboardInterrupt


def _write_nowhere() -> None:
    """Let what would be written to a terminal that is gone vanish, instead of failing."""
    with open(os.devnull, "wb") as nowhere, suppress(OSError):
        for stream in (1, 2):
            if stat.S_ISCHR(os.fstat(stream).st_mode):
                os.dup2(nowhere.fileno(), stream)
