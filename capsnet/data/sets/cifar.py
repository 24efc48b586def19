"""CIFAR-10 from verified files: 50,000 + 10,000 photos of ten kinds, 32×32 in colour.

Usage: split = load_cifar10("train")
"""

from pathlib import Path

import numpy as np
import torch

from capsnet.data.sources.known import CIFAR10
from capsnet.data.sources.locate import locate
from capsnet.data.splits.split import Split
from capsnet.errors import UserError

KINDS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
FILES = {
    "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("test_batch.bin",),
}
RECORD = 1 + 3 * 32 * 32


def load_cifar10(split: str, folder: str | Path | None = None) -> Split:
    """Return the "train" [50000, 3, 32, 32] or "test" [10000, 3, 32, 32] split of CIFAR-10."""
    located = locate(CIFAR10, FILES[split], folder)
    parts = [read_records(located.pop(name).raw, name) for name in FILES[split]]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Split(torch.from_numpy(images), torch.from_numpy(labels).long(), KINDS)


def read_records(raw: bytes, name: str = "this file") -> tuple[np.ndarray, np.ndarray]:
    """Return images uint8 [M, 3, 32, 32] and labels uint8 [M] of a binary file."""
    if not raw or len(raw) % RECORD:
        raise UserError(f"{name} is no binary file of CIFAR-10, or cut; give the original file.")
    rows = np.frombuffer(raw, np.uint8).reshape(-1, RECORD)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]
