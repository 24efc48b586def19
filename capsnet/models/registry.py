"""The one list of models. A new one is a class in its own file and a line here."""

import inspect
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from capsnet.errors import UserError, unknown_name
from capsnet.models.capsnet import CapsNet
from capsnet.models.classifier import Classifier
from capsnet.models.cnn import CnnBaseline, CnnMultiMnist, CnnSmall

LARGEST = 1 << 31  # what a size may be


@dataclass(frozen=True)
class ModelEntry:
    """A named model: its class, the options that make it, and what it is."""

    name: str
    model: type[Classifier]
    description: str
    options: dict[str, Any] = field(default_factory=dict)


_SMALL = {
    "conv_channels": 32,
    "conv_kernel": 5,
    "conv_stride": 2,
    "primary_types": 16,
    "primary_kernel": 5,
    "decoder": (128, 256),
}
_MODELS = {
    entry.name: entry
    for entry in (
        ModelEntry("capsnet_mnist", CapsNet, "The paper's CapsNet for 28×28 digits."),
        ModelEntry(
            "capsnet_multimnist",
            CapsNet,
            "The paper's CapsNet for two overlapping digits on 36×36.",
            {"image_shape": (1, 36, 36)},
        ),
        ModelEntry("capsnet_small", CapsNet, "A small CapsNet that trains on a CPU.", _SMALL),
        ModelEntry("cnn_baseline", CnnBaseline, "The paper's baseline CNN for MNIST."),
        ModelEntry("cnn_multimnist", CnnMultiMnist, "The paper's baseline CNN for MultiMNIST."),
        ModelEntry("cnn_small", CnnSmall, "A small CNN to compare capsnet_small with."),
    )
}


def list_models() -> list[str]:
    """Return the names that `create_model` knows."""
    return sorted(_MODELS)


def model_entry(name: str) -> ModelEntry:
    """Return what is known of the model `name`; a UserError with the nearest match if nothing."""
    if name not in _MODELS:
        raise unknown_name("model", name, _MODELS)
    return _MODELS[name]


def create_model(name: str, /, pretrained: bool = False, **options: Any) -> Classifier:
    """Build the model `name`; options override its preset.

    pretrained: with the shipped weights, and with the options those were trained with.
    """
    entry = model_entry(name)
    known = inspect.signature(entry.model).parameters
    for option, value in options.items():
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
        _check_value(option, value, known[option])
    if pretrained:
        from capsnet.models.weights import load_tensors, plain_options, set_weights, shipped

        path = shipped(name)
        tensors, card = load_tensors(path)
        options = {**plain_options(card["options"]), **options}
    options = {**entry.options, **options}
    model = entry.model(**options)
    model.name, model.options = name, options
    if pretrained:
        set_weights(model, tensors, path)
    return model


def _check_value(option: str, value: Any, known: inspect.Parameter) -> None:
    """Raise a UserError unless the value is of the kind the option has by default."""
    default = known.default
    if get_origin(known.annotation) is Literal:
        if value not in get_args(known.annotation):
            raise unknown_name(option, str(value), get_args(known.annotation))
        return
    wanted = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(default, bool):
        raise UserError(f"The option {option} cannot be {value!r}; give a value like {default!r}.")
    numbers = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and not all(type(x) is int for x in value):
        raise UserError(f"The option {option} cannot be {value!r}; give whole numbers.")
    if isinstance(value, tuple) and option == "image_shape" and len(value) != 3:
        raise UserError(f"The option {option} cannot be {value!r}; give (channels, height, width).")
    if isinstance(default, float) and not 0 <= value < 1:
        raise UserError(f"The option {option} cannot be {value!r}; use 0 or more, less than 1.")
    if (
        isinstance(default, int | tuple)
        and not isinstance(default, bool)
        and not 1 <= min(numbers, default=1) <= max(numbers, default=1) < LARGEST
    ):
        raise UserError(
            f"The option {option} cannot be {value!r}; use numbers from 1 on, below {LARGEST:,}."
        )
