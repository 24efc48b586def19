"""Trunks by name: a function of anyone's, a network of timm, or one of Hugging Face.

trunk = find_trunk("my_trunk.py:features", (3, 64, 64), weights=True)

A trunk is an nn.Module, images [N, C, H, W] in [0, 1] -> a map [N, F, H', W'] or tokens [N, T, F].
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from capsnet.errors import UserError, needs
from capsnet.plugins import find_function

Shape = tuple[int, int, int]


def small_trunk(image_shape: Shape) -> nn.Module:
    """Return two convolutions of stride 2, [N, C, H, W] -> [N, 64, H/4, W/4]."""
    return nn.Sequential(
        nn.Conv2d(image_shape[0], 32, 5, 2, 2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.ReLU(),
    )


def find_trunk(where: str, image_shape: Shape, weights: bool) -> nn.Module:
    """Return the trunk that `where` says.

    Args:
        where: "module.path:function" or "file.py:function", a function without arguments, or with
            `image_shape`, that returns the trunk; "timm:NAME"; or "hf:NAME".
        image_shape: Of the images (C, H, W).
        weights: Whether timm and Hugging Face load theirs, or only build the network.
    """
    kind, colon, name = where.rpartition(":")
    if not colon or not kind or not name:
        raise UserError(
            f"'{where}' names no trunk; give module.path:function, file.py:function, timm:NAME or "
            "hf:NAME."
        )
    if where.startswith("timm:"):
        return _timm(where.removeprefix("timm:"), image_shape, weights)
    if where.startswith("hf:"):
        return _hugging_face(where.removeprefix("hf:"), weights)
    function: Any = find_function(where)
    # A card names the function: what it calls must at least be made to be a trunk.
    is_module = inspect.isclass(function) and issubclass(function, nn.Module)
    if not (inspect.isfunction(function) or is_module):
        raise UserError(f"{where} is no Python function; give one that returns an nn.Module.")
    takes_shape = "image_shape" in inspect.signature(function).parameters
    given: dict[str, Any] = {"image_shape": image_shape} if takes_shape else {}
    try:
        trunk = function(**given)
    except UserError:
        raise
    except Exception as error:  # whatever a user's function does wrong
        raise UserError(f"The trunk {where} fails: {type(error).__name__}: {error}.") from error
    if not isinstance(trunk, nn.Module):
        raise UserError(f"{where} returns no nn.Module but a {type(trunk).__name__}; mend it.")
    return trunk


class Normalised(nn.Module):
    """A network of a library on images in [0, 1], shifted and scaled as it was trained."""

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.network = network
        for name, values in (("mean", mean), ("std", std)):
            row = torch.tensor(values, dtype=torch.float32)[:, None, None]
            self.register_buffer(name, row, persistent=False)

    mean: Tensor
    std: Tensor

    def forward(self, images: Tensor) -> Any:
        """Return what the network says of images [N, C, H, W]."""
        features = getattr(self.network, "forward_features", self.network)
        return features((images - self.mean) / self.std)


def _timm(name: str, image_shape: Shape, weights: bool) -> nn.Module:
    with needs("Trunks of timm need timm", extra="trunks"):
        import timm
    try:
        network = timm.create_model(
            name, pretrained=weights, num_classes=0, in_chans=image_shape[0]
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise UserError(
            f"timm makes no {name} ({error}); choose one of timm.list_models()."
        ) from error
    told = network.pretrained_cfg
    mean, std = told.get("mean", (0.0,)), told.get("std", (1.0,))
    if len(mean) != image_shape[0]:  # timm itself averages the first layer over the colours
        mean, std = mean[:1], std[:1]
    return Normalised(network, mean, std)


def _hugging_face(name: str, weights: bool) -> nn.Module:
    with needs("Trunks of Hugging Face need transformers", extra="trunks"):
        from transformers import AutoConfig, AutoImageProcessor, AutoModel
    try:
        told = AutoImageProcessor.from_pretrained(name)
        if weights:
            network = AutoModel.from_pretrained(name)
        else:
            network = AutoModel.from_config(AutoConfig.from_pretrained(name))
    except (OSError, ValueError) as error:
        raise UserError(
            f"Hugging Face has no {name} for us ({error}); choose a model of images."
        ) from error
    mean = getattr(told, "image_mean", None) or (0.0,)
    std = getattr(told, "image_std", None) or (1.0,)
    return Normalised(network, mean, std)
