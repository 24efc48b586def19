"""Flat shapes as signed distances, so that their edges are smooth at any size and angle.

A shape is a function of places (x, y), y down, to the distance from its edge, negative inside. All
have the area pi of the unit circle, so that the amount of white tells nothing of the shape. A pixel
is as bright as it is covered: clamp(1/2 - d, 0, 1), d its distance in pixels.

Usage: images = draw_shape("heart", pose, 40)  # pose [M, 4]: x, y, scale, rotation in degrees
"""

from collections.abc import Callable
from math import cos, pi, radians, sin, sqrt

import numpy as np

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]
BLOCK = 1024


def _square(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(x), np.abs(y)) - sqrt(pi) / 2


def _ellipse(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return f / |grad f|, the distance to first order; the axes are as 2 to 1."""
    a, b = sqrt(2), sqrt(1 / 2)
    radius = np.hypot(x / a, y / b)
    slope = np.hypot(x / a**2, y / b**2)
    # In the middle both are 0, and the edge is the short axis away.
    return np.where(slope > 0, radius * (radius - 1) / np.where(slope > 0, slope, 1), -b)


def _triangle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    inner = sqrt(pi / (3 * sqrt(3)))  # radius of the circle inside; one corner points up
    sides = [x * sin(t) + y * cos(t) for t in (0, radians(120), radians(240))]
    return np.maximum.reduce(sides) - inner


def _heart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return that of a square on its corner with half a disc on each of its upper sides."""
    half = sqrt(pi / (4 + pi))  # half a side: 4 half² + pi half² = pi
    y = y - half * (pi + 4 / 3) / (sqrt(2) * (4 + pi))  # its centre of mass is the origin
    along, across = (x + y) / sqrt(2), (x - y) / sqrt(2)
    square = np.maximum(np.abs(along), np.abs(across)) - half
    left = np.hypot(along + half, across) - half
    right = np.hypot(along, across - half) - half
    return np.minimum(square, np.minimum(left, right))


DISTANCES: dict[str, Distance] = {
    "square": _square,
    "ellipse": _ellipse,
    "triangle": _triangle,
    "heart": _heart,
}
# After how many degrees each looks the same again.
PERIODS = {"square": 90.0, "ellipse": 180.0, "triangle": 120.0, "heart": 360.0}
REACH = 1.56  # no point of a shape of scale 1 is farther from its origin: the triangle's corners


def draw_shape(name: str, pose: np.ndarray, size: int) -> np.ndarray:
    """Return images float32 [M, size, size], each of one shape, white 1 on black 0.

    Args:
        name: One of DISTANCES.
        pose: float [M, 4]: x and y of the origin and the scale as parts of the canvas, and the
            rotation in degrees, clockwise.
        size: Side of the images in pixels.

    Example:
        >>> draw_shape("square", np.array([[0.5, 0.5, 0.2, 45.0]]), 32).shape
        (1, 32, 32)
    """
    return _drawn(name, pose, size, lambda d: d)


def draw_outline(name: str, pose: np.ndarray, size: int, width: float) -> np.ndarray:
    """Return images float32 [M, size, size] of outlines `width` pixels wide, as `draw_shape`."""
    return _drawn(name, pose, size, lambda d: np.abs(d) - width / 2)


def _drawn(
    name: str, pose: np.ndarray, size: int, distance: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Draw what lies within a distance, in pixels, that is made of that from the edge."""
    from_edge = DISTANCES[name]
    centres = (np.arange(size, dtype=np.float32) + 0.5) / size
    images = np.empty((len(pose), size, size), np.float32)
    for start in range(0, len(pose), BLOCK):
        x, y, scale, angle = pose[start : start + BLOCK].T[:, :, None, None]
        # Cosines of 32 bits differ from one CPU to the next, and a few pixels with them.
        c, s = np.cos(np.radians(angle)) / scale, np.sin(np.radians(angle)) / scale
        x, y, scale, c, s = (each.astype(np.float32) for each in (x, y, scale, c, s))
        right, down = centres[None, None, :] - x, centres[None, :, None] - y
        d = from_edge(c * right + s * down, c * down - s * right) * scale * size
        images[start : start + BLOCK] = np.clip(0.5 - distance(d), 0, 1)
    return images
