"""The contract of a model: images in, one vector and one answer per class or number out.

class Mine(Model): forward, loss; abilities (abilities.py) by having their methods.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from capsnet.errors import UserError
from capsnet.layers.routings import Routing
from capsnet.models.abilities import Chained, Draws, Embeds, Placed, Traced
from capsnet.tasks import Batch, Labels, OneLabel, Pairs, SeveralLabels, Task


class Output(NamedTuple):
    """What a model says of N images: a vector and an answer for each of J classes or numbers.

    Example:
        >>> v = torch.rand(2, 10, 16) / 16
        >>> Output(v, v.norm(dim=-1)).lengths.shape
        torch.Size([2, 10])
    """

    v: Tensor  # [N, J, E], the capsules; for a CNN [N, J, 1], the logits
    answers: Tensor  # [N, J], the probability of each class, or each number

    @property
    def lengths(self) -> Tensor:
        """The answers of a model whose answers are the lengths of its capsules, [N, J]."""
        return self.answers


_pytree._register_namedtuple(Output, serialized_type_name="capsnet.models.Output")


@dataclass(frozen=True)
class Progress:
    """How far a run is, for losses that change on the way.

    `step` is a tensor on the device, because a step may be captured once and replayed: compute
    with it, and do not ask for its value.

    Example:
        >>> Progress.at(step=50, total_steps=200).share
        tensor(0.2500)
    """

    step: Tensor  # [], the steps done
    steps_per_epoch: int
    total_steps: int

    @classmethod
    def at(cls, step: int, total_steps: int, steps_per_epoch: int = 1) -> "Progress":
        """Return the progress after so many steps, for a loop of one's own."""
        return cls(torch.tensor(float(step)), steps_per_epoch, total_steps)

    @property
    def epoch(self) -> Tensor:
        """The epochs done, a whole number as a tensor []."""
        return (self.step / self.steps_per_epoch).floor()

    @property
    def share(self) -> Tensor:
        """The part of the run that is done, 0 to 1, a tensor []."""
        return self.step / self.total_steps


class Model(nn.Module, ABC):
    """Abstract: images [N, C, H, W] in [0, 1] -> Output, for a task, with a loss of its own.

    A final model has options for its task in its signature: `num_classes` (OneLabel, Pairs,
    SeveralLabels) or `ranges` (Numbers), beside `image_shape`.
    """

    tasks: ClassVar[tuple[type[Task], ...]]  # the kinds of task it can be trained for
    head: ClassVar[tuple[str, ...]] = ()  # the modules that other classes or images make anew
    rebuild: ClassVar[dict[str, Any]] = {}  # options that are others where weights are read
    task: Task  # what it is, or was, trained for
    name: str  # set by create_model, with options: what rebuilds the same model
    options: dict[str, Any]

    def __init__(self, image_shape: tuple[int, int, int], task: Task) -> None:
        super().__init__()
        c, h, w = image_shape
        self.image_shape, self.task = (c, h, w), task
        self.name, self.options = type(self).__name__, {}
        self.trains: tuple[str, ...] | None = None  # the modules that are not frozen; None: all
        # The model to be compared with, its options as NAME=VALUE; None: a small CNN of its size.
        self.beside: tuple[str, tuple[str, ...]] | None = None

    @abstractmethod
    def forward(self, images: Tensor) -> Output:
        """Return what the model says of images [N, C, H, W]."""

    @abstractmethod
    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return what training makes small, a tensor [], averaged over the batch."""

    if TYPE_CHECKING:

        def __call__(self, images: Tensor) -> Output:  # noqa: D102
            ...

    @property
    def draws(self) -> Draws | None:
        """The model as one that draws pictures, if it can."""
        return self if isinstance(self, Draws) else None

    @property
    def traced(self) -> Traced | None:
        """The model as one whose routing can be followed, if it can."""
        followed = all(x.is_traced for x in self.modules() if isinstance(x, Routing))
        return self if isinstance(self, Traced) and followed else None

    @property
    def placed(self) -> Placed | None:
        """The model as one whose primary capsules have a place in the image, if they have."""
        return self if isinstance(self, Placed) else None

    @property
    def embeds(self) -> Embeds | None:
        """The model as one with hidden features, if it has them."""
        return self if isinstance(self, Embeds) else None

    @property
    def chained(self) -> Chained | None:
        """The model as a chain of layers, if it is one."""
        return self if isinstance(self, Chained) else None

    def set_task(self, task: Task) -> None:
        """Say what the model is trained for; a UserError if it is made for something else."""
        if not isinstance(task, self.tasks):
            kinds = " or ".join(kind.kind.replace("_", " ") for kind in self.tasks)
            raise UserError(
                f"{self.name} answers with {kinds}, but {task.kind.replace('_', ' ')} is asked "
                "for; choose another model or other data."
            )
        if len(task.names) != len(self.task.names):
            raise UserError(
                f"{self.name} gives {len(self.task.names)} answers, but {len(task.names)} are "
                "asked for; choose data with the model's classes."
            )
        self.task = task

    def freeze(self, trains: tuple[str, ...] | None = None) -> None:
        """Keep everything but the modules `trains`, by default the head, as it is in training."""
        trains = self.head if trains is None else trains
        if not trains:
            raise UserError(
                f"{self.name} does not say what its head is, so that all of it would be frozen; "
                "leave --freeze out, or name its modules in `head`."
            )
        self.trains = trains
        for name, p in self.named_parameters():
            p.requires_grad_(p.requires_grad and _within(name, trains))
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; what is frozen stays in that of evaluation, so that no statistic moves."""
        super().train(mode)
        if mode and self.trains is not None:
            for name, module in self.named_modules():
                around = any(head.startswith(f"{name}.") for head in self.trains)
                state = [*module.parameters(), *module.buffers()]
                if name and state and not around and not _within(name, self.trains):
                    module.eval()
        return self

    def check(self, images: Tensor) -> None:
        """Raise a UserError if these are not images for this model."""
        if images.dim() != 4 or images.shape[1:] != self.image_shape:
            raise UserError(
                f"The model takes images [N, {', '.join(map(str, self.image_shape))}], not "
                f"{list(images.shape)}; give images of its shape."
            )
        if not images.is_floating_point():
            raise UserError(f"The model takes images in 0 … 1, not {images.dtype}; divide by 255.")


class Classifier(Model):
    """Abstract: a model whose answers are the probabilities of classes."""

    tasks: ClassVar[tuple[type[Task], ...]] = (OneLabel, Pairs, SeveralLabels)
    task: Labels

    def __init__(self, image_shape: tuple[int, int, int], num_classes: int) -> None:
        if num_classes < 2:
            raise UserError(f"A classifier needs at least two classes, not {num_classes}.")
        super().__init__(image_shape, OneLabel.numbered(num_classes))

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.task.names)


def _within(name: str, modules: tuple[str, ...]) -> bool:
    """Return whether a parameter or module is one of these modules or lies in one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def conv_size(size: int, kernel: int, stride: int) -> int:
    """Return the side left by an unpadded convolution; a UserError if the kernel does not fit."""
    if size < kernel:
        raise UserError(
            f"A {kernel}×{kernel} kernel does not fit a {size}×{size} picture; "
            "give larger images or a model with smaller kernels."
        )
    return (size - kernel) // stride + 1
