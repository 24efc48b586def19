"""Scores of many resamples at once: each function takes weights [B, M] and returns one value a row.

The values under equal weights are scikit-learn's; NaN says that a resample has none.

shares(weights, right) -> [B]; ranked(weights, scores, positive).auc -> [B]
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return above / below, NaN where `below` is zero."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)


def mean_known(values: np.ndarray) -> np.ndarray:
    """Return the mean over the last axis of what is not NaN; NaN if nothing is."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0).sum(axis=-1), known.sum(axis=-1))


def means(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the weighted mean [B, …] of values [M, …]."""
    sums = weights @ values.astype(np.float64)
    total = weights.sum(axis=1, dtype=np.float64)
    return ratio(sums, np.broadcast_to(total.reshape(-1, *(1,) * (sums.ndim - 1)), sums.shape))


class Hits(NamedTuple):
    """How well each class is found, [B, J]."""

    recall: np.ndarray
    precision: np.ndarray
    f1: np.ndarray


def hits(weights: np.ndarray, said: np.ndarray, truth: np.ndarray) -> Hits:
    """Return recall, precision and F1 of each class from tables of zeros and ones [M, J]."""
    found, true, marked = weights @ (said * truth), weights @ truth, weights @ said
    return Hits(ratio(found, true), ratio(found, marked), ratio(2 * found, true + marked))


class Ranked(NamedTuple):
    """What an order of pictures by the probability of one class is worth, each [B]."""

    auc: np.ndarray
    average_precision: np.ndarray
    sensitivity: tuple[np.ndarray, ...]  # the highest at each of the specificities asked for


def ranked(
    weights: np.ndarray,
    scores: np.ndarray,
    positive: np.ndarray,
    specificities: Sequence[float] = (),
) -> Ranked:
    """Return areas and sensitivities of scores [M] against positive [M], ties counted as such."""
    order = np.argsort(-scores, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(scores[order]) != 0])
    weighed = weights[:, order]
    there = positive[order].astype(weights.dtype)
    hit, miss = weighed * there, weighed * (1 - there)
    if len(starts) < len(order):
        hit = np.add.reduceat(hit, starts, axis=1)
        miss = np.add.reduceat(miss, starts, axis=1)
    hits_so_far = np.cumsum(hit, axis=1, dtype=np.float64)
    misses_so_far = np.cumsum(miss, axis=1, dtype=np.float64)
    num_hits, num_misses = hits_so_far[:, -1], misses_so_far[:, -1]
    pairs = np.einsum("bm,bm->b", miss, hits_so_far - hit / 2)
    precision = ratio(hits_so_far, hits_so_far + misses_so_far)
    gained = np.einsum("bm,bm->b", hit, np.nan_to_num(precision))
    sensitivity = []
    for wanted in specificities:
        allowed = misses_so_far <= (1 - wanted) * num_misses[:, None] * (1 + 1e-9)
        best = np.where(allowed, hits_so_far, 0).max(axis=1)
        sensitivity.append(np.where(num_misses > 0, ratio(best, num_hits), np.nan))
    return Ranked(ratio(pairs, num_hits * num_misses), ratio(gained, num_hits), tuple(sensitivity))


NUM_BINS = 10


def bins_of(probabilities: np.ndarray) -> np.ndarray:
    """Return the number of the tenth that each probability lies in."""
    return np.minimum((probabilities * NUM_BINS).astype(int), NUM_BINS - 1)


def calibration_errors(
    weights: np.ndarray, probabilities: np.ndarray, came_true: np.ndarray
) -> np.ndarray:
    """Return the expected calibration error [B] of probabilities [M, K] and what came true [M, K].

    ECE = sum over tenths of |sum of (probability - came true)| / number.
    """
    gaps = np.zeros((len(probabilities), NUM_BINS))
    rows = np.arange(len(probabilities))
    bins = bins_of(probabilities)
    for k in range(probabilities.shape[1]):
        np.add.at(gaps, (rows, bins[:, k]), probabilities[:, k] - came_true[:, k])
    total = weights.sum(axis=1, dtype=np.float64) * probabilities.shape[1]
    return ratio(np.abs(weights @ gaps).sum(axis=1), total)
