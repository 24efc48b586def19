"""TensorBoard on request: scalars, input and reconstructed images, the computation graph."""

import warnings
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from capsnet.data import Stream
from capsnet.errors import UserError, needs
from capsnet.models import Model
from capsnet.training.config import TrainConfig
from capsnet.training.distributed.world import leads
from capsnet.training.outcome import Epoch

NUM_IMAGES = 8


class Board:
    """Use as a context; does nothing unless the config asks for TensorBoard."""

    def __init__(self, config: TrainConfig, model: Model, stream: Stream) -> None:
        self.config, self.model, self.stream = config, model, stream
        self.writer: Any = None

    def __enter__(self) -> Self:
        if self.config.tensorboard and leads():
            with needs("TensorBoard's files need tensorboard", extra="tensorboard"):
                from torch.utils.tensorboard import SummaryWriter
            folder = self.config.folder / "tensorboard"
            try:
                self.writer = SummaryWriter(folder)
            except OSError as error:
                raise UserError(
                    f"Could not write {folder}: {error.strerror}; choose a folder you can write to."
                ) from error
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the tracer's, about shapes that never change
                self.writer.add_graph(_Answers(self.model), self._images())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.writer is not None:
            self.writer.close()

    def epoch(self, epoch: Epoch) -> None:
        """Write the numbers of an epoch, and what the model makes of a few images."""
        if self.writer is None:
            return
        for name, value in epoch.to_json(self.model.task.metric).items():
            if name != "epoch":
                self.writer.add_scalar(name, value, epoch.epoch)
        images = self._images()
        self.writer.add_images("input", images, epoch.epoch)
        if (artist := self.model.draws) is not None:
            with torch.no_grad():
                pictures = artist.reconstruct(self.model(images).v)
            self.writer.add_images("reconstruction", pictures, epoch.epoch)

    def _images(self) -> Tensor:
        plan = self.stream.plan(None)
        return self.stream.batch({name: x[:NUM_IMAGES] for name, x in plan.items()}).images


class _Answers(nn.Module):
    """The model as the graph writer wants it: tensor in, tensor out."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).answers
