"""Charts as SVG text: lines, calibration, an interval in a table; coloured by the page's CSS.

svg = lines([Line("cat", x, y)], "false alarms", "found", label="ROC curves")
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from capsnet.measures.curves import Tenth
from capsnet.measures.resampling import Estimate

WIDTH, HEIGHT = 340, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
NUM_COLOURS = 10


@dataclass(frozen=True)
class Line:
    """A line of a chart: its name in the legend, its points, its colour's number, its looks."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    dashed: bool = False
    dots: bool = False  # its points alone


@dataclass(frozen=True)
class Frame:
    """The part of the plane that a chart shows, and the scale of its picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies in the picture."""
        (a, b), (c, d) = self.x, self.y
        across = LEFT + (x - a) / (b - a) * (WIDTH - LEFT - RIGHT)
        return across, TOP + (d - y) / (d - c) * (HEIGHT - TOP - BOTTOM)


def lines(
    shown: Sequence[Line],
    x_title: str,
    y_title: str,
    label: str,
    unit: bool = True,
    diagonal: bool = False,
) -> str:
    """Return a chart of lines; unit: both axes go from 0 to 1, else x counts and y fits."""
    frame = Frame((0.0, 1.0), (0.0, 1.0)) if unit else fitting(shown)
    body = [] if not diagonal else [_path(frame, (0, 1), (0, 1), "guide")]
    for line in shown:
        kind = f"line k{line.colour % NUM_COLOURS}{' dashed' if line.dashed else ''}"
        if line.dots or len(line.x) == 1:
            kind = f"dot k{line.colour % NUM_COLOURS}"
            body += [_dot(frame, x, y, 3, kind) for x, y in zip(line.x, line.y, strict=True)]
        else:
            body.append(_path(frame, line.x, line.y, kind))
    return _chart(frame, body, x_title, y_title, label, counts=not unit)


def calibration(tenths: Sequence[Tenth], before: Sequence[Tenth], label: str) -> str:
    """Return how sure answers were against how often they came true; dots grow with their number.

    before: the same without the temperature, as a dashed line.
    """
    frame = Frame((0.0, 1.0), (0.0, 1.0))
    body = [_path(frame, (0, 1), (0, 1), "guide")]
    if before:
        x, y = [t.probability for t in before], [t.came_true for t in before]
        body.append(_path(frame, x, y, "line k7 dashed"))
    x, y = [t.probability for t in tenths], [t.came_true for t in tenths]
    body.append(_path(frame, x, y, "line k0"))
    most = max((t.num for t in tenths), default=1)
    for t in tenths:
        radius = 2.5 + 5 * (t.num / most) ** 0.5
        body.append(_dot(frame, t.probability, t.came_true, radius, "dot k0"))
    return _chart(frame, body, "probability given", "how often it came true", label)


def scatter(truth: Sequence[float], said: Sequence[float], unit: str, label: str) -> str:
    """Return numbers that were answered against the true ones."""
    ends = (min(*truth, *said), max(*truth, *said)) if truth else (0.0, 1.0)
    line = Line("", ends, ends)
    frame = fitting([line], square=True)
    body = [_path(frame, frame.x, frame.x, "guide")]
    body += [_dot(frame, x, y, 2.2, "point k0") for x, y in zip(truth, said, strict=True)]
    after = f" ({unit})" if unit else ""
    return _chart(frame, body, f"true{after}", f"answered{after}", label)


def bar(x: Estimate, low: float, high: float, zero: float | None = None) -> str:
    """Return a small interval with its value, between `low` and `high`, for a table."""
    width, middle = 120, 8

    def at(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return 4 + (width - 8) * min(1.0, max(0.0, share))

    parts = [f'<line class="rail" x1="4" x2="{width - 4}" y1="{middle}" y2="{middle}"/>']
    if zero is not None:
        parts.append(f'<line class="zero" x1="{at(zero):.1f}" x2="{at(zero):.1f}" y1="1" y2="15"/>')
    if x.low is not None and x.high is not None:
        ends = f'x1="{at(x.low):.1f}" x2="{at(x.high):.1f}"'
        parts.append(f'<line class="reach" {ends} y1="{middle}" y2="{middle}"/>')
    parts.append(f'<circle class="value" cx="{at(x.value):.1f}" cy="{middle}" r="3"/>')
    return f'<svg class="bar" viewBox="0 0 {width} 16" aria-hidden="true">{"".join(parts)}</svg>'


def fitting(shown: Sequence[Line], square: bool = False) -> Frame:
    """Return the frame that holds all points, with round ends."""
    xs = [x for line in shown for x in line.x] or [0.0, 1.0]
    ys = [y for line in shown for y in line.y] or [0.0, 1.0]
    across = (min(xs), max(xs)) if max(xs) > min(xs) else (min(xs) - 0.5, max(xs) + 0.5)
    low, high = (min(ys), max(ys)) if square else (0.0, max(ys))
    ticks = ticks_of(low, high if high > low else low + 1)
    up = (min(ticks[0], low), max(ticks[-1], high))
    return Frame(up if square else across, up)


def ticks_of(low: float, high: float) -> list[float]:
    """Return about five round numbers that lie around low and high."""
    rough = (high - low) / 4
    size = 10 ** floor(log10(rough))
    step = next(n * size for n in (1, 2, 2.5, 5, 10) if n * size >= rough * (1 - 1e-9))
    first, last = floor(low / step + 1e-9), -floor(-high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _chart(
    frame: Frame, body: list[str], x_title: str, y_title: str, label: str, counts: bool = False
) -> str:
    left, bottom = frame.at(frame.x[0], frame.y[0])
    right, top = frame.at(frame.x[1], frame.y[1])
    parts = []
    for y in ticks_of(*frame.y):
        if frame.y[0] - 1e-9 <= y <= frame.y[1] + 1e-9:
            place = frame.at(frame.x[0], y)[1]
            parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{place:.1f}" '
                         f'y2="{place:.1f}"/>')  # fmt: skip
            parts.append(_text(left - 6, place + 4, f"{y:.4g}", "end"))
    for x in ticks_of(*frame.x):
        if counts and x != round(x):
            continue
        if frame.x[0] - 1e-9 <= x <= frame.x[1] + 1e-9:
            parts.append(_text(frame.at(x, frame.y[0])[0], bottom + 15, f"{x:.4g}", "middle"))
    parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
    parts += body
    parts.append(_text((left + right) / 2, HEIGHT - 6, x_title, "middle", "title"))
    middle = (top + bottom) / 2
    parts.append(f'<text class="title" text-anchor="middle" transform="translate(11 {middle}) '
                 f'rotate(-90)">{escape(y_title)}</text>')  # fmt: skip
    inner = "".join(parts)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{inner}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _path(frame: Frame, x: Sequence[float], y: Sequence[float], kind: str) -> str:
    points = (frame.at(a, b) for a, b in zip(x, y, strict=True))
    return f'<polyline class="{kind}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>'


def _dot(frame: Frame, x: float, y: float, radius: float, kind: str) -> str:
    across, down = frame.at(x, y)
    return f'<circle class="{kind}" cx="{across:.1f}" cy="{down:.1f}" r="{radius:.1f}"/>'
