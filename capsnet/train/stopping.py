"""Ctrl-C and terminations: a run saves and leaves after its step, or at once if asked again.

with stop_requests() as stop: …; if stop: save and leave
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds after which another Ctrl-C is a second one, and leaves at once


@contextmanager
def stop_requests() -> Iterator[list[float]]:
    """Give a list that fills when Ctrl-C or a termination asks the run to save and leave."""
    asked: list[float] = []
    signals = (signal.SIGINT, signal.SIGTERM)

    def ask(number: int, frame: object) -> None:
        if not asked:  # unbuffered: the signal may have come in the middle of a print
            os.write(2, b"\nStopping after this step; Ctrl-C again leaves without saving.\n")
        asked.append(time.monotonic())
        if number == signal.SIGINT and asked[-1] - asked[0] > PATIENCE:
            raise KeyboardInterrupt

    before = [signal.signal(s, ask) for s in signals]
    try:
        yield asked
    finally:
        for s, handler in zip(signals, before, strict=True):
            signal.signal(s, handler)
