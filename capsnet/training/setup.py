"""What a run trains, and on what: the model and the data that its settings ask for.

stream = open_stream(config, "train", device); model = build_model(config, stream)
"""

from ast import literal_eval
from collections.abc import Collection
from typing import Any

import torch

from capsnet.data import Augment, Own, SplitName, Stream, find_data, open_data
from capsnet.errors import UserError
from capsnet.models import Model, create_model, model_entry
from capsnet.training.config import TrainConfig


def open_stream(
    config: TrainConfig, split: SplitName, device: torch.device, own: Own | None = None
) -> Stream:
    """Return the training, validation or test data of a run; only training data is augmented.

    own: the pictures of the run, if they are the user's own and have been opened.
    """
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
        own=own,
    )


def build_model(config: TrainConfig, stream: Stream) -> Model:
    """Return the model of a run, made for the images and the task of its data."""
    entry = model_entry(config.model)
    task, known = stream.task, entry.parameters()
    if not isinstance(task, entry.model.tasks):
        asked = task.kind.replace("_", " ")
        raise UserError(
            f"{config.model} cannot be trained for what {config.data} asks, {asked}; choose "
            "another model or other data."
        )
    options: dict[str, Any] = {"image_shape": tuple(stream.image_shape), **task.options}
    # The settings of a loss belong to the model that has this loss.
    loss = {"reconstruction_weight": "draws no pictures", "average_classes": "has no margin loss"}
    for name, lack in loss.items():
        value, usual = getattr(config, name), getattr(TrainConfig, name)
        if name in known:
            options[name] = value
        elif value != usual:
            flag = name.replace("_", "-")
            raise UserError(f"{config.model} {lack}; leave --{flag} out.")
    model = create_model(config.model, **options, **given_options(config, options))
    if model.draws is None and config.reconstruction_weight != TrainConfig.reconstruction_weight:
        raise UserError(f"{config.model} draws no pictures; leave --reconstruction-weight out.")
    model.set_task(task)
    return model


def given_options(config: TrainConfig, taken: Collection[str]) -> dict[str, Any]:
    """Return the options of the model that the user gave as NAME=VALUE."""
    options: dict[str, Any] = {}
    for text in config.options:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"The option '{text}' has no value; write it as NAME=VALUE.")
        if name in ("pretrained", "image_shape", "num_classes", "ranges"):
            raise UserError(
                f"A run makes new weights for the shape and classes of its data; leave {name} out."
            )
        if name in taken:
            raise UserError(f"Give --{name.replace('_', '-')} instead of the option {name}.")
        if name in options:
            raise UserError(f"The option {name} is given twice; leave one out.")
        try:
            options[name] = literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            options[name] = value
    return options
