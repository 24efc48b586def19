"""Test images to start from, and pictures of the visitor's own.

samples = open_samples(net); page = samples.page(0)
"""

import io

import torch
from PIL import Image
from torch import Tensor

from capsnet.data import Entry, ImageStream, Split, find_data, locate, open_data, read_image
from capsnet.data.sets.digits import load_digits
from capsnet.data.sources.locate import MNIST
from capsnet.errors import UserError
from capsnet.web.nets import Net
from capsnet.web.schema import Sample, pack_pixels

MAX_PICTURE_PIXELS = 1024 * 1024  # the page makes larger ones smaller
MAX_SCANS = 100  # of a JPEG; a progressive one has about ten
MAX_PER_PAGE = 20


class Samples:
    """Test images in pages: each page has the next image of each class."""

    def __init__(self, images: Tensor, labels: Tensor, num_classes: int) -> None:
        """Keep images uint8 [M, C, H, W] by their labels [M]."""
        self.images = images
        self.by_class = [(labels == j).nonzero().flatten().tolist() for j in range(num_classes)]

    def page(self, number: int) -> list[Sample]:
        """Return the page with that number; a class with fewer images starts again."""
        J = len(self.by_class)
        return [
            Sample(
                number=number * J + j,
                label=j,
                image=pack_pixels(self.images[rows[number % len(rows)]] / 255),
            )
            for j, rows in enumerate(self.by_class[:MAX_PER_PAGE])
            if rows
        ]


def reads_digits(net: Net) -> bool:
    """Whether a model was trained on MNIST's digits, in whatever arrangement."""
    try:
        entry, _ = find_data(net.data)
    except UserError:
        return False
    return entry.source is MNIST or "digits" in entry.name


def open_samples(net: Net) -> Samples | None:
    """Return test images of a model's own data, if they are on this machine."""
    channels, size, _ = net.model.image_shape
    try:
        split = load_digits("test") if reads_digits(net) else _own_data(net)
        stream = ImageStream(split, canvas=size)
    except UserError:
        return None
    if len(split.classes) != net.model.num_classes or split.image_shape[0] not in (1, channels):
        return None
    images = (stream.batch(stream.plan(None)).images * 255).round().byte()
    return Samples(images.expand(-1, channels, -1, -1), split.labels, len(split.classes))


def digit_samples() -> Samples:
    """Return the embedded digits as they are, for laying two over each other."""
    split = load_digits("test")
    return Samples(split.images, split.labels, len(split.classes))


def _own_data(net: Net) -> Split:
    """Open the test images that a run was measured on, without going to the network."""
    config = net.card["config"]
    folder = config.get("data_folder")
    entry: Entry = find_data(net.data)[0]
    if entry.source is not None:
        locate(entry.source, folder=folder, online=False)
    channels, size, _ = net.model.image_shape
    return open_data(
        net.data,
        "test",
        folder=folder,
        image_size=size,
        channels=channels,
        seed=config.get("data_seed", 0),
    ).split


class Upload(io.BytesIO):
    """The bytes of a picture file, under a name that error messages can use."""

    def __str__(self) -> str:
        return "This picture"


def read_upload(body: bytes, net: Net, invert: bool, centre: bool) -> Tensor:
    """Return an uploaded PNG or JPEG as pixels [C, H, W] in [0, 1], by the rules of read_image."""
    try:
        with Image.open(io.BytesIO(body), formats=("PNG", "JPEG")) as picture:
            width, height = picture.size
            is_jpeg = picture.format != "PNG"
    except Exception:  # a damaged header makes Pillow raise nearly anything
        raise UserError("This is not a PNG or JPEG picture; choose another file.") from None
    if width * height > MAX_PICTURE_PIXELS:
        raise UserError(
            f"This picture has {width * height:,} pixels, more than {MAX_PICTURE_PIXELS:,}; "
            "make it smaller first."
        )
    if is_jpeg and body.count(b"\xff\xda") > MAX_SCANS:  # each would be decoded over all pixels
        raise UserError(f"This JPEG has more than {MAX_SCANS} scans; save it as a PNG first.")
    channels, size, _ = net.model.image_shape
    image = read_image(Upload(body), size, channels, invert, centre)  # type: ignore[arg-type]
    return image.to(torch.float32) / 255
