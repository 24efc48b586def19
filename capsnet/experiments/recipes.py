"""The recipes that several experiments share, as data, and their small versions for a try-out.

config = TrainConfig(model="capsnet_mnist", seed=0, **paper(epochs=60))
"""

from dataclasses import replace
from math import ceil
from typing import Any

from capsnet.data.registry import DATA
from capsnet.data.streams.augmentation import Augment
from capsnet.data.streams.geometry import SHARP
from capsnet.training.config import TrainConfig

# The authors' code: batches of 128, Adam at 1e-3, times 0.96 every 2,000 of 300,000 steps.
BATCH_SIZE = 128
DECAYS = 300_000 // 2_000
MNIST_IMAGES = 60_000
# Their network (docs/deviations.md).
AUTHORS = ("primary_routed=True", "routing_bias=True", "init=authors")


def paper(
    epochs: int, num_images: int = MNIST_IMAGES, batch_size: int = BATCH_SIZE
) -> dict[str, Any]:
    """Return the paper's recipe, its schedule compressed to `epochs`: as many decays in all.

    Shifts of up to 2 px, the loss and a short warm-up, which the paper does not speak of, are the
    defaults of training.
    """
    steps = epochs * ceil(num_images / batch_size)
    return {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": 1e-3,
        "schedule": "paper",
        "lr_decay": 0.96,
        "lr_decay_steps": max(1, round(steps / DECAYS)),
        "averaging": 0.0,
    }


def start(epochs: int) -> dict[str, Any]:
    """Return the recipe that the search for ours starts from (tune.py)."""
    return {
        "epochs": epochs,
        "batch_size": BATCH_SIZE,
        "lr": 1e-3,
        "schedule": "linear",
        "averaging": 0.999,
        "rotate": 15.0,
        "scale": 0.15,
        "shear": 0.15,
        "shift": 2,
    }


def ours(epochs: int) -> dict[str, Any]:
    """Return our recipe for MNIST: the start, with what won on held-out training images.

    It won with the authors' network (AUTHORS).
    """
    return {**start(epochs), "contrast": SHARP, "weight_decay": 0.05}


def modern(epochs: int) -> dict[str, Any]:
    """Return ours for capsules on a modern stem: larger batches, and compiled."""
    return {**ours(epochs), "batch_size": 256, "lr": 2e-3, "compile": True}


def clothes(epochs: int) -> dict[str, Any]:
    """Return the recipe for Fashion-MNIST that its search starts from (tune.py)."""
    return {
        "epochs": epochs,
        "batch_size": 256,
        "lr": 2e-3,
        "schedule": "linear",
        "weight_decay": 0.05,
        "flip": "horizontal",
        "shift": 2,
        "compile": True,
    }


_CAPSNET = ("capsnet_small", ("conv_channels=8", "primary_types=4", "decoder=(16,)"))
_CNN = ("cnn_small", ("channels=4",))
_MODELS = {
    "capsnet_mnist": _CAPSNET,
    "capsnet_multimnist": _CAPSNET,
    "cnn_baseline": _CNN,
    "cnn_multimnist": _CNN,
    "cnn_small": _CNN,
    **dict.fromkeys(
        (
            "capsnet_modern",
            "capsnet_modern_mnist",
            "capsnet_modern_fashion",
            "capsnet_modern_multimnist",
        ),
        ("capsnet_modern", ("channels=(8, 8)", "primary_types=4", "decoder=(16,)")),
    ),
    "efficient_capsnet": ("efficient_capsnet", ("channels=(8, 8, 8, 16)", "decoder=(16,)")),
    "capsnet_modern_small": (
        "capsnet_modern_small",
        ("channels=(8, 8)", "primary_types=4", "decoder=(16,)"),
    ),
    "capsnet_deep": (
        "capsnet_deep",
        ("channels=(8, 8)", "primary_types=4", "hidden=4", "hidden_dim=4", "decoder=(16,)"),
    ),
    "capsnet_slots": ("capsnet_slots", ("channels=(8, 8)", "primary_types=4", "decoder=(16,)")),
    "cnn_modern": ("cnn_modern", ("channels=(8, 8)", "conv_channels=8")),
}
_DATA: dict[str, dict[str, Any]] = {
    "mnist": {"data": "digits"},
    "multimnist": {"data": "multidigits"},
    "fashion": {"data": "digits"},
    "cifar10": {"data": "digits"},
    "scenes": {"data": "scenes", "image_size": 16},
    "crowds": {"data": "crowd_digits"},
    "small_crowds": {"data": "crowd_digits"},
    "hollow": {"data": "hollow"},
    "mnist40": {"data": "digits", "image_size": 40, "shift": 6},
}


def smoke(config: TrainConfig) -> TrainConfig:
    """Return a config of the same kind that takes a fraction of a second on embedded digits."""
    model, smaller = _MODELS[config.model]
    by_name = {option.partition("=")[0]: option for option in (*config.options, *smaller)}
    return replace(
        config,
        model=model,
        options=tuple(by_name.values()),
        epochs=1,
        compile=False,
        batch_size=20,
        num_samples=min(60, config.num_samples or 60),
        holdout=min(50, config.holdout or 0),
        **_DATA[config.data],
    )


def in_words(config: dict[str, Any]) -> str:
    """Return a recorded recipe in words."""
    samples = f" of {config['num_samples']:,} images" if config["num_samples"] else ""
    parts = [f"{config['epochs']} epochs{samples}", f"batch {config['batch_size']}"]
    schedule = f"{config['schedule']} schedule from {config['lr']:g}"
    if config["schedule"] == "paper":
        schedule += f" (× {config['lr_decay']:g} every {config['lr_decay_steps']:,} steps)"
    if config.get("warmup_steps"):
        schedule += f" after {config['warmup_steps']:,} steps of warm-up"
    parts.append(schedule)
    if config["averaging"]:
        parts.append(f"weights averaged ({config['averaging']:g})")
    if config["rotate"] or config["scale"] or config["shear"]:
        parts.append(
            f"rotation ±{config['rotate']:g}°, scale ±{100 * config['scale']:g} %, "
            f"shear ±{config['shear']:g}"
        )
    if config.get("elastic"):
        parts.append(f"elastic {config['elastic']:g} px")
    if config.get("contrast", 1) != 1:
        parts.append(f"contrast × {config['contrast']:g}")
    shift, data = config["shift"], DATA.get(config["data"])
    if shift is None and data is not None and data.takes_shift:
        shift = Augment.shift
    if shift is not None:
        parts.append(f"shift ±{shift}")
    theirs = [option for option in AUTHORS if option in config["options"]]
    parts += ["the authors' network"] if len(theirs) == len(AUTHORS) else theirs
    if config.get("weight_decay"):
        parts.append(f"weight decay {config['weight_decay']:g}")
    if config["average_classes"]:
        parts.append("margin loss averaged over classes")
    if config["reconstruction_weight"] != TrainConfig.reconstruction_weight:
        parts.append(f"reconstruction weight {config['reconstruction_weight']:g}")
    parts += gone(config)
    if config["holdout"]:
        parts.append(f"{config['holdout']:,} training images held out")
    if config.get("stop_at_error") is not None:
        parts.append(f"stopped at {config['stop_at_error']:g} % validation error")
    return ", ".join(parts)


def gone(config: dict[str, Any]) -> list[str]:
    """Return in words what earlier versions could do and early runs did."""
    parts = [f"dropout {o.partition('=')[2]}" for o in config["options"] if "dropout=" in o]
    if config.get("interpolation") == "bilinear" and config["rotate"]:
        parts.append("bilinear")
    if config.get("warp_share", 1) < 1:
        parts.append(f"{config['warp_share']:.0%} of the images warped")
    if config.get("erase"):
        parts.append(f"a square of {config['erase']} px erased")
    return parts
