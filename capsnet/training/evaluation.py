"""Evaluation: every image once, in order, unaugmented.

evaluate(model, open_data("mnist", "test")).error_percent
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from capsnet.data import Plan, Stream, ahead, cut
from capsnet.errors import UserError
from capsnet.models import Model
from capsnet.tasks import Calibration, Result, Task
from capsnet.training.distributed.world import gathered, share, size


class Answers(NamedTuple):
    """What a model says of all M images of a stream, on the CPU."""

    answers: Tensor  # [M, J]
    labels: Tensor  # [M, …]
    misses: Tensor  # [M], for classes: which are wrong


def evaluate(
    model: Model,
    stream: Stream,
    batch_size: int = 256,
    precision: torch.dtype = torch.float32,
    progress: Callable[[int], None] | None = None,
    calibration: Calibration | None = None,
) -> Result:
    """Measure a model on all images of a stream, by the task of the stream.

    Args:
        model: A model on the device of the stream.
        stream: Data of the model's shape and classes, such as `open_data("mnist", "test")`.
        batch_size: Images at a time.
        precision: Type that the layers compute in.
        progress: Called after each batch with the number of images done.
        calibration: What says from where on a class is said; by default the most probable is.

    Returns:
        The result of the stream's task: `LabelsResult` (error_percent, wrong [M], …) for classes,
        `NumbersResult` (mean_absolute_errors, r_squared) for numbers.

    Example:
        >>> model = create_model("capsnet_small", pretrained=True)
        >>> evaluate(model, open_data("digits", "test")).figure
        0.7
    """
    check_fit(model, stream)
    said = answer(model, stream, batch_size, precision, progress=progress)
    return measured(stream.task, said, calibration)


def measured(task: Task, said: Answers, calibration: Calibration | None) -> Result:
    """Return what answers are worth, decided as `predict` decides them where that is known."""
    answers = said.answers if calibration is None else calibration.marked(task, said.answers)
    return task.measure(answers, said.labels)


@torch.inference_mode()
def answer(
    model: Model,
    stream: Stream,
    batch_size: int = 256,
    precision: torch.dtype = torch.float32,
    plan: Plan | None = None,
    progress: Callable[[int], None] | None = None,
) -> Answers:
    """Return the model's answers to a plan of the stream, by default the fixed one.

    Several processes share the batches out, and each gets all answers.
    """
    model.eval()
    plan = plan or stream.plan(None)
    autocast = torch.autocast(stream.device.type, precision, enabled=precision != torch.float32)
    answers, labels = [], []
    parts = cut(stream.num_samples, batch_size)
    for k, rows in enumerate(ahead(stream, plan, parts[share(len(parts))]), 1):
        batch = stream.batch(rows)
        with autocast:
            answers.append(model(batch.images).answers.cpu())
        labels.append(batch.labels.cpu())
        if progress is not None:
            progress(min(k * size() * batch_size, stream.num_samples))
    every = gathered((answers, labels))
    said, true = (torch.cat([x for part in every for x in part[k]]) for k in (0, 1))
    return Answers(said, true, stream.task.misses(said, true))


def pack(wrong: np.ndarray) -> str:
    """Return which images were wrong as a short text, for a line of results."""
    return base64.b64encode(zlib.compress(np.packbits(wrong.astype(bool)).tobytes(), 9)).decode()


def unpack(text: str, num_images: int) -> np.ndarray:
    """Return the booleans [num_images] that `pack` wrote."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return np.unpackbits(bits, count=num_images).astype(bool)


def check_fit(model: Model, stream: Stream) -> None:
    """Raise a UserError if the images or the task of the stream are not the model's."""
    if tuple(stream.image_shape) != model.image_shape:
        raise UserError(
            f"The model takes images of shape {model.image_shape}, the data has "
            f"{tuple(stream.image_shape)}; choose data of the model's shape."
        )
    task = stream.task
    if not isinstance(task, model.tasks):
        raise UserError(
            f"{model.name} was not made for the task of the data, "
            f"{task.kind.replace('_', ' ')}; choose other data."
        )
    if len(task.names) != len(model.task.names):
        raise UserError(
            f"The model knows {len(model.task.names)} classes, the data has {len(task.names)}; "
            "choose data with the model's classes."
        )


def check_names(known: Sequence[str], stream: Stream) -> None:
    """Raise a UserError if the classes of the stream are as many as the model's, but others."""
    shown = list(stream.task.names)
    if len(known) == len(shown) and list(known) != shown:
        raise UserError(
            f"The model knows {', '.join(known)}, the data has {', '.join(shown)}; choose data "
            "with the model's classes."
        )
