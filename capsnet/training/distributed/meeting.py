"""When processes that train together look at signals and clocks: all after the same step.

stop, save = meet(stop_asked, save_due)    # after each step

To meet costs a round trip over the network, so that quick steps are not followed by one each.
"""

import time

from capsnet.training.distributed.world import agree, size

SECONDS = 0.1  # between two meetings, about
MOST = 10_000  # steps between two meetings


class Meeting:
    """What any process wants, all do; a single one never waits."""

    def __init__(self) -> None:
        self.every, self.steps, self.last = 1, 0, time.monotonic()

    def __call__(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Return whether to stop and to save, after a step; mostly no, until it is time to meet."""
        self.steps += 1
        if size() > 1 and self.steps < self.every:
            return False, False
        return self.now(stop, save)

    def now(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Return whether any process wants to stop, and to save."""
        took = (time.monotonic() - self.last) / max(self.steps, 1)
        every = min(max(int(SECONDS / max(took, 1e-9)), 1), MOST)
        asked, due, self.every = agree(stop, save, every)
        self.steps, self.last = 0, time.monotonic()
        return bool(asked), bool(due)
