"""The processes of a job: which of them this one is, what it takes on, and how all of them agree.

with joined("auto"): rows = share(100); figure = from_leader(read); stop = agree(stop)

torchrun says in the environment who is who. Without it a world has one process, and all of these
cost nothing. The first process leads: it alone writes, and it alone talks.
"""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from capsnet.errors import UserError

T = TypeVar("T")
ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
CONNECT = timedelta(seconds=60)  # until all processes have found each other
LOST = "a run goes on from its last checkpoint with --resume"
WAIT = timedelta(minutes=10)  # for a process that is alive and silent; a dead one is noticed sooner


def started_together() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in ENVIRONMENT) and _number("WORLD_SIZE") > 1


def job() -> str | None:
    """Return what torchrun calls this job; it stays when processes or machines are started anew."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return name if started_together() and name != "none" else None


def was_restarted() -> bool:
    """Whether torchrun has started this process anew after one had died."""
    return started_together() and _restarts() > 0


def size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def leads() -> bool:
    """Whether this process is the one that writes and talks."""
    return rank() == 0


def by_nccl() -> bool:
    """Whether GPUs talk to each other directly, not through their hosts."""
    return "nccl" in dist.get_backend_config()


def local_device() -> torch.device:
    """Return the GPU that is this process's own, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if not started_together():
        return torch.device("cuda")
    mine, there_are = _number("LOCAL_RANK"), torch.cuda.device_count()
    if mine >= there_are:
        raise UserError(
            f"This machine has {there_are} GPU{'s' * (there_are > 1)}; start that many processes, "
            "or let all share one with --device cuda:0."
        )
    return torch.device("cuda", mine)


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Be one of the processes that torchrun started; without it, or in another block, as it was.

    device: the setting; where it names one GPU, all processes of a machine share it, which NCCL
    cannot.
    """
    if not started_together() or dist.is_initialized():
        yield
        return
    gpus = device == "auto" and torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(local_device())
    _connect("cpu:gloo,cuda:nccl" if gpus else "gloo")
    with ExitStack() as quiet:
        if not leads():
            nowhere = quiet.enter_context(open(os.devnull, "w", encoding="utf-8"))
            quiet.enter_context(redirect_stdout(nowhere))
            quiet.enter_context(redirect_stderr(nowhere))
        try:
            yield
        except RuntimeError as error:
            if not _is_loss(error):
                raise
            raise UserError(f"Another process of this job has ended; {LOST}.") from error
        except UserError:
            _leave()
            raise
        _leave()


def _leave() -> None:
    gc.collect()  # what still holds the group would leave its threads to the end of Python,
    dist.destroy_process_group()  # where they can abort the process, whatever its status was


def _connect(backend: str) -> None:
    where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if not 0 <= _number("RANK") < _number("WORLD_SIZE"):
        raise UserError(
            f"There is no process {os.environ['RANK']} among {os.environ['WORLD_SIZE']}; let "
            "torchrun set RANK and WORLD_SIZE."
        )
    try:
        store, number, count = next(iter(dist.rendezvous("env://", timeout=CONNECT)))
        # What processes that have died wrote there must not be read by those in their places.
        store = dist.PrefixStore(f"start {_restarts()}", store)
        dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=WAIT)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"The {os.environ['WORLD_SIZE']} processes of this job did not find each other at "
            f"{where} within {CONNECT.seconds} s; check the address, and that all were started."
        ) from error


def _restarts() -> int:
    return (
        _number("TORCHELASTIC_RESTART_COUNT") if "TORCHELASTIC_RESTART_COUNT" in os.environ else 0
    )


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except ValueError as error:
        raise UserError(
            f"{name} is '{os.environ[name]}', no number; let torchrun set it."
        ) from error


def _is_loss(error: RuntimeError) -> bool:
    """Whether an error is that of a connection; Gloo's have no type of their own."""
    if size() == 1:
        return False
    words = ("gloo", "connection", "timed out", "nccl")
    return isinstance(error, dist.DistError) or any(w in str(error).lower() for w in words)


def share(num: int) -> slice:
    """Return which of `num` rows are this process's: one piece, as long as the others' or one more.

    Example:
        >>> share(100)  # the second of three processes
        slice(33, 66)
    """
    return slice(num * rank() // size(), num * (rank() + 1) // size())


def from_leader(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise its UserError, on every process; the leader does it."""
    if size() == 1:
        return work()
    said: list[Any] = [None, None]
    if leads():
        try:
            said = [work(), None]
        except UserError as error:
            said = [None, error]
    dist.broadcast_object_list(said)
    if said[1] is not None:
        raise said[1]
    found: T = said[0]
    return found


def agree(*wishes: int) -> Sequence[int]:
    """Return the largest of all processes' wishes, one by one."""
    if size() == 1:
        return wishes
    largest = torch.tensor(wishes)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return largest.tolist()


def total(x: Tensor) -> Tensor:
    """Return the sum over all processes of a small tensor, on the CPU."""
    summed = x.detach().cpu().clone()
    if size() > 1:
        dist.all_reduce(summed)
    return summed


def gathered(mine: T) -> list[T]:
    """Return what each process gives, in their order, on every process."""
    if size() == 1:
        return [mine]
    every: list[Any] = [None] * size()
    dist.all_gather_object(every, mine)
    return every


def together(work: Callable[[], T]) -> list[T]:
    """Return what `work` returns in each process; a UserError of one is raised in all."""
    try:
        mine: tuple[T | None, UserError | None] = (work(), None)
    except UserError as error:
        mine = (None, error)
    parts: list[Any] = gathered(mine)
    for _, mistake in parts:
        if mistake is not None:
            raise mistake
    return [found for found, _ in parts]


def require_alike(facts: dict[str, Any]) -> None:
    """Raise a UserError on every process unless all have the same facts."""
    for number, others in enumerate(gathered(facts)):
        apart = [name for name in facts if facts[name] != others.get(name)]
        if apart:
            told = f"{apart[0]}: {facts[apart[0]]} here, {others.get(apart[0])} in process {number}"
            raise UserError(
                f"The processes of this job were not started alike ({told}); give all of them the "
                "same command, data and versions."
            )
