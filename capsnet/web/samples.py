"""Test images to start from, and pictures of the visitor's own.

samples = open_samples(net); page = samples.page(0)
"""

import io
from bisect import bisect_left
from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor

from capsnet.data import (
    Entry,
    ImageStream,
    Split,
    Stream,
    ahead,
    cut,
    find_data,
    locate,
    open_data,
)
from capsnet.data.registry import shows_digits
from capsnet.data.sets.digits import load_digits
from capsnet.errors import UserError
from capsnet.prediction.seeing import Look
from capsnet.tasks import OneLabel, Pairs
from capsnet.web.nets import Net
from capsnet.web.schema import Sample, pack_pixels

MAX_PICTURE_PIXELS = 1024 * 1024  # the page makes larger ones smaller
SMALLER = "make it smaller first."
MAX_SCANS = 100  # of a JPEG; a progressive one has about ten
MAX_PER_PAGE = 20
BATCH = 256  # images at a time, as numbers of four bytes


class Samples:
    """Test images in pages: each page has the next image of each class."""

    def __init__(self, images: Tensor, split: Split) -> None:
        """Keep images uint8 [M, C, H, W] of a split by their class; others in turn."""
        self.images, self.split = images, split
        task, J = split.task, len(split.task.names)
        order = split.labels if isinstance(task, OneLabel) else torch.arange(len(split)) % J
        self.groups = [(order == j).nonzero().flatten().tolist() for j in range(J)]
        self.order = order

    def place(self, row: int) -> tuple[int, int]:
        """Return the number that an image has on the page, and its place among the names."""
        label = int(self.order[row])
        return bisect_left(self.groups[label], row) * len(self.groups) + label, label

    def page(self, number: int) -> list[Sample]:
        """Return the page with that number; a class with fewer images starts again."""
        J = len(self.groups)
        return [
            self.sample(number * J + j, j, rows[number % len(rows)])
            for j, rows in enumerate(self.groups[:MAX_PER_PAGE])
            if rows
        ]

    def sample(self, number: int, label: int, row: int) -> Sample:
        """Return one image as the page takes it."""
        task, labels = self.split.task, self.split.labels[row : row + 1]
        said = task.say(task.batched(labels)[0])
        image = pack_pixels(self.images[row] / 255)
        return Sample(number=number, label=label, said=said, image=image)


def open_samples(net: Net) -> Samples | None:
    """Return test images of a model's own data, if they are on this machine."""
    channels, size, _ = net.model.image_shape
    try:
        if shows_digits(net.card.data) and isinstance(net.model.task, OneLabel | Pairs):
            split = load_digits("test")
            stream: Stream = ImageStream(split, canvas=size)
        else:
            stream = _own_data(net)
            split = stream.split
    except UserError:
        return None
    if stream.image_shape[1:] != net.model.image_shape[1:]:
        return None
    if len(stream.task.names) != len(net.classes) or stream.image_shape[0] not in (1, channels):
        return None
    pixels, labels = [], []
    for part in ahead(stream, stream.plan(None), cut(stream.num_samples, BATCH)):
        batch = stream.batch(part)
        pixels.append((batch.images * 255).round().byte())
        labels.append(batch.labels)
    images = torch.cat(pixels).expand(-1, channels, -1, -1)
    if not isinstance(split.task, OneLabel) or stream.task is not split.task:
        split = Split(images, torch.cat(labels), stream.task, split.files, split.groups)
    return Samples(images, split)


def digit_samples() -> Samples:
    """Return the embedded digits as they are, for laying two over each other."""
    split = load_digits("test")
    return Samples(split.images[:], split)


def _own_data(net: Net) -> Stream:
    """Open the test images that a run was measured on, without going to the network."""
    folder = (net.card.config or {}).get("data_folder")
    entry: Entry = find_data(net.card.data)[0]
    if entry.source is not None:
        locate(entry.source, folder=folder, online=False)
    channels, size, _ = net.model.image_shape
    return open_data(
        net.card.data,
        "test",
        folder=folder,
        image_size=size,
        channels=channels,
        **net.card.opening(net.card.data),
    )


class Upload(io.BytesIO):
    """The bytes of a picture file, under a name that error messages can use."""

    def __str__(self) -> str:
        return "This picture"


def read_upload(
    body: bytes, net: Net, as_is: bool = False, invert: bool = False, centre: bool = False
) -> Tensor:
    """Return an uploaded PNG or JPEG as pixels [C, H, W] in [0, 1], as `predict` sees it."""
    try:
        with Image.open(io.BytesIO(body), formats=("PNG", "JPEG")) as picture:
            width, height = picture.size
            is_jpeg = picture.format != "PNG"
    except Image.DecompressionBombError:
        raise UserError(f"This picture is far too large; {SMALLER}") from None
    except Exception:  # a damaged header makes Pillow raise nearly anything
        raise UserError("This is not a PNG or JPEG picture; choose another file.") from None
    if width * height > MAX_PICTURE_PIXELS:
        raise UserError(
            f"This picture has {width * height:,} pixels, but at most {MAX_PICTURE_PIXELS:,} are "
            f"taken; {SMALLER}"
        )
    if is_jpeg and body.count(b"\xff\xda") > MAX_SCANS:  # each would be decoded over all pixels
        raise UserError(f"This JPEG has more than {MAX_SCANS} scans; save it as a PNG first.")
    look = Look.of(net.model, net.card, as_is, invert, centre)
    # A browser has brought it to 8 bits, whatever the depth of the file.
    return replace(look, reading=replace(look.reading, window=None))(Upload(body)).pixels
