"""Synthetic photos of digits on paper, seeded: what people send who try a digit network.

path = make_photo(seed=3).write(folder, "3.jpg")
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from capsnet.data import Split
from capsnet.data.sets.digits import load_digits

EXIF_TURN = 0x0112
TURNS = {  # how the sensor's picture is turned, so that the mark turns it back
    1: None,
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}


@dataclass(frozen=True)
class Photo:
    """A picture as the sensor has it, its mark of how to turn it, and which digit it shows."""

    picture: Image.Image
    turn: int
    digit: int

    def write(self, folder: Path, name: str) -> Path:
        """Write it as a JPEG, or as a PNG where its name says so."""
        path = folder / name
        exif = Image.Exif()
        exif[EXIF_TURN] = self.turn
        options = {"quality": 88} if path.suffix == ".jpg" else {}
        self.picture.save(path, exif=exif, **options)
        return path


def make_photo(seed: int, light_on_dark: bool = False) -> Photo:
    """Draw a test digit with some pen on some paper in some light."""
    draw = np.random.default_rng([2017, seed])
    split = digits()
    index = int(draw.integers(len(split)))
    height, width = (int(draw.integers(160, 700)) for _ in range(2))
    ink = written(split.images[index, 0].numpy(), draw, height, width)
    ink = blur(ink, draw.uniform(0, 0.004) * max(height, width))
    paper = np.full((height, width), draw.uniform(180, 255))
    if draw.random() < 0.2:
        paper *= 1 - 0.12 * ruling(draw, height, width)
    paper -= draw.uniform(0, 3) * blur(draw.standard_normal((height, width)), 3) * 6
    ground = paper * light(draw, height, width)
    pen = draw.uniform(0.05, 0.45)  # how much light the ink gives back
    page = ground * (1 - ink * (1 - pen))
    if light_on_dark:
        page = 255 - page
    page += draw.uniform(0, 10) * draw.standard_normal(page.shape)
    grey = Image.fromarray(page.clip(0, 255).astype(np.uint8))
    picture = Image.merge("RGB", [grey] * 3)
    turn = int(draw.choice(list(TURNS)))
    if TURNS[turn] is not None:
        picture = picture.transpose(TURNS[turn])
    return Photo(picture, turn, int(split.labels[index]))


@cache
def digits() -> Split:
    """Return the embedded test digits, read once."""
    return load_digits("test")


def written(digit: np.ndarray, draw: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return the ink [H, W], 0 to 1, of a digit written somewhere with a thin or thick pen."""
    side = int(draw.uniform(0.35, 0.85) * min(height, width))
    large = Image.fromarray(digit).resize((side, side), Image.Resampling.BICUBIC)
    soft = blur(np.asarray(large, float) / 255, side / 56)
    strokes = ((soft - draw.uniform(0.22, 0.5)) * 12 + 0.5).clip(0, 1)
    page = np.zeros((height, width))
    top, left = int(draw.integers(height - side + 1)), int(draw.integers(width - side + 1))
    page[top : top + side, left : left + side] = strokes
    return page


def light(draw: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return how bright [H, W] the light is: a gradient, and often a shadow with a soft edge."""
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    angle = draw.uniform(0, 2 * np.pi)
    along = np.cos(angle) * x + np.sin(angle) * y
    shine = 1 - draw.uniform(0, 0.3) * (along - along.min()) / np.ptp(along)
    if draw.random() < 0.5:
        angle = draw.uniform(0, 2 * np.pi)
        edge = np.cos(angle) * x + np.sin(angle) * y - draw.uniform(-0.6, 0.6)
        shine *= 1 - draw.uniform(0.05, 0.3) / (1 + np.exp(-edge / draw.uniform(0.02, 0.2)))
    return shine


def ruling(draw: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return where [H, W] the paper has lines."""
    gap = int(draw.integers(20, 60))
    lines = (np.arange(height) % gap < max(1, gap // 20)).astype(float)
    return np.repeat(lines[:, None], width, axis=1)


def blur(x: np.ndarray, radius: float) -> np.ndarray:
    """Return the picture blurred by a Gaussian, in 256 levels."""
    low, high = float(x.min()), float(x.max())
    if radius < 0.3 or high == low:
        return x
    levels = Image.fromarray(((x - low) / (high - low) * 255).astype(np.uint8))
    soft = np.asarray(levels.filter(ImageFilter.GaussianBlur(radius)), float)
    return soft / 255 * (high - low) + low
