"""All data by name: how a name becomes a stream on a device, and how anyone adds a name.

The package's rows are in entries.py; a new data set is one row, or a function of anyone's with
`register_data`. `folder:PATH`, or just the path of a folder or a table, are own pictures.

Usage: stream = open_data("mnist", "train", augment=Augment(shift=2), device="cuda")
"""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import torch

from capsnet.data.entries import FOLDER, TABLE, Entry, Load, MakeStream, Request, centred
from capsnet.data.sets.own import MAX_SIZE, Own, open_own
from capsnet.data.sources.known import MNIST
from capsnet.data.splits.split import Split, stratified
from capsnet.data.streams.augmentation import Augment
from capsnet.data.streams.stream import Stream
from capsnet.errors import UserError, unknown_name
from capsnet.pictures.layout import Layout, is_own
from capsnet.plugins import load_entry_points, may_replace

SplitName = Literal["train", "validation", "test"]
F = TypeVar("F", bound=Load)
DATA = {entry.name: entry for entry in TABLE}


def register_data(
    name: str,
    /,
    description: str = "",
    licence: str = "yours",
    needs: str = "nothing",
    stream: MakeStream = centred,
) -> Callable[[F], F]:
    """Make a data set known by a name; use as a decorator of the function that loads it.

    Args:
        name: What `open_data` and `--data` call it.
        description: One line on what it is; by default the first of the function's docstring.
        licence: Under which licence the images are.
        needs: What a user must have for it.
        stream: Makes batches of a split, (Split, Request) -> Stream; by default single images that
            training may move and warp.

    Returns:
        The decorator, which returns the function as it was. The function is called with "train" or
        "test" and a `Request` (folder, image_size, seed, …) and returns a `Split`: images uint8
        [M, C, H, W], labels and their task.

    Example:
        >>> @register_data("noise")
        ... def noise(split, ask):
        ...     images = torch.randint(256, (100, 1, 28, 28), dtype=torch.uint8)
        ...     return Split(images, torch.arange(100) % 2, ("even", "odd"))
    """

    def register(load: F) -> F:
        known = DATA.get(name)
        if known is not None and not may_replace(known.load, load):
            raise UserError(f"Data called '{name}' is registered already; choose another name.")
        text = description or (inspect.getdoc(load) or name).splitlines()[0]
        DATA[name] = Entry(name, text, licence, needs, load, stream)
        return load

    return register


def list_data() -> list[Entry]:
    """Return all rows of the table, the image folder last.

    Returns:
        An `Entry` for each data set: name, description, licence, what it needs.

    Example:
        >>> "mnist" in [entry.name for entry in list_data()]
        True
    """
    load_entry_points()
    return [*DATA.values(), FOLDER]


def find_data(name: str, folder: str | Path | None = None) -> tuple[Entry, str | Path | None]:
    """Return the row of a name, and the folder it reads from, if any.

    Args:
        name: One of `list_data()`, or a folder or table of one's own pictures.
        folder: Where the files of a data set are, if they were placed by hand.

    Returns:
        Its `Entry`, and the folder.

    Example:
        >>> find_data("digits")[0].name, find_data("./pictures")[1]
        ('digits', PosixPath('pictures'))
    """
    load_entry_points()
    if name in DATA:
        return DATA[name], folder
    path = name.removeprefix("folder:")
    if not path:
        raise UserError("The data set has no name; 'capsnet data list' shows which there are.")
    is_path = path != name or "/" in path or path.startswith(".")
    if not is_path and not is_own(Path(path)):
        raise unknown_name("data set", name, [entry.name for entry in list_data()])
    if folder is not None:
        raise UserError(f"'{name}' is a folder already; leave the other folder out.")
    return FOLDER, Path(os.path.expanduser(path))  # unlike Path's, which raises for ~nobody


def shows_digits(name: str) -> bool:
    """Whether a data set shows MNIST's digits, in whatever arrangement."""
    try:
        entry, _ = find_data(name)
    except UserError:
        return False
    return entry.source is MNIST or "digits" in entry.name


def open_data(
    name: str,
    split: SplitName,
    *,
    folder: str | Path | None = None,
    augment: Augment | None = None,
    device: torch.device | str = "cpu",
    image_size: int | None = None,
    channels: int | None = None,
    num_samples: int | None = None,
    holdout: int | None = 0,
    seed: int = 0,
    layout: Layout | None = None,
    fold: tuple[int, int] | None = None,
    parted: bool = True,
    own: Own | None = None,
) -> Stream:
    """Return a stream of a data set's split: what makes batches of it on a device.

    Args:
        name: One of `list_data()`, or a folder or table of one's own pictures.
        split: "train", "validation" or "test".
        folder: Where the files of the data set are, if they were placed by hand.
        augment: How training images are moved and toned; by default not at all.
        device: Where the images are kept and the batches made.
        image_size: The canvas, or the size that pictures and smallNORB are scaled to.
        channels: Of the images; by default the data's own.
        num_samples: Take that many images, the classes' shares kept, or make that many pairs or
            versions.
        holdout: So many images, drawn by the seed with the classes' shares kept, leave "train" and
            are "validation"; None: a sixth of the user's own pictures, none of others.
        seed: Of what is drawn: the held out, those of num_samples, a folder's test part.
        layout: What one's own pictures are: classes, groups, splits.
        fold: Of one's own pictures: which fold is tested, counted from 1, and of how many.
        parted: Whether one's own pictures are parted; else all are for testing.
        own: One's own pictures if they have been opened already; else they are, and stay on the
            disk if they do not fit the device.

    Returns:
        A `Stream`: `num_samples`, `plan(generator)`, which draws an epoch, and `batch(plan)`, whose
        images are [N, C, H, W] in [0, 1].

    Example:
        >>> digits = open_data("digits", "test")
        >>> plan = digits.plan(None)  # all images in their order
        >>> digits.batch({name: chosen[:8] for name, chosen in plan.items()}).images.shape
        torch.Size([8, 1, 28, 28])
    """
    entry, folder = find_data(name, folder)
    if split not in ("train", "validation", "test"):
        raise unknown_name("split", split, ("train", "validation", "test"))
    if augment is not None and split != "train":
        raise UserError(f"Only training images are augmented; leave augment out for {split}.")
    if augment is not None and (augment.warps or augment.flips) and not entry.takes_warp:
        raise UserError(f"{entry.name} moves its images by its own rules; leave the warp out.")
    if augment is not None and augment.tones and not entry.takes_warp:
        raise UserError(
            f"{entry.name} makes its images by its own rules; leave brightness, intensity and "
            "colour out."
        )
    if augment is not None and augment.shift and not entry.takes_shift:
        raise UserError(f"{entry.name} moves its images by its own rules; leave the shift out.")
    if split == "validation" and not holdout and not entry.own:
        raise UserError("There is no validation split; hold out some training images for it.")
    if image_size is not None and not 1 <= image_size <= MAX_SIZE:
        raise UserError(f"Images cannot be {image_size} px wide; ask for 1 to {MAX_SIZE}.")
    if num_samples is not None and num_samples < 1:
        raise UserError(f"Cannot use {num_samples} images; ask for one or more.")
    ask = Request(folder, image_size, channels, num_samples, augment, seed, split == "train")
    if entry.own:
        assert folder is not None
        settings = (layout, image_size, channels, holdout, seed, fold)
        if own is None:
            own = open_own(Path(folder), *settings, parted=parted)
            own = own.kept("auto", torch.device(device))
        return entry.stream(own.split(split, device), ask)
    if layout is not None and layout != Layout():
        raise UserError(
            f"{entry.name} knows its classes and splits; leave out what is for your own pictures."
        )
    data = entry.load("test" if split == "test" else "train", ask)
    if not isinstance(data, Split):
        raise UserError(f"{entry.name} is loaded as a {type(data).__name__}; return a Split of it.")
    if holdout and split != "test":
        if holdout >= len(data):
            raise UserError(f"Cannot hold out {holdout} of {len(data)} images; hold out fewer.")
        rest, held = stratified(data.task.strata(data.labels), holdout, seed)
        data = data.subset(held if split == "validation" else rest)
    return entry.stream(_with_channels(data, channels).to(device), ask)


def _with_channels(split: Split, channels: int | None) -> Split:
    """Show a grey split in several equal channels."""
    has = split.image_shape[0]
    if channels is None or channels == has:
        return split
    if has != 1 or channels < 1:
        wanted = f"ask for {has}" if has != 1 else "ask for 1 or more"
        raise UserError(f"These images have {has} channels, not {channels}; {wanted}.")
    return split.with_channels(channels)
