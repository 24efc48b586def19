"""One training step: augment, forward, loss, backward, Adam, weight average.

On a GPU the whole step is captured once as a CUDA graph and replayed; nothing in it waits for
the host. Random choices come in as a slice of the epoch's plan, so the step itself has none
but dropout. Several processes each take a share of the slice, and torch's DistributedDataParallel
brings their gradients together while the backward pass goes on.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from capsnet.data import Stream
from capsnet.errors import UserError
from capsnet.models import Model, Output, Progress
from capsnet.tasks import Batch
from capsnet.training.adam import Adam
from capsnet.training.config import TrainConfig
from capsnet.training.device import keep_freed_memory
from capsnet.training.distributed.exchange import exchange_in_bf16
from capsnet.training.distributed.norms import shared_norms
from capsnet.training.distributed.world import by_nccl, share, size
from capsnet.training.planning import settle

WARM_UP = 3  # steps run eagerly before the capture, so that libraries choose their kernels
WARM_UP_TOGETHER = 11  # which DistributedDataParallel asks for


def answer_and_loss(model: Model, batch: Batch, progress: Progress) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch, and how far each answer is from its label [N]."""
    output = model(batch.images)
    shape = (len(batch.images), len(model.task.names))
    if not isinstance(output, Output):
        raise UserError(f"{model.name} gives no Output; let forward return Output(v, answers).")
    if output.answers.shape != shape:
        raise UserError(
            f"{model.name} gives answers {list(output.answers.shape)}; give one to each image for "
            f"each name, {list(shape)}."
        )
    misses = model.task.misses(output.answers, batch.labels)
    loss = model.loss(output, batch, progress)
    if not isinstance(loss, Tensor) or loss.dim() > 0:
        raise UserError(f"The loss of {model.name} is not one number; return a tensor [].")
    return loss, misses


def epoch_plan(stream: Stream, seed: int, epoch: int, num_rows: int) -> dict[str, Tensor]:
    """Return the order and augmentation of one epoch: a function of seed and epoch alone.

    Step k takes rows k * batch_size and on. The rows after the last image repeat the first, so
    that all batches are of one size.
    """
    generator = torch.Generator(stream.device).manual_seed(seed * 1_000_003 + epoch)
    plan = stream.plan(generator)
    rows = torch.arange(num_rows, device=stream.device) % stream.num_samples
    return {name: x[rows] for name, x in plan.items()}


def own_rows(rows: slice) -> slice:
    """Return which of a step's rows of a plan this process takes on."""
    mine = share(rows.stop - rows.start)
    return slice(rows.start + mine.start, rows.start + mine.stop)


def means(sums: Tensor) -> tuple[float, float]:
    """Return mean loss and miss from the sums [3] of loss, misses and images."""
    loss, misses, images = sums.tolist()
    return loss / max(images, 1), misses / max(images, 1)


class Lesson(nn.Module):
    """A model's answer and loss as one call, from which DistributedDataParallel knows its use."""

    def __init__(self, model: Model, compiled: bool) -> None:
        super().__init__()
        self.model = model
        self.answer = answer_and_loss
        if compiled:
            torch.compiler.reset()  # after eight models torch would compile no more, unsaid
            self.answer = torch.compile(answer_and_loss)

    def forward(self, batch: Batch, progress: Progress) -> tuple[Tensor, Tensor]:
        """Return loss and misses [N]."""
        return self.answer(self.model, batch, progress)


class TrainStep:
    """Holds what a step changes: weights, optimizer, average, and the sums of loss and misses."""

    def __init__(
        self,
        model: Model,
        stream: Stream,
        config: TrainConfig,
        precision: torch.dtype,
        graph: bool = True,
    ) -> None:
        self.model, self.stream, self.config = model, stream, settle(config, stream)
        self.precision = precision
        self.device = stream.device
        self.cuda = self.device.type == "cuda"
        self.use_graph = self.cuda and graph
        if not self.cuda:
            keep_freed_memory()
        if self.cuda or precision != torch.float32:
            # The layout the convolutions read: stored so, no weight is moved in a step.
            for module in model.modules():
                if isinstance(module, torch.nn.Conv2d):
                    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.autocast = torch.autocast(
            self.device.type, precision, enabled=precision != torch.float32, cache_enabled=False
        )
        self.params: list[Tensor] = list(model.parameters())
        self.lesson: nn.Module = Lesson(model, config.compile)
        # What the mean over this process's rows counts in the mean over all: 1 if rows are even.
        self.weight = 1.0
        if size() > 1:
            self._share_out()
        steps = ceil(stream.num_samples / self.config.batch_size)
        total = steps * self.config.epochs
        self.progress = Progress(torch.zeros((), device=self.device), steps, total)
        self.done = (
            0  # what the tensor above says: it counts by itself, so that no step must set it
        )
        self.lr = torch.tensor(config.lr, device=self.device)
        self.average_weight = torch.ones((), device=self.device)
        self.average = [p.detach().clone() for p in self.params] if config.averaging else []
        self.optimizer = Adam(
            self.params, self.lr, self.average, self.average_weight, config.weight_decay
        )
        self.sums = torch.zeros(3, dtype=torch.float64, device=self.device)  # loss, misses, images
        self.warm_up = WARM_UP if size() == 1 else WARM_UP_TOGETHER
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: dict[str, Tensor] = {}
        self.warmed_up = 0

    def _share_out(self) -> None:
        rows = self.config.batch_size
        if rows < 2 * size():
            raise UserError(
                f"A batch of {rows} images is too small to be shared by {size()} processes, each "
                f"of which takes two at least; give --batch-size {2 * size()} or more."
            )
        mine = share(rows)
        self.weight = (mine.stop - mine.start) * size() / rows
        # NCCL can be part of a CUDA graph; Gloo, where processes share a GPU, goes by the host.
        self.use_graph = self.use_graph and by_nccl()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer torch wants another word for it
            together = DistributedDataParallel(
                self.lesson,
                broadcast_buffers=False,  # norms are shared, so that all have the same ones
                gradient_as_bucket_view=True,
                static_graph=True,
            )
        if self.config.exchange == "bf16":
            together.register_comm_hook(None, exchange_in_bf16)
        self.lesson = together

    def __call__(
        self, plan: dict[str, Tensor], lr: float, average_weight: float, done: int | None = None
    ) -> None:
        """Train on the images that this slice of a plan describes, together with all processes.

        plan: The rows that are this process's own.
        done: the steps before this one, where it does not follow the last.
        """
        if done is not None and done != self.done:
            self.progress.step.fill_(done)
            self.done = done
        self.done += 1
        self.lr.fill_(lr)
        self.average_weight.fill_(average_weight)
        if not self.use_graph:
            self._run(plan)
        elif self.graph is not None:
            for name, value in plan.items():
                self.inputs[name].copy_(value)
            self.graph.replay()
        else:
            self._run_and_capture(plan)

    @property
    def steady(self) -> bool:
        """Whether all that happens once, in the first steps, is behind us."""
        return not self.use_graph or self.graph is not None

    def wait(self) -> None:
        """Wait until the device has done what it was told."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def sums_so_far(self) -> tuple[float, float]:
        """Return mean loss and miss of the epoch so far, of this process; waits for a GPU."""
        return means(self.sums)

    @torch.no_grad()
    def take_average(self) -> None:
        """Put the averaged weights, if there are any, in place of the last ones."""
        for mean, p in zip(self.average, self.params, strict=False):
            p.copy_(mean)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Look at the averaged weights within a block and go on with the last ones after it."""
        last = [p.detach().clone() for p in self.params] if self.average else []
        self.take_average()
        yield
        with torch.no_grad():
            for kept, p in zip(last, self.params, strict=False):
                p.copy_(kept)

    def weights_are_finite(self) -> bool:
        """Return whether the weights can still be trained; waits for a GPU."""
        return bool(torch.stack(torch._foreach_norm(self.params)).isfinite().all())

    def _run(self, plan: dict[str, Tensor]) -> None:
        batch = self.stream.batch(plan)
        with self.autocast, shared_norms():
            loss, misses = self.lesson(batch, self.progress)
        self.optimizer.zero_grad()
        (loss if self.weight == 1 else loss * self.weight).backward()
        self.optimizer.step()
        with torch.no_grad():
            count = misses.new_full((), len(misses), dtype=torch.float64)
            self.sums += torch.stack([loss.detach() * count, misses.sum(), count])
            self.progress.step.add_(1)

    def _run_and_capture(self, plan: dict[str, Tensor]) -> None:
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            self._run(plan)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.warmed_up += 1
        if self.warmed_up == self.warm_up:
            self.inputs = {name: value.clone() for name, value in plan.items()}
            graph = torch.cuda.CUDAGraph()
            # NCCL watches its work on a thread of its own, which may ask the GPU all the while.
            mode = "global" if size() == 1 else "thread_local"
            with torch.cuda.graph(graph, capture_error_mode=mode):
                self._run(self.inputs)
            self.graph = graph
