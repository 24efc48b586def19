"""What there is: a row for each data set says how to load a split and how to make a stream of it.

Usage: entry = TABLE[0]; entry.stream(entry.load("train", request), request)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from capsnet.data.sets.affnist import load_affnist
from capsnet.data.sets.cifar import load_cifar10
from capsnet.data.sets.digits import load_digits
from capsnet.data.sets.dsprites import load_dsprites
from capsnet.data.sets.hollow import load_hollow
from capsnet.data.sets.mnist import load_fashion, load_mnist
from capsnet.data.sets.own import open_own
from capsnet.data.sets.scenes import load_scenes, load_several
from capsnet.data.sets.smallnorb import load_smallnorb
from capsnet.data.sources.known import CIFAR10, DSPRITES, FASHION, MNIST
from capsnet.data.sources.locate import Source
from capsnet.data.splits.halving import halved
from capsnet.data.splits.split import Split, stratified
from capsnet.data.streams.affine import AffineStream, CanvasStream
from capsnet.data.streams.augmentation import Augment
from capsnet.data.streams.crowd import CrowdStream
from capsnet.data.streams.overlap import OverlapStream
from capsnet.data.streams.stream import ImageStream, Stream
from capsnet.data.streams.turned import TurnedStream
from capsnet.errors import UserError


@dataclass(frozen=True)
class Request:
    """What the user asks of a data set; None is the data set's own default."""

    folder: str | Path | None
    image_size: int | None
    channels: int | None
    num_samples: int | None
    augment: Augment | None
    seed: int
    training: bool


Load = Callable[[str, Request], Split]
MakeStream = Callable[[Split, Request], Stream]


@dataclass(frozen=True)
class Entry:
    """A row of the table: what a data set is, and how it is loaded and streamed."""

    name: str
    description: str
    licence: str
    needs: str
    load: Load = field(repr=False)
    stream: MakeStream = field(repr=False)
    source: Source | None = field(default=None, repr=False)

    @property
    def takes_shift(self) -> bool:
        """Whether training images may be shifted; other data moves them by its own rules."""
        return self.stream in (centred, _as_loaded)

    @property
    def own(self) -> bool:
        """Whether these are the user's own pictures, of which nothing is known beforehand."""
        return self is FOLDER

    @property
    def takes_warp(self) -> bool:
        """Whether training images may be rotated, scaled, sheared and bent."""
        return self.takes_shift or self.stream is _overlaps


def _digits(split: str, ask: Request) -> Split:
    if ask.folder is not None:
        raise UserError("The digits are inside the package and need no folder; leave it out.")
    return load_digits(split)


def _mnist(split: str, ask: Request) -> Split:
    return load_mnist(split, ask.folder)


def _fashion(split: str, ask: Request) -> Split:
    return load_fashion(split, ask.folder)


def _affnist(split: str, ask: Request) -> Split:
    return load_affnist(_given_folder("affNIST", ask), split)


def _smallnorb(split: str, ask: Request) -> Split:
    folder = _given_folder("smallNORB", ask)
    return load_smallnorb(folder, split, ask.channels or 2, ask.image_size)


def _cifar10(split: str, ask: Request) -> Split:
    return load_cifar10(split, ask.folder)


def _dsprites(split: str, ask: Request) -> Split:
    return load_dsprites(split, ask.folder, ask.image_size)


def _dsprites_pose(split: str, ask: Request) -> Split:
    return _dsprites(split, ask).asking_factors()


def _scenes(split: str, ask: Request) -> Split:
    return load_scenes(split, _made("Scenes", ask).image_size)


def _scenes_pose(split: str, ask: Request) -> Split:
    return _scenes(split, ask).asking_factors()


def _scenes_several(split: str, ask: Request) -> Split:
    return load_several(split, _made("Scenes", ask).image_size)


def _hollow(split: str, ask: Request) -> Split:
    return load_hollow(split, _made("Hollow shapes", ask).image_size)


def _made(title: str, ask: Request) -> Request:
    if ask.folder is not None:
        raise UserError(f"{title} are made by a rule and need no folder; leave it out.")
    return ask


def _folder(split: str, ask: Request) -> Split:
    assert ask.folder is not None
    size, channels = ask.image_size, ask.channels
    return open_own(Path(ask.folder), None, size, channels, 0, ask.seed).split(split)


def _given_folder(title: str, ask: Request) -> str | Path:
    if ask.folder is None:
        raise UserError(f"{title} cannot be downloaded; give the folder of its original files.")
    return ask.folder


def centred(split: Split, ask: Request) -> Stream:
    """Return a stream of single images, on a larger canvas if one is asked for."""
    return ImageStream(_sample(split, ask), ask.augment, ask.image_size)


def _as_loaded(split: Split, ask: Request) -> Stream:
    return ImageStream(_sample(split, ask), ask.augment)


def _posed(split: Split, ask: Request) -> Stream:
    return ImageStream(_sample(split, ask))  # moving an image would make its factors untrue


def _overlaps(split: Split, ask: Request) -> Stream:
    num_pairs = ask.num_samples or len(split)
    return OverlapStream(split, num_pairs, ask.image_size or 36, augment=ask.augment)


def _crowds(split: Split, ask: Request) -> Stream:
    return CrowdStream(split, ask.num_samples or len(split), (1, 3), ask.image_size or 48, 10)


def _small_crowds(split: Split, ask: Request) -> Stream:
    small, canvas = halved(split), ask.image_size or 40
    shift = max(canvas - small.image_shape[2], 0) // 2  # anywhere
    return CrowdStream(small, ask.num_samples or len(split), (1, 3), canvas, shift)


def _crowds_of_shapes(split: Split, ask: Request) -> Stream:
    return CrowdStream(split, ask.num_samples or len(split), (2, 4))


def _placed(split: Split, ask: Request) -> Stream:
    return CanvasStream(_sample(split, ask), ask.image_size or 40)


def _warped(split: Split, ask: Request) -> Stream:
    num_samples = ask.num_samples or (len(split) if ask.training else None)
    return AffineStream(split, num_samples, ask.image_size or 40)


def _turned(split: Split, ask: Request) -> Stream:
    return TurnedStream(_sample(split, ask), ask.image_size)


def _sample(split: Split, ask: Request) -> Split:
    """Take num_samples images, seeded, with the classes' shares kept."""
    if ask.num_samples is None:
        return split
    return split.subset(stratified(split.task.strata(split.labels), ask.num_samples, ask.seed)[1])


CC, INSIDE, FETCHED = (
    "CC BY-SA 3.0",
    "nothing: inside the package",
    "one download, or files by hand",
)
MAT = "a folder with its .mat files"
RULE, APACHE = "nothing: made by a rule", "Apache 2.0"
TABLE = (
    Entry("digits", "6,000 digits of MNIST, 28×28", CC, INSIDE, _digits, centred),
    Entry("mnist", "70,000 handwritten digits, 28×28", CC, FETCHED, _mnist, centred, MNIST),
    Entry("fashion", "Fashion-MNIST, 28×28", "MIT", FETCHED, _fashion, centred, FASHION),
    Entry("cifar10", "60,000 photos, 32×32", "none stated", FETCHED, _cifar10, centred, CIFAR10),
    Entry("multimnist", "two overlapping digits, 36×36", CC, "mnist", _mnist, _overlaps, MNIST),
    Entry("multidigits", "two overlapping of the digits, 36×36", CC, INSIDE, _digits, _overlaps),
    Entry("crowds", "one to three digits, 48×48", CC, "mnist", _mnist, _crowds, MNIST),
    Entry("crowd_digits", "one to three of the digits, 48×48", CC, INSIDE, _digits, _crowds),
    Entry("small_crowds", "crowds of half size, 40×40", CC, "mnist", _mnist, _small_crowds, MNIST),
    Entry("hollow", "two to four outlines of shapes", "MIT", RULE, _hollow, _crowds_of_shapes),
    Entry("turned_digits", "the digits, and their angle is asked", CC, INSIDE, _digits, _turned),
    Entry("mnist40", "MNIST placed at random, 40×40", CC, "mnist", _mnist, _placed, MNIST),
    Entry("affnist_style", "affNIST-style warps, 40×40", CC, "mnist", _mnist, _warped, MNIST),
    Entry("affnist", "the original affNIST, 40×40", "none stated", MAT, _affnist, centred),
    Entry("dsprites", "dSprites, 64×64", APACHE, FETCHED, _dsprites, _posed, DSPRITES),
    Entry("dsprites_pose", "dSprites' pose", APACHE, "dsprites", _dsprites_pose, _posed, DSPRITES),
    Entry("scenes", "a flat shape anywhere, any size", "MIT", RULE, _scenes, _posed),
    Entry("scenes_pose", "scenes, and the pose is asked", "MIT", RULE, _scenes_pose, _posed),
    Entry("scenes_several", "one to three flat shapes", "MIT", RULE, _scenes_several, _posed),
    Entry("smallnorb", "stereo toys, 96×96", "research only", MAT, _smallnorb, _as_loaded),
)
FOLDER = Entry("folder:PATH", "your own pictures, or a table", "yours", "them", _folder, _as_loaded)
