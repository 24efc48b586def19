"""A raw folder of pictures, as people have them: CLASS/WHOM/*.png, from data that scikit-learn has.

python examples/own_pictures.py scans
capsnet data check scans --class-from 1 --group-from 2 --image-size 28
capsnet train --data scans --class-from 1 --group-from 2 --image-size 28 --model capsnet_small \
    --folds 3 --epochs 40 --out runs/scans
capsnet report runs/scans

The 1,797 digits were written by 13 people one after the other; who wrote which is not told, so
that the groups here are 13 parts of equal length in their order.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

PEOPLE = 13


def write_folder(root: Path, classes: int = 10) -> None:
    """Write the pictures of the first classes, 8×8 grey, below a folder."""
    digits = load_digits()
    for k, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        if label >= classes:
            continue
        folder = root / str(label) / f"part{1 + k * PEOPLE // len(digits.target):02}"
        folder.mkdir(parents=True, exist_ok=True)
        grey = (pixels * 255 / 16).round().astype(np.uint8)
        Image.fromarray(grey).save(folder / f"{k:04}.png")


if __name__ == "__main__":
    write_folder(Path(sys.argv[1]))
