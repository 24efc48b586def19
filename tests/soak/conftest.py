"""Faults on purpose, counted: a few in `make test`, thousands in `make soak`, which writes a table.

Each test tries one fault so often; what it lost or got wrong stands in docs/reliability.md.
"""

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import pytest

from capsnet.errors import UserError

COUNTED = os.environ.get("CAPSNET_SOAK")  # the file that the counts are added to
FEWER = 40  # times fewer trials in `make test`
SECONDS = 60  # that one trial may take, on a busy machine too
MEMORY = 6 << 30  # bytes of address space, of which torch takes half before it does anything


class Late(BaseException):
    """A trial that takes too long: nothing that is tried takes this for a mistake of a file."""


@dataclass
class Tally:
    """How often a fault was tried, how often something was lost, and how often it went unsaid."""

    fault: str = ""
    tried: int = 0
    noticed: int = 0  # a sentence said it
    lost: int = 0
    wrong: int = 0

    def trials(self, fault: str, times: int) -> Iterator[Random]:
        """Yield a source of random choices for each trial; its seed is the number of the trial."""
        self.fault = fault
        for seed in range(times if COUNTED else max(1, times // FEWER)):
            self.tried += 1
            print(f"seed {seed}")  # of the trial that fails, shown by pytest
            yield Random(seed)

    def times(self, fault: str, many: int, few: int) -> int:
        """Return how often to try what a test counts by itself: many times in `make soak`."""
        self.fault = fault
        return many if COUNTED else few

    @contextmanager
    def sentence(self) -> Iterator[None]:
        """Count a UserError, and let nothing else or nothing endless pass."""

        def late(*_: object) -> None:
            raise Late(f"more than {SECONDS} s")

        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(SECONDS)
        try:
            yield
        except UserError:
            self.noticed += 1
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """Let a trial that asks for too much memory fail by itself."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def tally() -> Iterator[Tally]:
    counted = Tally()
    yield counted
    if COUNTED:
        with Path(COUNTED).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(counted)) + "\n")
