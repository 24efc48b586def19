"""Hollow shapes: outlines anywhere on a small canvas, to be laid over each other.

split = load_hollow("train")  # images [20000, 1, 40, 40]

After the recipe by which AKOrN and the complex autoencoders are tried: thin outlines of few
shapes, so that what belongs together is told by form alone. Ours are those of scenes.
"""

import numpy as np
import torch

from capsnet.data.sets.shapes import DISTANCES, REACH, draw_outline
from capsnet.data.splits.split import Split
from capsnet.errors import UserError

SIZE = 40
SMALLEST = 24
COUNTS = {"train": 20_000, "test": 5_000}
SCALES = (0.11, 0.16)
WIDTH = 1.6  # of an outline, in pixels
SEED = 2025


def load_hollow(split: str, size: int | None = None, num: int | None = None) -> Split:
    """Return images [M, 1, size, size] of one outline each, labelled by its shape.

    Args:
        split: "train" (20,000 images) or "test" (5,000), drawn apart.
        size: Side of the images in pixels; by default 40.
        num: Another number of images.
    """
    size, num = size or SIZE, num or COUNTS[split]
    if size < SMALLEST:
        raise UserError(f"Outlines cannot be told on {size} px; ask for {SMALLEST} or more.")
    random = np.random.default_rng([SEED, list(COUNTS).index(split)])
    labels = random.integers(len(DISTANCES), size=num)
    margin = REACH * SCALES[1]
    pose = np.stack(
        [
            *random.uniform(margin, 1 - margin, size=(2, num)),
            random.uniform(*SCALES, size=num),
            random.uniform(0, 360, size=num),
        ],
        axis=1,
    )
    images = np.zeros((num, size, size), np.uint8)
    for k, shape in enumerate(DISTANCES):
        rows = labels == k
        images[rows] = np.rint(255 * draw_outline(shape, pose[rows], size, WIDTH)).astype(np.uint8)
    return Split(torch.from_numpy(images)[:, None], torch.from_numpy(labels), tuple(DISTANCES))
