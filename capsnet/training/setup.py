"""What a run trains, and on what: the model and the data that its settings ask for.

stream = open_stream(config, "train", device); model = build_model(config, stream)
"""

import copy
from ast import literal_eval
from collections.abc import Collection
from dataclasses import fields
from math import isclose
from typing import Any

import torch

from capsnet.data import Augment, BalancedStream, Own, SplitName, Stream, find_data, open_data
from capsnet.errors import UserError
from capsnet.models import Model, Progress, create_model, model_entry
from capsnet.models.weights import start_from
from capsnet.training.config import TrainConfig


def open_stream(
    config: TrainConfig, split: SplitName, device: torch.device, own: Own | None = None
) -> Stream:
    """Return the training, validation or test data of a run; only training data is augmented.

    own: the pictures of the run, if they are the user's own and have been opened.
    """
    augment = augment_of(config) if split == "train" else None
    stream = open_data(
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
    if split != "train" or config.balance == "none":
        return stream
    return BalancedStream(stream, config.balance)


def augment_of(config: TrainConfig) -> Augment:
    """Return how the settings move and tone training images."""
    entry = find_data(config.data)[0]
    if config.shift is not None and not entry.takes_shift:  # 0 would move them all the same
        raise UserError(f"{entry.name} moves its images by its own rules; leave --shift out.")
    names = [field.name for field in fields(Augment) if field.name != "shift"]
    usual = Augment.shift if entry.takes_shift else 0
    shift = usual if config.shift is None else config.shift
    return Augment(shift, **{name: getattr(config, name) for name in names})


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
    options |= given_options(config, options)
    if config.start_from is None:
        model = create_model(config.model, **options)
    else:
        model = start_from(config.start_from, config.model, options, task)
        if config.freeze:
            model.freeze()
    weighed = config.reconstruction_weight != TrainConfig.reconstruction_weight
    # What draws slots draws no single class, which is what `draws` stands for.
    if weighed and model.draws is None and getattr(model, "decoder", None) is None:
        raise UserError(f"{config.model} draws no pictures; leave --reconstruction-weight out.")
    model.set_task(task)
    if config.balance == "loss":
        check_weighing(model, stream)
    return model


@torch.no_grad()
def check_weighing(model: Model, stream: Stream) -> None:
    """Raise a UserError unless the model's loss heeds what a batch says that its images count."""
    batch = stream.batch({name: x[:2] for name, x in stream.plan(None).items()})
    asked = copy.deepcopy(model).to(stream.device).eval()
    progress = Progress(torch.zeros((), device=stream.device), 1, 1)
    output, ones = asked(batch.images), torch.ones(len(batch.images), device=stream.device)
    one, three = (
        float(asked.loss(output, batch._replace(weights=k * ones), progress)) for k in (1, 3)
    )
    if not isclose(3 * one, three, rel_tol=1e-3):
        raise UserError(
            f"The loss of {model.name} does not heed the weights of a batch; use --balance "
            "sampling, or multiply the loss of each image by batch.weights."
        )


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
