"""The bootstrap over groups: an interval for anything that can be computed under weights.

for weights in resamples(groups, 1000, seed=0): draws.append(accuracy(weights))
estimate = interval(0.93, draws, len(set(groups)))
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000
FEWEST_RESAMPLES = 200
WORK = 100_000_000  # resamples × pictures × classes: above it fewer resamples are drawn
CHUNK = 4_000_000  # weights in memory at once
OUTSIDE = 2.5  # per cent left out on each side of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval; without one (None) where too few resamples have a value."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the three numbers."""
        return asdict(self)


def num_resamples(num_rows: int, num_classes: int) -> int:
    """Return how many resamples are drawn: 1,000, or fewer where that would take minutes."""
    affordable = WORK // max(1, num_rows * num_classes)
    return int(min(RESAMPLES, max(FEWEST_RESAMPLES, affordable)))


def resamples(groups: Sequence[str], num: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield weights float32 [B, M], `num` rows in all: how often a resample has each picture.

    A resample draws as many groups as there are, with replacement, each with all its pictures.
    The groups are numbered by name, so that the order of pictures changes nothing.
    """
    names, codes = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    size, random = len(names), np.random.default_rng(seed)
    rows = max(1, CHUNK // max(len(codes), size))
    for start in range(0, num, rows):
        count = min(rows, num - start)
        drawn = random.integers(size, size=(count, size)) + size * np.arange(count)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)
        yield weights.astype(np.float32)[:, codes]


def interval(
    value: float | None, draws: np.ndarray, num_groups: int, num_units: int | None = None
) -> Estimate | None:
    """Return a value with the percentile interval of its draws [B], NaN where there was none.

    The interval is widened to hold the value; of one group, which every resample repeats, there is
    none. num_units: of a score between 0 and 1, how many groups it rests on; where all resamples
    are 0 or 1, which would say that nothing else can be, the exact (Clopper-Pearson) bound of a
    share of so many groups is given instead.
    """
    if value is None or not np.isfinite(value):
        return None
    known = draws[np.isfinite(draws)]
    if len(known) < max(2, len(draws) / 2) or 1 in (num_groups, num_units):
        return Estimate(float(value))
    low, high = np.percentile(known, [OUTSIDE, 100 - OUTSIDE])
    low, high = min(low, value), max(high, value)
    if num_units is not None and low == high and value in (0, 1):
        reach = 1 - (OUTSIDE / 100) ** (1 / num_units)
        low, high = (0, reach) if value == 0 else (1 - reach, 1)
    return Estimate(float(value), float(low), float(high))
