"""A verb on several devices of this machine: one process each, as torchrun would start them.

@on_devices
def train(config: Settings, devices: int = 1) -> int: …

torch's own launchers tell what went wrong in tracebacks, and wait half a minute for processes that
have nothing left to do; these few lines are what is needed of them on one machine.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from capsnet.cli.command import guarded, say
from capsnet.errors import UserError

Verb = Callable[..., int]
GRACE = 20.0  # seconds for the others to end, once one has died


def on_devices(verb: Verb) -> Verb:
    """Let a verb run in as many processes as its `devices` say, or as torchrun has started."""

    @wraps(verb)
    def spread(**given: Any) -> int:
        from capsnet.training.distributed.world import joined

        devices = given.get("devices", 1)
        if to_be_launched(devices):
            return launch(devices, spread, given)
        settings = given.get("config")
        with joined(settings.device if settings else given.get("device", "auto")):
            return verb(**given)

    return spread


def to_be_launched(devices: int) -> bool:
    """Whether the processes for these devices are still to be started."""
    from capsnet.training.distributed.world import started_together

    if devices < 1:
        raise UserError("devices must be at least 1.")
    if not started_together():
        return devices > 1
    started = int(os.environ["WORLD_SIZE"])
    if devices not in (1, started):
        raise UserError(f"torchrun has started {started} processes; leave --devices out.")
    return False


def launch(devices: int, verb: Verb, given: dict[str, Any]) -> int:
    """Call a verb in as many processes as there are devices; returns the largest status."""
    from torch.distributed import TCPStore

    from capsnet.training.distributed.world import LOST

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the one of this process
        "WORLD_SIZE": str(devices),
    }
    spawn = get_context("spawn")
    workers: list[SpawnProcess] = []
    answers: list[Connection] = []
    with forwarding(workers):
        for number in range(devices):
            answer, teller = spawn.Pipe(duplex=False)
            own = place | {"RANK": str(number), "LOCAL_RANK": str(number)}
            workers.append(spawn.Process(target=work, args=(own, verb, given, teller)))
            workers[-1].start()
            teller.close()
            answers.append(answer)
        follow(workers)
    said = []
    for number, answer in enumerate(answers):
        try:
            said.append(answer.recv())
        except EOFError as error:
            raise UserError(f"Process {number} of {devices} has died; {LOST}.") from error
    sentences = {sentence: None for _, mistakes in said for sentence in mistakes}
    for sentence in sentences:
        if LOST not in sentence or len(sentences) == 1:  # that another has ended is no cause
            say(sentence)
    return max(status for status, _ in said)


def work(place: dict[str, str], verb: Verb, given: dict[str, Any], teller: Connection) -> None:
    """Call the verb in a process of its own; tell its status and what went wrong."""
    os.environ.update(place)
    mistakes: list[str] = []
    status = guarded(lambda: verb(**given), tell=mistakes.append)
    teller.send((status, mistakes))


def follow(workers: Sequence[SpawnProcess]) -> None:
    """Wait until all processes have ended; where one was killed, the others are ended too."""
    alive = list(workers)
    while alive:
        wait([worker.sentinel for worker in alive])
        if any(worker.exitcode for worker in alive):
            end(alive)
        alive = [worker for worker in alive if worker.exitcode is None]


def end(workers: Sequence[SpawnProcess]) -> None:
    """Ask processes to end, and make them if they do not."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(GRACE)
        worker.kill()


@contextmanager
def forwarding(workers: Sequence[SpawnProcess]) -> Iterator[None]:
    """Pass signals on to the processes, which save and end by themselves."""
    from capsnet.training.stopping import SIGNALS

    def forward(number: int, frame: object) -> None:
        for worker in workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, number)

    before = [signal.signal(s, forward) for s in SIGNALS]
    try:
        yield
    finally:
        for s, handler in zip(SIGNALS, before, strict=True):
            signal.signal(s, handler)
