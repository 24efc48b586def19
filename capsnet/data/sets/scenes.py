"""Scenes: squares, ellipses, triangles and hearts of any place, size and angle, made from a seed.

One shape for each image (which one?), or one to three different ones apart from each other (which
are there?); the pose of each is kept as factors. The same seed gives the same poses everywhere,
and the same images but for a grey level where a CPU rounds otherwise. Poses are parts of the
canvas, so that the same scenes can be had in any size.

Usage: split = load_scenes("train", size=40); split.factors.values  # x, y, scale, rotation
"""

from itertools import combinations

import numpy as np
import torch

from capsnet.data.sets.shapes import DISTANCES, PERIODS, REACH, draw_shape
from capsnet.data.splits.factors import Factors
from capsnet.data.splits.split import Split
from capsnet.errors import UserError
from capsnet.tasks import SeveralLabels

SHAPES = tuple(DISTANCES)
COUNTS = {"train": 20_000, "test": 5_000}
SEED = 2017
SIZE = 40  # px, unless asked otherwise
SMALLEST = 8
SCALES = (0.10, 0.18)  # radius of the circle with a shape's area, as part of the canvas
SCALES_OF_SEVERAL = (0.08, 0.13)
POSE = ("x", "y", "scale", "rotation")
MOST = 3  # shapes in an image of several
TRIES = 64  # ways to place several, of which the first that keeps them apart is taken
APART = 0.02  # of the canvas, between the circles around two shapes where that can be had


def load_scenes(
    split: str, size: int | None = None, num: int | None = None, seed: int = SEED
) -> Split:
    """Return images [M, 1, size, size] of one shape each, labelled by it; factors: its pose.

    Args:
        split: "train" (20,000 images) or "test" (5,000), drawn apart.
        size: Side of the images in pixels; by default 40.
        num: Another number of images; they are other ones then.
        seed: Of everything that is drawn.
    """
    size, num, random = _asked(split, size, num, seed)
    labels = random.integers(len(SHAPES), size=num)
    pose = _draw_poses(random, num, 1, SCALES)[:, 0]
    images = np.zeros((num, size, size), np.uint8)
    for k, shape in enumerate(SHAPES):
        rows = labels == k
        images[rows] = _bytes(draw_shape(shape, pose[rows], size))
    periods = np.zeros_like(pose)
    periods[:, POSE.index("rotation")] = np.array([PERIODS[shape] for shape in SHAPES])[labels]
    factors = Factors(POSE, _ranges(SCALES), _float(pose), _float(periods))
    return Split(
        torch.from_numpy(images)[:, None], torch.from_numpy(labels), SHAPES, (), (), factors
    )


def load_several(
    split: str, size: int | None = None, num: int | None = None, seed: int = SEED
) -> Split:
    """Return images [M, 1, size, size] of one to three different shapes; labels say which.

    The factors are the pose of each shape, "square x" to "heart rotation", NaN where it is not.
    The arguments are those of `load_scenes`.
    """
    size, num, random = _asked(split, size, num, seed)
    many = random.integers(1, MOST + 1, size=num)
    order = random.random((num, len(SHAPES))).argsort(axis=1)  # the first `many` are there
    poses = _draw_poses(random, num, MOST, SCALES_OF_SEVERAL)
    canvas = np.zeros((num, size, size), np.uint8)
    values = np.full((num, len(SHAPES), len(POSE)), np.nan)
    for place in range(MOST):
        for k, shape in enumerate(SHAPES):
            rows = (order[:, place] == k) & (place < many)
            values[rows, k] = poses[rows, place]
            drawn = _bytes(draw_shape(shape, poses[rows, place], size))
            canvas[rows] = np.maximum(canvas[rows], drawn)
    table = torch.from_numpy(~np.isnan(values[:, :, 0])).long()
    periods = np.zeros_like(values)
    periods[:, :, POSE.index("rotation")] = [PERIODS[shape] for shape in SHAPES]
    names = tuple(f"{shape} {name}" for shape in SHAPES for name in POSE)
    factors = Factors(
        names,
        _ranges(SCALES_OF_SEVERAL) * len(SHAPES),
        _float(values.reshape(num, -1)),
        _float(periods.reshape(num, -1)),
    )
    images = torch.from_numpy(canvas)[:, None]
    return Split(images, table, SeveralLabels(SHAPES), factors=factors)


def _asked(
    split: str, size: int | None, num: int | None, seed: int
) -> tuple[int, int, np.random.Generator]:
    size, num = size or SIZE, num or COUNTS[split]
    if size < SMALLEST:
        raise UserError(f"Shapes cannot be told on {size} px; ask for {SMALLEST} or more.")
    return size, num, np.random.default_rng([seed, list(COUNTS).index(split)])


def _draw_poses(
    random: np.random.Generator, num: int, many: int, scales: tuple[float, float]
) -> np.ndarray:
    """Draw poses [num, many, 4] that stay on the canvas, each factor uniform by itself.

    Of several shapes in an image the places depend on each other: of some ways to place them the
    first that keeps them apart is taken, or else the one that keeps them farthest.
    """
    scale = random.uniform(*scales, size=(num, many))
    angle = random.uniform(0, 360, size=(num, many))
    margin = REACH * scales[1]
    tries = TRIES if many > 1 else 1
    places = random.uniform(margin, 1 - margin, size=(num, tries, many, 2))
    chosen = np.zeros(num, np.int64)
    if many > 1:
        clear = np.full((num, tries), np.inf)
        for a, b in combinations(range(many), 2):
            between = np.hypot(*np.moveaxis(places[:, :, a] - places[:, :, b], -1, 0))
            clear = np.minimum(clear, between - REACH * (scale[:, a] + scale[:, b])[:, None])
        chosen = np.where((clear >= APART).any(1), (clear >= APART).argmax(1), clear.argmax(1))
    x, y = np.moveaxis(places[np.arange(num), chosen], -1, 0)
    return np.stack([x, y, scale, angle], axis=-1)


def _ranges(scales: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    place = (REACH * scales[1], 1 - REACH * scales[1])
    return (place, place, scales, (0.0, 360.0))


def _bytes(images: np.ndarray) -> np.ndarray:
    return np.rint(255 * images).astype(np.uint8)


def _float(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values).float()
