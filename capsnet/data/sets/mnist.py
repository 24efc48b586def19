"""MNIST and Fashion-MNIST from verified files: 60,000 + 10,000 images of 28×28.

Usage: split = load_mnist("train")
"""

from pathlib import Path

import torch

from capsnet.data.sets.idx import read_idx
from capsnet.data.sources.known import FASHION, MNIST
from capsnet.data.sources.locate import Source, locate
from capsnet.data.splits.split import Split

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
PREFIX = {"train": "train", "test": "t10k"}


def load_mnist(split: str, folder: str | Path | None = None) -> Split:
    """Return the "train" [60000, 1, 28, 28] or "test" [10000, 1, 28, 28] split of MNIST."""
    return _load(MNIST, DIGITS, split, folder)


def load_fashion(split: str, folder: str | Path | None = None) -> Split:
    """Return the "train" [60000, 1, 28, 28] or "test" [10000, 1, 28, 28] split of Fashion-MNIST."""
    return _load(FASHION, CLOTHES, split, folder)


def _load(source: Source, classes: tuple[str, ...], split: str, folder: str | Path | None) -> Split:
    names = [f"{PREFIX[split]}-images-idx3-ubyte", f"{PREFIX[split]}-labels-idx1-ubyte"]
    located = locate(source, names, folder)
    images, labels = (read_idx(located[name].raw, name) for name in names)
    return Split(torch.tensor(images)[:, None], torch.tensor(labels).long(), classes)
