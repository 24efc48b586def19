"""affNIST in its original Matlab files: 40×40, the columns of a 1600 × M matrix are the images.

Usage: split = load_affnist(folder, "test")
"""

from pathlib import Path

import numpy as np
import torch

from capsnet.data.sets.matlab import read_struct
from capsnet.data.splits.split import Split
from capsnet.errors import UserError

FILES = {
    "train": ("training_and_validation.mat", "training_and_validation_batches/*.mat"),
    "test": ("test.mat", "test_batches/*.mat"),
}
SIDE = 40


def load_affnist(folder: str | Path, split: str) -> Split:
    """Return all images [M, 1, 40, 40] of the "train" or "test" files in `folder`."""
    for pattern in FILES[split]:
        if paths := sorted(Path(folder).glob(pattern)):
            parts = [read_affnist(path) for path in paths]
            images = torch.from_numpy(np.concatenate([part[0] for part in parts]))
            labels = torch.from_numpy(np.concatenate([part[1] for part in parts]))
            return Split(images, labels, tuple("0123456789"))
    raise UserError(
        f"affNIST's original files are needed: place {' or '.join(FILES[split])} in {folder}."
    )


def read_affnist(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images uint8 [M, 1, 40, 40] and labels int64 [M] of one file."""
    if not path.is_file():  # a pipe would be waited for without end
        raise UserError(f"{path} is no file; give the original file.")
    try:
        data = read_struct(path.read_bytes(), "affNISTdata", ("image", "label_int"))
        pixels, labels = data["image"], data["label_int"]
        images = np.ascontiguousarray(pixels.reshape(SIDE * SIDE, -1).T, dtype=np.uint8)
        labels = labels.astype(np.int64).reshape(-1)
        if len(labels) != len(images):
            raise ValueError(f"{len(labels)} labels of {len(images)} images")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is not an affNIST file ({error}); give the original file."
        ) from None
    return images.reshape(-1, 1, SIDE, SIDE), labels
