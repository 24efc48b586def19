"""Baselines: what can be had without capsules, from small pixels by scikit-learn.

for baseline in fit_baselines(task, small_pixels(images), labels): baseline.answer(pixels)
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capsnet.errors import needs
from capsnet.measures.judged import truth_table
from capsnet.tasks import Labels, OneLabel, Task

SIDE = 16  # of the small pictures, in pixels
MOST_FEATURES = 3 * SIDE * SIDE
MOST_PICTURES = 10_000  # of the training split; more are drawn from by the seed
NEIGHBOURS = 5
STRENGTH = 0.01  # scikit-learn's C: small, for there are hundreds of standardised pixels
ROUNDS = 300


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fitted baseline; `title` in words, answers as a model of the task gives them."""

    name: str
    title: str
    num_train: int  # pictures that it was fitted on
    predict: Callable[[np.ndarray], np.ndarray] = field(repr=False)

    def answer(self, pixels: np.ndarray) -> np.ndarray:
        """Return answers float32 [M, J] to small pixels [M, F]."""
        return self.predict(pixels).astype(np.float32)


def small_pixels(images: Tensor) -> np.ndarray:
    """Return images [M, C, H, W] as float32 [M, F], averaged to at most 16×16 pixels.

    Of more than three channels fewer pixels are kept, so that F does not grow.
    """
    channels, height, width = images.shape[1:]
    side = max(4, min(SIDE, isqrt(MOST_FEATURES // channels)))
    size = (min(side, height), min(side, width))
    parts = [  # a part at a time: a hundred thousand pictures as floats would not fit
        torch.nn.functional.adaptive_avg_pool2d(part.float(), size).flatten(1)
        for part in images.cpu().split(1024)
    ]
    return torch.cat(parts).numpy()


def drawn_rows(num: int, seed: int = 0) -> np.ndarray:
    """Return which of so many training pictures are used: all, or 10,000 of them, in order."""
    return np.sort(np.random.default_rng(seed).permutation(num)[:MOST_PICTURES])


def fit_baselines(
    task: Task,
    pixels: np.ndarray,
    labels: np.ndarray,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> tuple[Baseline, ...]:
    """Fit the majority, a linear model and nearest neighbours to training pictures.

    Args:
        task: What is asked; numbers get the mean, ridge regression and neighbours' mean.
        pixels: Small pixels [M, F]; at most 10,000 pictures are used, drawn by the seed.
        labels: As a split or a batch has them.
        seed: Of that draw.
        progress: Called with the title of each baseline before it is fitted.

    Returns:
        The baselines, the simplest first.
    """
    with needs("Baselines need scikit-learn", extra="pictures"):
        import sklearn  # noqa: F401

    rows = drawn_rows(len(pixels), seed)
    pixels, truth = pixels[rows], truth_table(task, labels[rows])
    if isinstance(task, Labels):
        kinds = (
            ("majority", "always the most frequent", _majority),
            ("logistic", "logistic regression on small pixels", _logistic),
            ("neighbours", f"{NEIGHBOURS} nearest neighbours on small pixels", _neighbours),
        )
    else:
        kinds = (
            ("majority", "always the mean", _majority),
            ("logistic", "ridge regression on small pixels", _ridge),
            ("neighbours", f"{NEIGHBOURS} nearest neighbours on small pixels", _neighbours),
        )
    fitted = []
    for name, title, fit in kinds:
        if progress is not None:
            progress(title)
        answer = fit(task, pixels, truth)
        fitted.append(Baseline(name, title, len(pixels), answer))
    return tuple(fitted)


Fit = Callable[[np.ndarray], np.ndarray]


def _majority(task: Task, pixels: np.ndarray, truth: np.ndarray) -> Fit:
    mean = truth.mean(axis=0)
    return lambda x: np.repeat(mean[None], len(x), axis=0)


def _logistic(task: Task, pixels: np.ndarray, truth: np.ndarray) -> Fit:
    if isinstance(task, OneLabel):
        return _classifier(pixels, truth.argmax(axis=1), truth.shape[1])
    each = [_classifier(pixels, column.astype(int), 2) for column in truth.T]
    return lambda x: np.stack([answer(x)[:, 1] for answer in each], axis=1)


def _classifier(pixels: np.ndarray, classes: np.ndarray, num_classes: int) -> Fit:
    """Return what gives probabilities [M, J], also of classes that no training picture shows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = np.unique(classes)

    def spread(x: np.ndarray, given: Any) -> np.ndarray:
        table = np.zeros((len(x), num_classes))
        table[:, known] = given
        return table

    if len(known) == 1:
        return lambda x: spread(x, 1.0)
    with warnings.catch_warnings():
        # Nearly converged is good enough for a baseline, and a warning would be nobody's to mend.
        warnings.simplefilter("ignore", ConvergenceWarning)
        linear = LogisticRegression(C=STRENGTH, max_iter=ROUNDS)
        model = make_pipeline(StandardScaler(), linear).fit(pixels, classes)
    return lambda x: spread(x, model.predict_proba(x))


def _ridge(task: Task, pixels: np.ndarray, truth: np.ndarray) -> Fit:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = RidgeCV(alphas=np.logspace(0, 5, 11))
    model = make_pipeline(StandardScaler(), linear).fit(pixels, truth)
    return lambda x: model.predict(x).reshape(len(x), -1)


def _neighbours(task: Task, pixels: np.ndarray, truth: np.ndarray) -> Fit:
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(pixels)), algorithm="brute")
    model.fit(pixels)
    return lambda x: truth[model.kneighbors(x, return_distance=False)].mean(axis=1)
