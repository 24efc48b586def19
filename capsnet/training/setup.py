"""What a run trains, and on what: the model and the data that its settings ask for.

stream = open_stream(config, "train", device); model = build_model(config, stream)
"""

from ast import literal_eval
from typing import Any

import torch

from capsnet.data import Augment, SplitName, Stream, find_data, open_data
from capsnet.errors import UserError
from capsnet.models import CapsNet, Classifier, create_model
from capsnet.training.config import TrainConfig


def open_stream(config: TrainConfig, split: SplitName, device: torch.device) -> Stream:
    """Return the training, validation or test data of a run; only training data is augmented."""
    augment = None
    if split == "train":
        entry = find_data(config.data)[0]
        if config.shift is not None and not entry.takes_shift:  # 0 would move them all the same
            raise UserError(f"{entry.name} moves its images by its own rules; leave --shift out.")
        shift = Augment.shift if entry.takes_shift else 0
        augment = Augment(
            shift if config.shift is None else config.shift,
            config.rotate,
            config.scale,
            config.shear,
            config.elastic,
            config.contrast,
        )
    return open_data(
        config.data,
        split,
        folder=config.data_folder,
        augment=augment,
        device=device,
        image_size=config.image_size,
        channels=config.channels,
        num_samples=config.num_samples if split == "train" else None,
        holdout=config.holdout,
        seed=config.data_seed,
    )


def build_model(config: TrainConfig, stream: Stream) -> Classifier:
    """Return the model of a run, made for the shape and classes of its data."""
    options: dict[str, Any] = {}
    for text in config.options:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"The option '{text}' has no value; write it as NAME=VALUE.")
        if name in ("image_shape", "num_classes", "pretrained"):
            raise UserError(
                f"A run makes new weights for the shape and classes of its data; leave {name} out."
            )
        if name in options:
            raise UserError(f"The option {name} is given twice; leave one out.")
        try:
            options[name] = literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            options[name] = value
    shape = tuple(stream.image_shape)
    return create_model(config.model, image_shape=shape, num_classes=stream.num_classes, **options)


def refuse_unused(config: TrainConfig, model: Classifier) -> None:
    """Raise a UserError for a setting that this model's loss would not look at."""
    if config.average_classes and model.objective != "margin":
        raise UserError(f"{config.model} has no margin loss; leave --average-classes out.")
    draws = isinstance(model, CapsNet) and model.decoder is not None
    if not draws and config.reconstruction_weight != TrainConfig.reconstruction_weight:
        raise UserError(f"{config.model} draws no pictures; leave --reconstruction-weight out.")
