"""TrainConfig: everything that determines a run; the only source of defaults and of help texts.

train(TrainConfig(model="capsnet_small", data="digits", epochs=20))
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from capsnet.errors import UserError
from capsnet.options import LARGEST_SETTING as LARGEST
from capsnet.options import OneOf, Positive, Search, Share, check_values
from capsnet.pictures.layout import ImagesIn, Layout, is_own

# Settings that say where a run is made, not what it is; its continuation may have others.
WHERE = {
    "resume",
    "device",
    "out",
    "data_folder",
    "plugin",
    "tensorboard",
    "checkpoint_seconds",
    "exchange",
    "baseline",
    "images_in",
}

LOWEST_LR = 1e-6  # of the paper's schedule
Whole = Annotated[int, Ge(0), Lt(LARGEST)]
Count = Annotated[int, Ge(1), Lt(LARGEST)]
SEEDS = 2**32
Seed = Annotated[int, Ge(0), Lt(SEEDS)]

# How the settings are shown to people.
GROUPS = {
    "what is trained": (
        "model",
        "options",
        "plugin",
        "start_from",
        "freeze",
        "reconstruction_weight",
        "average_classes",
    ),
    "on what": (
        "data",
        "data_folder",
        "num_samples",
        "image_size",
        "channels",
        "holdout",
        "final_split",
        "data_seed",
        "folds",
        "fold",
        "seeds",
        "baseline",
    ),
    "your own pictures": tuple(f.name for f in fields(Layout)),
    "how long, and how": (
        "epochs",
        "batch_size",
        "seed",
        "stop_at_error",
        "patience",
        "balance",
        "lr",
        "schedule",
        "lr_decay",
        "lr_decay_steps",
        "warmup_steps",
        "averaging",
        "weight_decay",
    ),
    "augmentation": (
        "shift",
        "rotate",
        "scale",
        "shear",
        "elastic",
        "contrast",
        "flip",
        "crop",
        "brightness",
        "intensity",
        "colour",
    ),
    "where": (
        "out",
        "resume",
        "device",
        "images_in",
        "precision",
        "compile",
        "exchange",
        "tensorboard",
        "checkpoint_seconds",
    ),
}


@dataclass(frozen=True)
class TrainConfig(Layout):
    """Everything that determines a run; each setting says beside its name what it may be.

    Args: what is trained (model, options, …), on what (data, num_samples, holdout, …), how long and
    how (epochs, lr, …), augmentation (shift, rotate, …) and where (out, device, …).

    Example:
        >>> TrainConfig(model="capsnet_small", data="digits", epochs=20).folder
        PosixPath('runs/capsnet_small-digits-seed0')
    """

    model: str = "auto"
    """Name of the model ('capsnet models' lists them); auto: capsnet_mnist, and for your own
    pictures capsnet_modern_small."""
    options: tuple[str, ...] = ()
    """Options of the model as NAME=VALUE, e.g. num_iters=1 leaky=True 'decoder=()'."""
    plugin: tuple[Path, ...] = ()
    """Python files of yours that register models or data."""
    start_from: str | None = None
    """Weights to start from: the folder of a run, a file, or the name of a model with shipped
    weights. Their options are kept; the head is new where classes or image size are others."""
    freeze: bool = False
    """Train the head alone and keep the trunk of start_from as it is."""
    reconstruction_weight: Annotated[Positive, Search(1e-5, 1e-2, log=True)] = 0.0005
    """Weight of the sum of squared pixel differences in the loss of a model with a decoder."""
    average_classes: bool = False
    """Divide the margin loss by twice the number of classes, as the authors' code does."""

    data: str = "mnist"
    """Name of the data set ('capsnet data list'), or a folder or table of your pictures."""
    data_folder: Path | None = None
    """Folder with the data set's files, if you placed them by hand."""
    num_samples: int | None = None
    """Training images to use, the classes' shares kept, or overlapping pairs to draw per epoch."""
    image_size: int | None = None
    """Side in pixels of the canvas, or that images of a folder and of smallNORB are scaled to."""
    channels: int | None = None
    """Channels of the images: 1 or 3 of a folder, 1 or 2 of smallNORB, any number of equal ones of
    other data, which is grey; by default the data's own."""
    holdout: Whole | None = None
    """Training images set apart, the classes' shares kept, and evaluated after every epoch; by
    default none, of your own pictures a sixth (whole groups)."""
    folds: Annotated[int, Ge(0), Lt(1000)] = 0
    """Of your own pictures: train so many times, each time on other pictures, and test on the rest,
    so that every picture is tested once."""
    fold: Annotated[int, Ge(0), Lt(1000)] = 0
    """Train only this one of the folds, counted from 1."""
    seeds: Annotated[int, Ge(1), Lt(1000)] = 1
    """Train so many times, from seed on."""
    baseline: Literal["auto", "cnn", "none"] = "auto"
    """Train a CNN beside it, on the same stem or else of the same size, for the report; auto: for
    your own pictures."""
    final_split: Literal["test", "validation"] = "test"
    """What the final weights are evaluated on, once, at the end; validation needs holdout."""
    data_seed: Seed = 0
    """Seed of the choice of images: those held out, those of num_samples, a folder's test part."""

    epochs: Count | None = None
    """Passes over the training data; by default 50, and for your own pictures as many as make about
    2,000 steps."""
    batch_size: Count | None = None
    """Images in one step; the last batch of an epoch is filled up from its beginning. By default
    128, and for your own pictures no more than a tenth of them."""
    seed: Seed = 0
    """Seed of weights, order and augmentation."""
    stop_at_error: Positive | None = None
    """Stop after the first epoch whose validation error in per cent (of numbers: mean absolute
    error) is not above; needs holdout."""
    patience: Whole | None = None
    """Stop after so many epochs without a better validation figure and keep the weights of the best
    epoch; 0: go on to the end and keep the last. By default 0, and for your own pictures with a
    validation split a fifth of the epochs, at least 10."""
    balance: Literal["none", "loss", "sampling"] = "none"
    """For classes of unequal size: let images of rare ones count for more in the loss, or show all
    classes equally often."""
    lr: Annotated[float, Gt(0), Lt(LARGEST), Search(1e-4, 1e-2, log=True)] = 1e-3
    """Learning rate of Adam at the start."""
    schedule: Literal["paper", "linear", "cosine", "constant"] = "paper"
    """paper: lr · lr_decay^(step / lr_decay_steps), not below 1e-6; linear and cosine end at 0."""
    lr_decay: Annotated[float, Gt(0), Le(1)] = 0.96
    """Factor of the paper's schedule."""
    lr_decay_steps: Count = 2000
    """Steps in which the paper's schedule multiplies once by lr_decay."""
    warmup_steps: Annotated[Whole, Search(0, 1000)] = 200
    """First steps, half the run at most, in which the learning rate rises to the schedule's;
    without them the primary capsules soon all have a length near 1. 0: as in the paper."""
    averaging: Annotated[Share, OneOf((0.0, 0.99, 0.999, 0.9999))] = 0.999
    """Decay of the running average of the weights, which is then evaluated and kept; 0: none."""
    weight_decay: Annotated[Positive, Search(0.0, 0.3)] = 0.0
    """Each step takes lr · weight_decay of every weight away (AdamW)."""

    shift: Annotated[Whole, Search(0, 4)] | None = None
    """Random shift in pixels, each direction; by default 2, the paper's, for plain images."""
    rotate: Annotated[Positive, Search(0.0, 20.0)] = 0.0
    """Random rotation in degrees, each direction."""
    scale: Annotated[Share, Search(0.0, 0.2)] = 0.0
    """Random change of scale, as a fraction up and down."""
    shear: Annotated[Positive, Search(0.0, 0.2)] = 0.0
    """Random shear, each direction."""
    elastic: Annotated[Positive, Search(0.0, 1.0)] = 0.0
    """Random bending: the standard deviation in pixels of every pixel's displacement."""
    contrast: Annotated[float, Gt(0), Lt(LARGEST), Search(1.0, 1.4)] = 1.0
    """Factor of the contrast of an image that is rotated, scaled, sheared, bent or cropped, which
    gives back what interpolation blurs; with 1.2 such digits are as sharp as they were."""
    flip: Literal["none", "horizontal", "vertical", "both"] = "none"
    """Mirror images at random: left and right, top and bottom, or each by itself."""
    crop: Annotated[Share, Search(0.0, 0.3)] = 0.0
    """Random crop: the share of the side that may be cut away; the rest is scaled back."""
    brightness: Annotated[Share, Search(0.0, 0.3)] = 0.0
    """Random brightness, added to all pixels, as a share of white up and down."""
    intensity: Annotated[Share, Search(0.0, 0.3)] = 0.0
    """Random strength of the differences from an image's mean, as a fraction up and down."""
    colour: Annotated[Share, Search(0.0, 0.3)] = 0.0
    """Random colours of RGB images: hues turned by up to this share of half the circle, saturation
    changed by up to this fraction."""

    out: Path | None = None
    """Folder of the run; by default runs/MODEL-DATA-seedSEED."""
    resume: bool = False
    """Continue the run in the folder, on the same kind of device, as if it had never stopped."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    images_in: ImagesIn = "auto"
    """Where your own pictures are during training: in the memory of the device, or on the disk,
    from which each batch is read while the one before is trained on; the result is the same. auto:
    in memory if all take no more than half of what is free."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the layers; weights are kept in fp32. auto: bf16 on a GPU, fp32 on a CPU."""
    compile: bool = False
    """Compile the step with torch.compile: slow to start, faster to run."""
    exchange: Literal["fp32", "bf16"] = "fp32"
    """Type in which several processes exchange gradients; bf16 halves what they send."""
    tensorboard: bool = False
    """Write scalars, images and the graph for TensorBoard into the run's folder."""
    checkpoint_seconds: Positive = 60.0
    """Seconds between checkpoints."""

    def __post_init__(self) -> None:
        if self.model == "auto":
            usual = "capsnet_modern_small" if self.shows_own_pictures else "capsnet_mnist"
            object.__setattr__(self, "model", usual)

    def check(self) -> None:
        """Raise a UserError for a value that cannot be."""
        hints = get_type_hints(type(self), include_extras=True)
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        check_values(hints, values, flag)
        _require(
            self.schedule != "paper" or self.lr >= LOWEST_LR,
            f"lr must be at least {LOWEST_LR:g}, below which the schedule 'paper' does not go",
        )
        decay = (self.lr_decay, self.lr_decay_steps)
        _require(
            self.schedule == "paper" or decay == (TrainConfig.lr_decay, TrainConfig.lr_decay_steps),
            "lr-decay and lr-decay-steps are for the schedule 'paper'; leave them out",
        )
        own = self.shows_own_pictures
        held = bool(self.holdout) or (own and self.holdout is None)
        _require(held or self.stop_at_error is None, "stop-at-error needs a holdout")
        _require(held or self.final_split == "test", "final-split needs a holdout")
        _require(
            self.seed + self.seeds <= SEEDS,
            f"the last of the seeds must be less than {SEEDS:,}; start from a smaller seed",
        )
        _require(self.folds != 1, "one fold leaves nothing to train on; ask for 2 folds or more")
        _require(self.fold <= self.folds, "fold must be one of the folds")
        _require(own or not self.folds, "folds are for pictures of your own; leave them out")
        _require(
            own or self.images_in == "auto",
            "images-in is for pictures of your own; leave it out",
        )
        _require(
            self.start_from is not None or not self.freeze,
            "freeze keeps the trunk of trained weights; give start-from too",
        )

    @property
    def shows_own_pictures(self) -> bool:
        """Whether the data is a folder or a table of the user's pictures, called as no data set."""
        if not is_own(Path(self.data.removeprefix("folder:"))):
            return False
        from capsnet.data import list_data

        return self.data not in [entry.name for entry in list_data()]

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        data = Path(self.data).name
        return self.out or Path("runs") / f"{self.model}-{data}-seed{self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {key: _plain(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class SettledConfig(TrainConfig):
    """A TrainConfig in which nothing is left to choose (planning.py); for named data these."""

    epochs: Count = 50
    batch_size: Count = 128
    patience: Whole = 0


def differences(config: SettledConfig, saved: dict[str, Any]) -> list[str]:
    """Return what a continuation would change against the saved config, as 'name: old -> new'.

    Settings added since the config was saved were at their default.
    """
    current, saved = config.to_json(), SettledConfig().to_json() | saved
    if not config.shows_own_pictures:  # none is held out by default
        current["holdout"], saved["holdout"] = current["holdout"] or 0, saved["holdout"] or 0
    now, then = _meant(current, config), _meant(saved, config)
    return [
        f"{f.name}: {saved[f.name]} -> {current[f.name]}"
        for f in fields(config)
        if f.name not in WHERE and _plain(now[f.name]) != _plain(then[f.name])
    ]


def _meant(told: dict[str, Any], config: TrainConfig) -> dict[str, Any]:
    """Return settings such that those which mean the same are the same."""
    from capsnet.data import Augment, find_data
    from capsnet.training.device import pick_device, pick_precision

    told = dict(told)
    if config.shows_own_pictures:
        told["data"] = str(Path(str(told["data"]).removeprefix("folder:")))
    if isinstance(told["options"], list):
        told["options"] = sorted(map(str, told["options"]))
    if told["shift"] is None and find_data(config.data)[0].takes_shift:
        told["shift"] = Augment.shift
    if told["precision"] == "auto":
        bf16 = pick_precision("auto", pick_device(config.device)).itemsize == 2
        told["precision"] = "bf16" if bf16 else "fp32"
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(x) for x in value]
    return str(value) if isinstance(value, Path) else value


def flag(name: str) -> str:
    """Return how the command line calls a setting."""
    return name.replace("_", "-")


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise UserError(f"{sentence}.")
