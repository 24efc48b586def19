"""Folders of pictures with known faults, for tests."""

import csv

import numpy as np
from PIL import Image


def noise(seed, shape=(12, 12), high=256, dtype=np.uint8):
    """Return smooth noise, so that a small change is a small change."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, high, (4, 4, *shape[2:])).astype(np.float64)
    rows, cols = (np.linspace(0, 3, n).round().astype(int) for n in shape[:2])
    return (small[rows][:, cols] * 0.9 + rng.integers(0, high // 10, shape)).astype(dtype)


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def patients(root, classes=("benign", "malignant"), people=6, slices=4, start=0):
    """Fill ROOT/CLASS/PATIENT/NODULE/*.png."""
    for c, name in enumerate(classes):
        for p in range(people):
            for s in range(slices):
                seed = 10_000 * start + 1000 * c + 10 * p + s
                save(root / name / f"{name[0]}{start + p}" / f"n{s % 2}" / f"{s}.png", noise(seed))
    return root


def table(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(
            [header, *rows]
        )
    return path
