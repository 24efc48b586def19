"""What a run chooses by itself, and what it says before its first step.

config = settle(config, stream, validation); print(look_ahead(config, step, validation))
"""

from dataclasses import asdict, dataclass, fields
from math import ceil
from typing import Any

from capsnet.data import Augment, Stream, find_data
from capsnet.data.splits.mapped import Mapped
from capsnet.data.splits.room import free_memory
from capsnet.errors import UserError
from capsnet.models import Model
from capsnet.provenance import device_name
from capsnet.tasks import Labels
from capsnet.training.config import SettledConfig, TrainConfig
from capsnet.training.setup import augment_of

BATCHES = (8, 128)  # the smallest and largest batch chosen for own pictures
STEPS_PER_EPOCH = 10  # at least, as far as the smallest batch allows
STEPS = 2_000  # of a run on own pictures, as far as the bounds of its epochs allow
EPOCHS = (10, 400)
PATIENCE = 10  # epochs at least
FEW_STEPS = 500  # fewer than these teach a capsule network next to nothing
FEW_PICTURES = 10  # of a class
UNEVEN = 3  # times as many pictures in the largest class as in the smallest
NAMED = 12  # classes whose counts are told one by one
UNITS = {"shift": " px", "rotate": "°", "elastic": " px"}


def settle(
    config: TrainConfig,
    stream: Stream,
    validation: Stream | None = None,
    saved: dict[str, Any] | None = None,
) -> SettledConfig:
    """Return the config with a number for all that was left to choose.

    Args:
        config: The settings as they were given.
        stream: The training data.
        validation: The validation data, if there is any.
        saved: The settings of the run that is resumed; what was chosen then stays.

    Example:
        >>> settle(TrainConfig(data="digits"), open_data("digits", "train")).batch_size
        128
    """
    if isinstance(config, SettledConfig):
        return config
    if config.patience and validation is None:
        raise UserError("patience needs validation images; set some apart with --holdout.")
    given = {f.name: getattr(config, f.name) for f in fields(TrainConfig)}
    open_ones = [name for name in ("batch_size", "epochs", "patience") if given[name] is None]
    before = SettledConfig().to_json() | (saved or {})
    if saved is not None or not find_data(config.data)[0].own:
        chosen = {name: before[name] for name in open_ones}
    else:
        chosen = choose(stream.num_samples, given, validation is not None)
    return SettledConfig(**{**given, **{name: chosen[name] for name in open_ones}})


def choose(num_images: int, given: dict[str, Any], validated: bool) -> dict[str, int]:
    """Return batch_size, epochs and patience for own pictures; what is given stays."""
    least, most = BATCHES
    batch = least
    while 2 * batch <= min(most, num_images / STEPS_PER_EPOCH):
        batch *= 2
    batch = given["batch_size"] or batch
    epochs = ceil(STEPS / ceil(num_images / batch))
    epochs = given["epochs"] or min(max(epochs, EPOCHS[0]), EPOCHS[1])
    patience = max(PATIENCE, ceil(epochs / 5)) if validated else 0
    return {"batch_size": batch, "epochs": epochs, "patience": patience}


@dataclass(frozen=True)
class RunPlan:
    """What a run is about to do, in numbers; `hints` say what to do where they promise little."""

    images: int  # of training
    validation_images: int
    classes: dict[str, int]  # training images of each; empty where numbers are asked for
    image_shape: tuple[int, int, int]
    batch_size: int
    steps_per_epoch: int
    epochs: int
    patience: int
    balance: str
    augmentation: dict[str, Any]  # what is switched on
    model: str
    parameters: int
    trained_parameters: int
    device: str
    precision: str
    bytes_on_disk: int  # of images that are read anew for every batch
    bytes_free: int | None  # in the memory of the device, where the system says it

    @property
    def steps(self) -> int:
        """The steps of the whole run, if it does not stop before."""
        return self.steps_per_epoch * self.epochs

    @property
    def hints(self) -> tuple[str, ...]:
        """One sentence for each thing that should be different for the run to succeed."""
        found = []
        if self.steps < FEW_STEPS:
            found.append(
                f"{self.steps:,} steps are too few to learn much; give more --epochs or a smaller "
                "--batch-size."
            )
        few = [name for name, count in self.classes.items() if count < FEW_PICTURES]
        if few:
            which = ", ".join(few[:NAMED]) + (" and others" if len(few) > NAMED else "")
            which = "each class" if len(few) == len(self.classes) else which
            found.append(
                f"Fewer than {FEW_PICTURES} training images show {which}; add more, and let "
                "--flip, --crop, --rotate or --brightness vary them where that is no lie."
            )
        counts = [count for count in self.classes.values() if count]
        if counts and max(counts) > UNEVEN * min(counts) and self.balance == "none":
            found.append(
                f"The largest class has {max(counts):,} images and the smallest {min(counts):,}; "
                "consider --balance sampling or --balance loss."
            )
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {
            **asdict(self),
            "image_shape": list(self.image_shape),
            "steps": self.steps,
            "hints": list(self.hints),
        }

    def __str__(self) -> str:
        c, h, w = self.image_shape
        images = f"{self.images:,} images of {h}×{w}, {c} channel{'s' * (c > 1)}"
        held = f"; {self.validation_images:,} for validation" if self.validation_images else ""
        lines = [f"training on {images}{held}"]
        if self.classes:
            told = [f"{name} ({count:,})" for name, count in self.classes.items()]
            more = f", and {len(told) - NAMED} more" if len(told) > NAMED else ""
            lines.append(f"{len(told)} classes: {', '.join(told[:NAMED])}{more}")
        stop = f", fewer after {self.patience} without a better one" if self.patience else ""
        lines.append(
            f"batches of {self.batch_size:,}, {self.steps_per_epoch:,} steps an epoch, "
            f"{self.epochs:,} epochs{stop}: {self.steps:,} steps"
        )
        varied = [f"{name} {x}{UNITS.get(name, '')}" for name, x in self.augmentation.items()]
        balance = {"none": "", "loss": "; rare classes count for more"}
        shown = balance.get(self.balance, "; classes shown equally often")
        lines.append(f"augmentation: {', '.join(varied) or 'none'}{shown}")
        part = f", {self.trained_parameters:,} of them trained"
        part = part if self.trained_parameters < self.parameters else ""
        size = f"{self.parameters:,} parameters{part}"
        lines.append(f"{self.model}, {size}; {self.precision} on {self.device}")
        if self.bytes_on_disk:
            free = "" if self.bytes_free is None else f", {_size(self.bytes_free)} of memory free"
            size = _size(self.bytes_on_disk)
            lines.append(f"images are read from the disk as they are needed: {size}{free}")
        return "\n".join([*lines, *self.hints])


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:,.1f} MB"


def look_ahead(
    config: SettledConfig, model: Model, stream: Stream, validation: Stream | None, precision: str
) -> RunPlan:
    """Return what a run with these settings is about to do."""
    split, asks_classes = stream.split, isinstance(stream.task, Labels)
    counts = split.label_counts() if asks_classes else ()
    names = split.task.names if asks_classes else ()
    streams = [stream] if validation is None else [stream, validation]
    augmentation, plain = asdict(augment_of(config)), asdict(Augment(shift=0))
    return RunPlan(
        stream.num_samples,
        0 if validation is None else validation.num_samples,
        dict(zip(names, counts, strict=True)),
        stream.image_shape,
        config.batch_size,
        ceil(stream.num_samples / config.batch_size),
        config.epochs,
        config.patience,
        config.balance,
        {name: x for name, x in augmentation.items() if x != plain[name]},
        config.model,
        sum(p.numel() for p in model.parameters()),
        sum(p.numel() for p in model.parameters() if p.requires_grad),
        device_name(stream.device),
        precision,
        sum(x.split.images.nbytes for x in streams if isinstance(x.split.images, Mapped)),
        free_memory(stream.device),
    )
