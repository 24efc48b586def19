"""Charts of a tuning as SVG text: history, parallel coordinates, importance.

svg = history(tuned); svg = parallel(tuned); svg = bar(0.4)
"""

from collections.abc import Sequence
from html import escape
from math import log

from capsnet.options import OneOf
from capsnet.report.charts import Line, lines
from capsnet.tuning.space import Range
from capsnet.tuning.tuned import Tried, Tuned, as_read

WIDTH, HEIGHT, SIDE, TOP, BOTTOM = 960, 330, 60, 46, 26
SHADES = 5  # of the lines, from the best to the worst


def history(tuned: Tuned) -> str:
    """Return the figure of each trial in turn, and the best so far as a stair."""
    told = [trial for trial in tuned.trials if trial.figure is not None]
    finished = _points([trial for trial in told if trial.is_finished])
    x, y = [finished[0][0]], [finished[1][0]]
    for number, figure in zip(*finished, strict=True):
        x, y = [*x, number, number], [*y, y[-1], min(y[-1], figure)]
    found = [
        Line("given up", *_points([t for t in told if not t.is_finished]), 7, dots=True),
        Line("best so far", x, y, 1),
        Line("finished", *finished, 0, dots=True),
    ]
    return lines(found, "trial", tuned.words, "Validation figure of each trial", unit=False)


def parallel(tuned: Tuned) -> str:
    """Return one line per finished trial through what it tried, to its figure at the right."""
    finished = [t for t in tuned.trials if t.is_finished]
    order = sorted(finished, key=lambda trial: (trial.figure, trial.number))
    places = _places(len(tuned.space) + 1)
    low, high = _figure(order[0]), _figure(order[-1])
    parts = []
    for x, (name, tried) in zip(places, tuned.space.items(), strict=False):
        parts.append(_axis(x, name, _ticks(tried)))
    parts.append(_axis(places[-1], tuned.words, [(0.0, as_read(high)), (1.0, as_read(low))]))
    for rank, trial in reversed(list(enumerate(order))):  # the best is drawn last, above the others
        heights = [share(tried, trial.values[name]) for name, tried in tuned.space.items()]
        heights.append((high - _figure(trial)) / (high - low) if high > low else 1.0)
        kind = f"try s{min(SHADES - 1, SHADES * rank // len(order))}"
        kind += " best" * (trial is tuned.best) + " given" * trial.is_default
        points = " ".join(f"{x:.1f},{_y(h):.1f}" for x, h in zip(places, heights, strict=True))
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
    return (
        f'<svg class="chart parallel" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="What each trial tried, and its figure">{"".join(parts)}</svg>'
    )


def bar(part: float) -> str:
    """Return a share between 0 and 1 as a bar, for a table."""
    rect = f'<rect width="{200 * min(1.0, max(0.0, part)):.1f}" height="12"/>'
    return f'<svg class="share" viewBox="0 0 200 12" aria-hidden="true">{rect}</svg>'


def share(tried: Range, value: object) -> float:
    """Return where a value stands in its range, from 0 to 1; what lies outside, at the end."""
    if isinstance(tried, OneOf):
        texts = [str(choice) for choice in tried.choices]
        place = texts.index(str(value)) if str(value) in texts else 0
        return place / (len(texts) - 1)
    if not isinstance(value, int | float):
        return 0.0
    inside = min(max(value, tried.low), tried.high)
    low, high, at = (
        (log(tried.low), log(tried.high), log(inside))
        if tried.log
        else (tried.low, tried.high, inside)
    )
    return (at - low) / (high - low)


def _points(trials: Sequence[Tried]) -> tuple[list[float], list[float]]:
    return [float(trial.number) for trial in trials], [_figure(trial) for trial in trials]


def _figure(trial: Tried) -> float:
    assert trial.figure is not None
    return trial.figure


def _places(count: int) -> list[float]:
    return [SIDE + k * (WIDTH - 2 * SIDE) / (count - 1) for k in range(count)]


def _y(height: float) -> float:
    return TOP + (1 - height) * (HEIGHT - TOP - BOTTOM)


def _ticks(tried: Range) -> list[tuple[float, str]]:
    if isinstance(tried, OneOf):
        return [(share(tried, choice), str(choice)) for choice in tried.choices]
    return [(0.0, as_read(tried.low)), (1.0, as_read(tried.high))]


def _axis(x: float, name: str, ticks: Sequence[tuple[float, str]]) -> str:
    parts = [f'<path class="axis" d="M{x:.1f} {_y(1):.1f}V{_y(0):.1f}"/>']
    parts.append(_text(x, TOP - 26, name, "title"))
    for height, text in ticks:
        if 0 < height < 1:
            parts.append(_text(x + 5, _y(height) + 4, text, "tick", "start"))
        else:
            parts.append(_text(x, _y(height) + (18 if height == 0 else -6), text, "tick"))
    return "".join(parts)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'
