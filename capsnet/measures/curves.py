"""Curves of a set of answers: ROC, precision and recall, calibration; confusion of classes.

curves = curves_of(judged); curves.roc[0].x, curves.roc[0].y
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capsnet.errors import needs
from capsnet.measures.judged import Judged
from capsnet.measures.scores import is_binary
from capsnet.measures.values import claims
from capsnet.measures.weighted import NUM_BINS, bins_of
from capsnet.tasks import Labels

MOST_POINTS = 200  # of a curve on a page


@dataclass(frozen=True)
class Curve:
    """The points of a curve, and of which class it is."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Tenth:
    """The answers whose probability lies in one tenth: how sure, how often true, how many."""

    probability: float
    came_true: float
    num: int


@dataclass(frozen=True)
class Curves:
    """What answers of classes can be drawn as; classes that are absent have no curve.

    roc: 1 - specificity against sensitivity. pr: recall against precision.
    confusion: rows are true classes, columns what was said; None if a picture shows several.
    """

    roc: tuple[Curve, ...]
    pr: tuple[Curve, ...]
    calibration: tuple[Tenth, ...]
    confusion: tuple[tuple[int, ...], ...] | None

    def to_json(self) -> dict[str, Any]:
        """Return all points as plain JSON values."""
        return asdict(self)


def curves_of(judged: Judged) -> Curves | None:
    """Return the curves of answers; None where they are numbers."""
    if not isinstance(judged.task, Labels):
        return None
    with needs("Measures need scikit-learn", extra="pictures"):
        from sklearn import metrics
    roc, pr = [], []
    for k in [1] if is_binary(judged.task) else range(len(judged.task.names)):
        there, score, name = judged.truth[:, k] > 0, judged.answers[:, k], judged.task.names[k]
        if there.all() or not there.any():
            continue
        false, true, _ = metrics.roc_curve(there, score)
        precision, recall, _ = metrics.precision_recall_curve(there, score)
        roc.append(_thin(name, false, true))
        pr.append(_thin(name, recall[::-1], precision[::-1]))
    confusion = None
    if judged.one_label:
        table = judged.truth.T @ judged.said
        confusion = tuple(tuple(int(x) for x in row) for row in table)
    return Curves(tuple(roc), tuple(pr), tenths(judged), confusion)


def tenths(judged: Judged) -> tuple[Tenth, ...]:
    """Return how often answers came true, by how sure they were; empty tenths are left out."""
    probabilities, came_true = (x.ravel() for x in claims(judged))
    bins, found = bins_of(probabilities), []
    for k in range(NUM_BINS):
        if (rows := bins == k).any():
            sure, true = float(probabilities[rows].mean()), float(came_true[rows].mean())
            found.append(Tenth(sure, true, int(rows.sum())))
    return tuple(found)


def _thin(name: str, x: np.ndarray, y: np.ndarray) -> Curve:
    """Return a curve of at most so many points, its ends kept."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).round().astype(int))
    return Curve(name, tuple(x[kept].tolist()), tuple(y[kept].tolist()))
