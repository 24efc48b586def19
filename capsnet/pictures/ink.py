"""Ink on paper as MNIST has it: bright strokes on black, whatever the paper, the light and the pen.

The paper is what remains when everything narrower than a window is filled (a closing, or an opening
for light ink); the ink is what differs from it by more than the noise. Specks, rulings and what
comes in from the edge are dropped, and very thin or thick pens are brought to MNIST's strokes.

Usage: ink = find_ink(grey)  # float [H, W] of any size -> uint8 [h, w], to be centred
"""

from collections.abc import Callable

import numpy as np
from PIL import Image

WORK_SIDES = (192, 256)  # of the picture in which ink is looked for
SMALL_INK = 96  # ink smaller than this in it is looked at again from nearer
WINDOW = 1 / 4  # of the longer side: strokes are narrower, shadows are wider
LEAST_CONTRAST = 0.06  # of white, between paper and ink
LEAST_SIGNAL = 6.0  # times the noise of the paper
STROKES = (0.09, 0.16)  # width of a stroke over the height of the ink: nearly all of MNIST's
Pick = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Blank(ValueError):
    """There is no ink on the picture."""


def find_ink(grey: np.ndarray, white: float = 255.0) -> np.ndarray:
    """Return the ink of a grey picture as uint8 [h, w], bright on black, cropped to its box.

    Args:
        grey: Levels [H, W], upright, of any range and size; paper may be dark and ink light.
        white: The largest level that the picture could have.

    Raises:
        Blank: Nothing on it differs from its paper.
    """
    grey = np.asarray(grey, dtype=np.float32) / white
    top, left, bottom, right = 0, 0, *grey.shape
    for _ in range(3):  # small ink on a large page is looked at from nearer
        part = grey[top:bottom, left:right]
        seen, scale = _sized(part)
        ink = _strokes(seen)
        rows, cols = _box(ink)
        side = max(rows[1] - rows[0], cols[1] - cols[0])
        if side >= SMALL_INK or scale <= 1:
            break
        top, bottom = _around(rows, side, scale, top, bottom)
        left, right = _around(cols, side, scale, left, right)
    ink = np.pad(ink[rows[0] : rows[1], cols[0] : cols[1]], 1)
    return (_even_strokes(ink) * 255).round().astype(np.uint8)


def is_clean(grey: np.ndarray) -> bool:
    """Return whether a picture is bright ink on black already, as MNIST's are: its rim is black."""
    rim = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    return bool(np.mean(rim == 0) > 0.9 and np.mean(grey == 0) > 0.4 and grey.max() > 0)


def _sized(grey: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a picture whose longer side lies in WORK_SIDES, and how many pixels one of it was."""
    longer = max(grey.shape)
    wanted = min(max(longer, WORK_SIDES[0]), WORK_SIDES[1])
    if wanted == longer:
        return grey, 1.0
    scale = longer / wanted
    height, width = (max(1, round(side / scale)) for side in grey.shape)
    how = Image.Resampling.BOX if scale > 1 else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(grey).resize((width, height), how)), scale


def _around(
    span: tuple[int, int], side: int, scale: float, start: int, end: int
) -> tuple[int, int]:
    """Return the span of ink in the whole picture, with as much paper on each side."""
    low, high = span[0] - side, span[1] + side
    return max(start, start + int(low * scale)), min(end, start + int(np.ceil(high * scale)))


def _strokes(seen: np.ndarray) -> np.ndarray:
    """Return how much ink [H, W] each pixel has, 0 to 1."""
    smooth = _blurred(seen)
    if _is_dark_on_light(smooth):
        smooth = -smooth
    radius = max(2, round(WINDOW * max(seen.shape) / 2))
    signal = smooth - _opened(smooth, radius)
    some = signal[::2, ::2]  # enough for medians
    ground = float(np.median(some))
    noise = 1.4826 * float(np.median(np.abs(some - ground)))
    signal -= ground
    peak = float(signal.max())
    if peak < max(LEAST_CONTRAST, LEAST_SIGNAL * noise):
        raise Blank
    contrast = float(signal[signal > peak / 2].mean())
    line = max(0.4 * contrast, 4 * noise)
    keep = _figure(signal > line, signal)
    if not keep.any():
        raise Blank
    low = max(0.2 * contrast, 3 * noise)
    ink = np.clip((signal - low) / max(0.8 * contrast - low, 1e-6), 0, 1)
    return np.where(_slide(keep, 2, np.maximum), ink, 0)


def _blurred(x: np.ndarray) -> np.ndarray:
    """Return the picture smoothed by (1, 2, 1) / 4 in both directions."""
    for axis in (0, 1):
        ends = [(1, 1) if n == axis else (0, 0) for n in (0, 1)]
        y = np.moveaxis(np.pad(x, ends, mode="edge"), axis, 0)
        x = np.moveaxis((y[:-2] + 2 * y[1:-1] + y[2:]) / 4, 0, axis)
    return x


def _is_dark_on_light(x: np.ndarray) -> bool:
    """Return whether the strongest differences to a bent plane are dark ones."""
    height, width = x.shape
    step = max(1, max(height, width) // 64)
    some = x[::step, ::step]
    v, u = np.meshgrid(
        np.linspace(-1, 1, some.shape[0]), np.linspace(-1, 1, some.shape[1]), indexing="ij"
    )
    terms = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], axis=-1).reshape(-1, 6)
    plane = terms @ np.linalg.lstsq(terms, some.ravel(), rcond=None)[0]
    low, high = np.quantile(some.ravel() - plane, (0.002, 0.998))
    return bool(-low > high)


def _opened(x: np.ndarray, radius: int) -> np.ndarray:
    """Return the picture without what is brighter than all around it within the radius.

    It goes on beyond its edges as it is there, so that a shadow or desk at the edge is ground.
    """
    wide = np.pad(x, 2 * radius, mode="edge")
    for pick in (np.minimum, np.maximum):
        wide = _window(_window(wide, radius, pick, 0), radius, pick, 1)
    return wide


def _window(x: np.ndarray, radius: int, pick: Pick, axis: int) -> np.ndarray:
    """Return the least or largest of 2 radius + 1 neighbours, where all of them are there."""
    y, span, width = np.moveaxis(x, axis, 0), 1, 2 * radius + 1
    while span < width:
        step = min(span, width - span)
        y, span = pick(y[:-step], y[step:]), span + step
    return np.moveaxis(y, 0, axis)


def _slide(x: np.ndarray, radius: int, pick: Pick) -> np.ndarray:
    """Return the least or largest of the square of neighbours around each pixel."""
    wide = np.pad(x, radius, mode="edge")
    return _window(_window(wide, radius, pick, 0), radius, pick, 1)


def _figure(mask: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Return the part of a mask [H, W] that is the drawing: its largest piece and those near it."""
    labels, number = _pieces(mask)
    if number == 0:
        return mask
    where = labels[mask]
    mass = np.bincount(where, signal[mask], number)
    rows, cols = np.nonzero(mask)
    boxes = np.empty((number, 4), int)
    for n, (index, pick) in enumerate(
        ((rows, np.minimum), (cols, np.minimum), (rows, np.maximum), (cols, np.maximum))
    ):
        ends = np.full(number, mask.size if pick is np.minimum else -1)
        pick.at(ends, where, index)
        boxes[:, n] = ends
    height, width = mask.shape
    tall, broad = boxes[:, 2] - boxes[:, 0] + 1, boxes[:, 3] - boxes[:, 1] + 1
    ruling = ((broad > 0.9 * width) & (tall < 0.15 * height)) | (
        (tall > 0.9 * height) & (broad < 0.15 * width)
    )
    touching = (
        (boxes[:, 0] == 0)
        | (boxes[:, 1] == 0)
        | (boxes[:, 2] == height - 1)
        | (boxes[:, 3] == width - 1)
    )
    worth = mass * np.where(ruling, 0.02, np.where(touching, 0.2, 1.0))
    first = int(worth.argmax())
    side = max(tall[first], broad[first])
    gap = np.maximum(
        np.maximum(boxes[first, 0] - boxes[:, 2], boxes[:, 0] - boxes[first, 2]),
        np.maximum(boxes[first, 1] - boxes[:, 3], boxes[:, 1] - boxes[first, 3]),
    )
    near = (gap < 0.35 * side) & (worth > 0.02 * worth[first])
    near[first] = True
    kept = np.zeros_like(mask)
    kept[mask] = near[where]
    return kept


def _pieces(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the connected pieces of a mask, numbered from 0 (eight neighbours), and how many."""
    ends = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, start = np.nonzero(ends == 1)
    stop = np.nonzero(ends == -1)[1]
    root = list(range(len(row)))

    def top(n: int) -> int:
        while root[n] != n:
            root[n] = n = root[root[n]]
        return n

    first = np.searchsorted(row, np.arange(len(mask) + 1)).tolist()
    starts, stops = start.tolist(), stop.tolist()
    for y in range(1, len(mask)):
        above, last = first[y - 1], first[y]
        for n in range(first[y], first[y + 1]):
            while above < last and stops[above] < starts[n]:
                above += 1
            other = above
            while other < last and starts[other] <= stops[n]:
                root[top(other)] = top(n)
                other += 1
    _, number = np.unique([top(n) for n in range(len(root))], return_inverse=True)
    labels = np.zeros(mask.shape, int)
    labels[mask] = np.repeat(number, stop - start)
    return labels, int(number.max()) + 1 if len(number) else 0


def _box(ink: np.ndarray) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the rows and the columns that hold ink, each as (first, last + 1)."""
    spans = []
    for axis in (1, 0):
        places = np.flatnonzero((ink > 0.1).any(axis))
        spans.append((int(places[0]), int(places[-1]) + 1))
    return spans[0], spans[1]


def stroke_width(ink: np.ndarray) -> float:
    """Return the mean width of the strokes of ink [H, W], 0 to 1, in pixels: 2 area / rim."""
    edge = np.pad(ink, 1)
    rim = np.abs(np.diff(edge, axis=0)).sum() + np.abs(np.diff(edge, axis=1)).sum()
    return float(2 * ink.sum() / max(rim * np.pi / 4, 1e-6))


def _even_strokes(ink: np.ndarray) -> np.ndarray:
    """Return ink whose strokes are as wide as MNIST's: grown or shrunk where they are not."""
    side = max(ink.shape)
    width = stroke_width(ink)
    wanted = min(max(width, STROKES[0] * side), STROKES[1] * side)
    radius = round(abs(wanted - width) / 2)
    if radius == 0:
        return ink
    if wanted > width:
        return _slide(np.pad(ink, radius), radius, np.maximum)
    thin = _slide(ink, radius, np.minimum)
    return thin if thin.max() > 0.5 else ink
