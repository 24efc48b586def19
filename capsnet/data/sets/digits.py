"""The embedded sample: 5,000 + 1,000 MNIST digits inside the package, for work with no network.

500 of each class come from MNIST's training set and 100 of each from its test set, evenly spaced
in the order of the original files.

Usage: split = load_digits("test")
"""

import io
from pathlib import Path

import numpy as np
import torch

from capsnet.data.sets.mnist import DIGITS, load_mnist
from capsnet.data.splits.split import Split
from capsnet.files import read_shipped, whole_file

FILE = Path(__file__).parents[2] / "assets" / "digits.npz"
PER_CLASS = {"train": 500, "test": 100}


def load_digits(split: str) -> Split:
    """Return the embedded "train" [5000, 1, 28, 28] or "test" [1000, 1, 28, 28] split."""
    with np.load(io.BytesIO(read_shipped(FILE))) as arrays:
        images = torch.from_numpy(arrays[f"{split}_images"])[:, None]
        labels = torch.from_numpy(arrays[f"{split}_labels"]).long()
    return Split(images, labels, DIGITS)


def make_digits(target: str | Path, folder: str | Path | None = None) -> None:
    """Write the sample anew from the verified MNIST files."""
    arrays = {}
    for split, per_class in PER_CLASS.items():
        full = load_mnist(split, folder)
        labels = full.labels.numpy()
        rows = [np.flatnonzero(labels == digit) for digit in range(10)]
        picked = [row[np.linspace(0, len(row) - 1, per_class).round().astype(int)] for row in rows]
        order = np.sort(np.concatenate(picked))
        arrays[f"{split}_images"] = full.images[:][:, 0].numpy()[order]
        arrays[f"{split}_labels"] = labels[order].astype(np.uint8)
    with whole_file(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
