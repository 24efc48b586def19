"""Evaluation: every image once, in order, unaugmented.

evaluate(model, open_data("mnist", "test")).error_percent
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from capsnet.data import Plan, Stream
from capsnet.errors import UserError
from capsnet.models import Classifier
from capsnet.training.objectives import wrong


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Errors over a data set; an image with several labels is right only if all are found."""

    wrong: Tensor  # [M], which images
    per_class_error_percent: tuple[float | None, ...]  # of the images that show it; None: no image

    @property
    def num_images(self) -> int:
        """The number of images."""
        return len(self.wrong)

    @property
    def num_wrong(self) -> int:
        """The number of wrong answers."""
        return int(self.wrong.sum())

    @property
    def error_percent(self) -> float:
        """The share of wrong answers in per cent."""
        return 100 * self.num_wrong / self.num_images

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        names = ("error_percent", "num_images", "num_wrong", "per_class_error_percent")
        return {name: getattr(self, name) for name in names}


class Answers(NamedTuple):
    """What a model says of all M images of a stream, on the CPU."""

    lengths: Tensor  # [M, J]
    labels: Tensor  # [M, L]
    wrong: Tensor  # [M]


def evaluate(
    model: Classifier,
    stream: Stream,
    batch_size: int = 256,
    precision: torch.dtype = torch.float32,
) -> Evaluation:
    """Return the errors of the model on all images of the stream."""
    check_fit(model, stream)
    answers = answer(model, stream, batch_size, precision)
    shows = [(answers.labels == k).any(dim=1) for k in range(stream.num_classes)]
    of_class = [answers.wrong[x] for x in shows]
    per_class = [float(100 * x.float().mean()) if len(x) else None for x in of_class]
    return Evaluation(answers.wrong, tuple(per_class))


@torch.inference_mode()
def answer(
    model: Classifier,
    stream: Stream,
    batch_size: int = 256,
    precision: torch.dtype = torch.float32,
    plan: Plan | None = None,
) -> Answers:
    """Return the model's answers to a plan of the stream, by default the fixed one."""
    model.eval()
    plan = plan or stream.plan(None)
    autocast = torch.autocast(stream.device.type, precision, enabled=precision != torch.float32)
    lengths, labels = [], []
    for start in range(0, stream.num_samples, batch_size):
        batch = stream.batch({k: x[start : start + batch_size] for k, x in plan.items()})
        with autocast:
            lengths.append(model(batch.images).lengths.cpu())
        labels.append(batch.labels.cpu())
    said, true = torch.cat(lengths), torch.cat(labels)
    return Answers(said, true, wrong(said, true))


def pack(wrong: np.ndarray) -> str:
    """Return which images were wrong as a short text, for a line of results."""
    return base64.b64encode(zlib.compress(np.packbits(wrong.astype(bool)).tobytes(), 9)).decode()


def unpack(text: str, num_images: int) -> np.ndarray:
    """Return the booleans [num_images] that `pack` wrote."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return np.unpackbits(bits, count=num_images).astype(bool)


def check_fit(model: Classifier, stream: Stream) -> None:
    """Raise a UserError if the images or classes of the stream are not the model's."""
    if tuple(stream.image_shape) != model.image_shape:
        raise UserError(
            f"The model takes images of shape {model.image_shape}, the data has "
            f"{tuple(stream.image_shape)}; choose data of the model's shape."
        )
    if stream.num_classes != model.num_classes:
        raise UserError(
            f"The model knows {model.num_classes} classes, the data has {stream.num_classes}; "
            "choose data with the model's classes."
        )


def check_names(known: Sequence[str], stream: Stream) -> None:
    """Raise a UserError if the classes of the stream are as many as the model's, but others."""
    shown = list(stream.classes)
    if len(known) == len(shown) and list(known) != shown:
        raise UserError(
            f"The model knows {', '.join(known)}, the data has {', '.join(shown)}; choose data "
            "with the model's classes."
        )
