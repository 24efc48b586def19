"""The shape of a stroke, from the moments of its picture: thick, slanted, wide, high, turned.

shapes = stroke_shapes(pictures); told = meanings(steps, before=shapes, after=changed_shapes)
"""

from typing import NamedTuple

import numpy as np

PROPERTIES = ("thickness", "slant", "width", "height", "rotation")
UNITS = ("px", "px per px", "px", "px", "°")
TURN = 180.0  # degrees after which a rotation is the same again
BACKGROUND = 0.1  # of white: what is darker is no ink


def stroke_shapes(pictures: np.ndarray) -> np.ndarray:
    """Return the PROPERTIES [..., 5] of pictures [..., H, W] in 0 … 1, white on black.

    With the moments m_xy of the ink p (x to the right, y upwards) about its centre:

    thickness   2 sum p / sum |grad p|: area over half the outline
    slant       m_11 / m_02: how far it leans to the right for each pixel upwards
    width       sqrt(12 m_20), height sqrt(12 m_02): those of an even bar with these moments
    rotation    of the long axis from upright, in degrees clockwise, -90 to 90

    A picture without ink has zeros.
    """
    p = np.clip(np.asarray(pictures, np.float64) - BACKGROUND, 0, None)
    H, W = p.shape[-2:]
    ink = p.sum((-2, -1))
    safe = np.where(ink > 0, ink, 1)
    x, y = np.arange(W), -np.arange(H)[:, None]

    def mean(q: np.ndarray) -> np.ndarray:
        return (p * q).sum((-2, -1)) / safe

    dx, dy = x - mean(x)[..., None, None], y - mean(y)[..., None, None]
    m20, m02, m11 = mean(dx * dx), mean(dy * dy), mean(dx * dy)
    edged = np.pad(p, [(0, 0)] * (p.ndim - 2) + [(1, 1), (1, 1)])
    across = np.diff(edged, axis=-1)[..., :-1, :]
    down = np.diff(edged, axis=-2)[..., :, :-1]
    outline = np.hypot(across, down).sum((-2, -1))
    columns = (
        2 * ink / np.where(outline > 0, outline, 1),
        m11 / np.where(m02 > 1e-9, m02, np.inf),
        np.sqrt(12 * m20),
        np.sqrt(12 * m02),
        np.degrees(0.5 * np.arctan2(2 * m11, m02 - m20)),
    )
    return np.stack(columns, -1) * (ink > 0)[..., None]


def shape_changes(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return by how much properties [..., 5] changed; a rotation goes the shorter way."""
    change = after - before
    turned = change[..., -1]
    change[..., -1] = (turned + TURN / 2) % TURN - TURN / 2
    return change


class Meanings(NamedTuple):
    """What each dimension does to the PROPERTIES of a drawing."""

    r: np.ndarray  # [E, 5], correlation of what is added to the number with the change
    slope: np.ndarray  # [E, 5], the change for each unit that is added, least squares


def meanings(steps: np.ndarray, before: np.ndarray, after: np.ndarray) -> Meanings:
    """Return what each of E dimensions means, over N images of one class.

    Args:
        steps: what was added to a number [S], or to each its own [E, S].
        before: properties [N, 5] of what is drawn of the capsules as they are.
        after: those [N, E, S, 5] of what is drawn of the changed ones.
    """
    changes = shape_changes(before[:, None, None], after)
    added = np.broadcast_to(np.asarray(steps, np.float64), changes.shape[1:3])[None, :, :, None]
    moved = np.broadcast_to(added, changes.shape)
    axes = (0, 2)
    apart = moved - moved.mean(axes, keepdims=True), changes - changes.mean(axes, keepdims=True)
    both = (apart[0] * apart[1]).sum(axes)
    squares = [(x * x).sum(axes) for x in apart]
    size = np.sqrt(squares[0] * squares[1])
    r = np.where(size > 1e-12, both / np.maximum(size, 1e-12), 0.0)
    return Meanings(r, both / np.maximum(squares[0], 1e-12))
