"""Readout: how well a linear map tells each factor from features, and how they share the work.

A ridge regression is fitted on training images for each factor, its penalty chosen on validation
images, and judged by R² on test images. A circular factor is read as sine and cosine of
2 pi value / period. The sizes of the coefficients are the importance R [F, K] of each feature for
each factor, of which DCI is computed (Eastwood and Williams, 2018).

Usage: told = read_out(names, train, validation, test); told.r_squared, told.dci.disentanglement
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capsnet.errors import UserError

PENALTIES = np.logspace(-9, 3, 25)  # times the number of training images


@dataclass(frozen=True, eq=False)
class Sample:
    """Features [N, F] of N images, and their factors [N, K]; NaN where an image has no such.

    periods [N, K]: after how much a circular factor is the same again, 0 for others; None: no
    factor is circular.
    """

    features: np.ndarray
    factors: np.ndarray
    periods: np.ndarray | None = None

    def __post_init__(self) -> None:
        shapes = [np.shape(x) for x in (self.features, self.factors)]
        if any(len(shape) != 2 or 0 in shape for shape in shapes) or shapes[0][0] != shapes[1][0]:
            raise UserError(
                f"Features [N, F] and factors [N, K] must be of the same images, not {shapes[0]} "
                f"and {shapes[1]}; give one row of each per image."
            )
        if self.periods is not None and np.shape(self.periods) != shapes[1]:
            raise UserError(
                f"Periods must be as the factors, {shapes[1]}, not {np.shape(self.periods)}; "
                "give one for each value."
            )
        if not np.isfinite(self.features).all():
            raise UserError("Some features are not finite; give those of a sound network.")

    def targets(self, k: int, circular: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that have factor k, and it there: [M, 1], or sine and cosine [M, 2]."""
        rows = np.flatnonzero(np.isfinite(self.factors[:, k]))
        value = np.asarray(self.factors[rows, k], np.float64)
        if not circular:
            return rows, value[:, None]
        period = np.zeros(len(rows)) if self.periods is None else self.periods[rows, k]
        if not (period > 0).all():
            raise UserError(
                f"Factor {k} repeats in some images and not in others; give all a period."
            )
        turn = 2 * np.pi * value / period
        return rows, np.stack([np.sin(turn), np.cos(turn)], axis=1)


@dataclass(frozen=True)
class Dci:
    """Disentanglement: features serve one factor each. Completeness: factors need one feature each.

    Both from 0 to 1. Informativeness is the mean R² of the factors.
    """

    disentanglement: float
    completeness: float
    informativeness: float


@dataclass(frozen=True, eq=False)
class Readout:
    """What a linear map reads: R² of each factor (None: it does not vary), importance [F, K]."""

    names: tuple[str, ...]
    r_squared: tuple[float | None, ...]
    penalties: tuple[float, ...]
    importance: np.ndarray

    @property
    def dci(self) -> Dci:
        """Disentanglement, completeness and informativeness."""
        known = [r for r in self.r_squared if r is not None]
        told = float(np.mean(known)) if known else 0.0
        return Dci(disentanglement(self.importance), completeness(self.importance), told)


def read_out(names: Sequence[str], train: Sample, validation: Sample, test: Sample) -> Readout:
    """Read each factor by ridge regression.

    Args:
        names: Of the K factors.
        train: What the maps are fitted on.
        validation: What their penalties are chosen on.
        test: What they are judged on.

    Returns:
        R² on test, the chosen penalties, and the importance of F features for K factors.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 2))
        >>> part = [Sample(x[k::3], x[k::3]) for k in range(3)]
        >>> round(read_out(("a", "b"), *part).dci.disentanglement, 2)
        1.0
    """
    samples = (train, validation, test)
    sizes = {(sample.features.shape[1], sample.factors.shape[1]) for sample in samples}
    if len(sizes) != 1 or train.factors.shape[1] != len(names):
        raise UserError(
            "Training, validation and test images must have the same features and factors, and "
            "each factor a name; give as many of each."
        )
    told = [_read_one(name, k, *samples) for k, name in enumerate(names)]
    scores, penalties, importance = zip(*told, strict=True)
    return Readout(tuple(names), scores, penalties, np.stack(importance, axis=1))


def _read_one(
    name: str, k: int, train: Sample, validation: Sample, test: Sample
) -> tuple[float | None, float, np.ndarray]:
    """Return R² of factor k, the chosen penalty, and the importance [F] of each feature."""
    circular = train.periods is not None and bool(np.any(train.periods[:, k]))
    parts = [sample.targets(k, circular) for sample in (train, validation, test)]
    if not all(len(rows) for rows, _ in parts):
        raise UserError(f"No image of a split has {name}; leave it out, or give more images.")
    given = [
        np.asarray(sample.features[rows], np.float64)
        for sample, (rows, _) in zip((train, validation, test), parts, strict=True)
    ]
    targets = [target for _, target in parts]
    middle, spread = given[0].mean(axis=0), given[0].std(axis=0)
    # A feature that is constant in training would be divided by nothing, and tells nothing.
    lively = spread > 1e-9 * (1 + np.abs(middle))
    scaled = [np.where(lively, x - middle, 0) / np.where(lively, spread, 1) for x in given]
    mean, size = targets[0].mean(axis=0), np.sqrt(targets[0].var(axis=0).sum())
    if not size > 0:
        return None, 0.0, np.zeros(len(middle))
    maps = _ridges(scaled[0], (targets[0] - mean) / size)
    wanted = (targets[1] - mean) / size
    errors = [np.square(scaled[1] @ each - wanted).sum() for each in maps]
    best = int(np.argmin(errors))
    left = np.square(scaled[2] @ maps[best] * size + mean - targets[2]).sum()
    whole = np.square(targets[2] - targets[2].mean(axis=0)).sum()
    score = float(1 - left / whole) if whole > 0 else None
    return score, float(PENALTIES[best]), np.sqrt(np.square(maps[best]).sum(axis=1))


def _ridges(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return for each penalty p the map [F, L] that is best for |x w - y|² / N + p |w|²."""
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    turned = vectors.T @ (x.T @ y) / len(x)
    return [vectors @ (turned / (values.clip(min=0)[:, None] + p)) for p in PENALTIES]


def disentanglement(importance: np.ndarray) -> float:
    """Return sum_f rho_f (1 - H_K(P_f)) of importance [F, K].

    P_f = R_f / sum_k R_fk, H_K the entropy with base K, rho_f the feature's share of all of R.
    """
    _check(importance, axis=1, what="factors")
    total = importance.sum(axis=1)
    if not total.any():
        return 0.0
    return float(_sharpness(importance) @ (total / total.sum()))


def completeness(importance: np.ndarray) -> float:
    """Return the mean over the K factors of 1 - H_F(P_k) of importance [F, K]."""
    _check(importance, axis=0, what="features")
    return float(_sharpness(importance.T).mean())


def _sharpness(importance: np.ndarray) -> np.ndarray:
    """Return 1 - H of each row as a distribution, with base the row's length; 0 of a zero row."""
    total = importance.sum(axis=1, keepdims=True)
    share = importance / np.where(total > 0, total, 1)
    logs = np.log(share, out=np.zeros_like(share), where=share > 0)
    entropy = -(share * logs).sum(axis=1) / np.log(importance.shape[1])
    return np.where(total[:, 0] > 0, 1 - entropy, 0.0)


def _check(importance: np.ndarray, axis: int, what: str) -> None:
    if importance.ndim != 2 or importance.shape[axis] < 2 or (importance < 0).any():
        raise UserError(
            f"DCI needs the importance [F, K], not negative, of at least two {what}; give more."
        )
