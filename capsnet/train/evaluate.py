"""Evaluation: every image once, in order, unaugmented.

evaluate(model, open_data("mnist", "test")).error_percent
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from capsnet.data import Stream
from capsnet.errors import UserError
from capsnet.models import Classifier
from capsnet.train.objectives import wrong


@dataclass(frozen=True)
class Evaluation:
    """Errors over a data set; an image with several labels is right only if all are found."""

    num_images: int
    num_wrong: int
    per_class_error_percent: tuple[float | None, ...]  # of the images that show it; None: no image

    @property
    def error_percent(self) -> float:
        """The share of wrong answers in per cent."""
        return 100 * self.num_wrong / self.num_images

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return {"error_percent": self.error_percent, **asdict(self)}


@torch.inference_mode()
def evaluate(
    model: Classifier,
    stream: Stream,
    batch_size: int = 256,
    precision: torch.dtype = torch.float32,
) -> Evaluation:
    """Return the errors of the model on all images of the stream."""
    check_fit(model, stream)
    model.eval()
    plan = stream.plan(None)
    errors = []
    labels = []
    autocast = torch.autocast(stream.device.type, precision, enabled=precision != torch.float32)
    for start in range(0, stream.num_samples, batch_size):
        batch = stream.batch({k: x[start : start + batch_size] for k, x in plan.items()})
        with autocast:
            output = model(batch.images)
        errors.append(wrong(output.lengths, batch.labels))
        labels.append(batch.labels)
    all_wrong, all_labels = torch.cat(errors), torch.cat(labels)
    of_class = [all_wrong[(all_labels == k).any(dim=1)] for k in range(stream.num_classes)]
    per_class = [float(100 * x.float().mean()) if len(x) else None for x in of_class]
    return Evaluation(len(all_wrong), int(all_wrong.sum()), tuple(per_class))


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
