"""The scores of a set of answers: their values by scikit-learn, and those of many resamples.

values(judged)["auc"] -> 0.93 or None; draws(judged, weights)["auc"] -> [B]

The scores of class number 2 are called "recall/2" and so on.
"""

from collections.abc import Collection, Iterable

import numpy as np

from capsnet.errors import needs
from capsnet.measures import weighted
from capsnet.measures.judged import Judged
from capsnet.measures.scores import (
    PROBABILITY,
    SPECIFICITIES,
    class_scores_of,
    is_binary,
    scores_of,
)
from capsnet.tasks import Labels

Values = dict[str, float | None]
Draws = dict[str, np.ndarray]
RANKED = {"auc", "average_precision", *SPECIFICITIES}
LEAST_PROBABILITY = 1e-7  # what is impossible and happens would cost infinitely much


def all_scores(judged: Judged) -> tuple[str, ...]:
    """Return the names of all scores, those of classes with their number."""
    numbers = range(len(judged.task.names))
    of_classes = (f"{name}/{k}" for name in class_scores_of(judged.task) for k in numbers)
    return (*scores_of(judged.task), *of_classes)


def values(judged: Judged, wanted: Collection[str] | None = None) -> Values:
    """Return every score of the task, or the wanted ones, None where it cannot be told."""
    with needs("Measures need scikit-learn", extra="pictures"):
        import sklearn  # noqa: F401
    names = all_scores(judged) if wanted is None else wanted
    if not isinstance(judged.task, Labels):
        found = _number_values(judged)
    else:
        roots = {name.split("/")[0] for name in names}
        found = _hit_values(judged)
        if roots & RANKED:
            found |= _ranked_values(judged)
        if roots & {*PROBABILITY}:
            found |= _probability_values(judged)
    return {name: None if (x := found[name]) is None else float(x) for name in names}


def _hit_values(judged: Judged) -> Values:
    from sklearn.metrics import precision_recall_fscore_support

    truth, said, classes = judged.truth, judged.said, range(judged.truth.shape[1])
    precision, recall, f1, _ = (
        [None if x is None or np.isnan(x) else x for x in np.atleast_1d(column)]
        for column in precision_recall_fscore_support(truth, said, zero_division=np.nan)
    )
    found: Values = {"accuracy": (~judged.wrong).mean()}
    found |= {"balanced_accuracy": _mean(recall), "f1": _mean(f1)}
    found |= {f"recall/{k}": recall[k] for k in classes}
    found |= {f"precision/{k}": precision[k] for k in classes}
    return found | {"specificity": recall[0], "sensitivity": recall[-1]}


def _ranked_values(judged: Judged) -> Values:
    from sklearn import metrics

    found: Values = dict.fromkeys(SPECIFICITIES)
    classes = [1] if is_binary(judged.task) else range(judged.truth.shape[1])
    for k in classes:
        there, score = judged.truth[:, k] > 0, judged.answers[:, k]
        found |= {f"auc/{k}": None, f"average_precision/{k}": None}
        if there.any():
            found[f"average_precision/{k}"] = metrics.average_precision_score(there, score)
        if there.any() and not there.all():
            false, true, _ = metrics.roc_curve(there, score)
            found[f"auc/{k}"] = metrics.auc(false, true)
            for name, wanted in SPECIFICITIES.items():
                found[name] = true[false <= (1 - wanted) * (1 + 1e-9)].max()
    for name in ("auc", "average_precision"):
        found[name] = _mean(found[f"{name}/{k}"] for k in classes)
    return found


def _probability_values(judged: Judged) -> Values:
    from sklearn import metrics

    found: Values = {"brier": _brier(judged).mean(), "log_loss": _log_losses(judged).mean()}
    if is_binary(judged.task):
        found["brier"] = metrics.brier_score_loss(judged.truth[:, 1], judged.answers[:, 1])
    if judged.one_label:
        likely = np.clip(judged.answers, LEAST_PROBABILITY, 1)
        likely = likely / likely.sum(axis=1, keepdims=True)
        kinds = list(range(judged.truth.shape[1]))
        found["log_loss"] = metrics.log_loss(judged.truth.argmax(axis=1), likely, labels=kinds)
    equal = np.ones((1, len(judged)), dtype=np.float32)
    return found | {"ece": weighted.calibration_errors(equal, *claims(judged))[0]}


def draws(judged: Judged, weights: np.ndarray, wanted: Collection[str]) -> Draws:
    """Return the wanted scores [B] of resamples, weights [B, M]; NaN where one has none."""
    if not isinstance(judged.task, Labels):
        return _number_draws(judged, weights)
    roots = {name.split("/")[0] for name in wanted}
    binary, num_classes = is_binary(judged.task), judged.truth.shape[1]
    found: Draws = {"accuracy": weighted.means(weights, ~judged.wrong)}
    recall, precision, f1 = weighted.hits(weights, judged.said, judged.truth)
    found["f1"] = weighted.mean_known(f1)
    found["balanced_accuracy"] = weighted.mean_known(recall)
    for k in range(num_classes):
        found |= {f"recall/{k}": recall[:, k], f"precision/{k}": precision[:, k]}
    if binary:
        found |= {"specificity": recall[:, 0], "sensitivity": recall[:, 1]}
    if roots & RANKED:
        for k in [1] if binary else range(num_classes):
            order = weighted.ranked(
                weights,
                judged.answers[:, k],
                judged.truth[:, k],
                tuple(SPECIFICITIES.values()) if binary else (),
            )
            found |= {f"auc/{k}": order.auc, f"average_precision/{k}": order.average_precision}
            found |= dict(zip(SPECIFICITIES, order.sensitivity, strict=False))
        for name in ("auc", "average_precision"):
            columns = [x for key, x in found.items() if key.startswith(f"{name}/")]
            found[name] = weighted.mean_known(np.stack(columns, axis=1))
    if roots & {*PROBABILITY}:
        found["log_loss"] = weighted.means(weights, _log_losses(judged))
        found["brier"] = weighted.means(weights, _brier(judged))
        found["ece"] = weighted.calibration_errors(weights, *claims(judged))
    return {name: x for name, x in found.items() if name in wanted}


def claims(judged: Judged) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities [M, K] that are claimed, and whether they came true [M, K].

    Two classes: that of the positive. More: that of the most probable. Several: that of each.
    """
    answers, truth = judged.answers, judged.truth
    if is_binary(judged.task):
        return answers[:, 1:], truth[:, 1:]
    if judged.one_label:
        best = answers.argmax(axis=1)[:, None]
        return np.take_along_axis(answers, best, 1), np.take_along_axis(truth, best, 1)
    return answers, truth


def _mean(known: Iterable[float | None]) -> float | None:
    left = [x for x in known if x is not None]
    return float(np.mean(left)) if left else None


def _log_losses(judged: Judged) -> np.ndarray:
    likely = np.clip(judged.answers, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    there = -(judged.truth * np.log(likely)).sum(axis=1)
    if judged.one_label:
        return there
    absent = -((1 - judged.truth) * np.log1p(-likely)).sum(axis=1)
    return (there + absent) / likely.shape[1]


def _brier(judged: Judged) -> np.ndarray:
    squares = (judged.answers - judged.truth) ** 2
    if is_binary(judged.task):
        return squares[:, 1]
    return squares.sum(axis=1) if judged.one_label else squares.mean(axis=1)


def _number_values(judged: Judged) -> Values:
    from sklearn import metrics

    found: Values = {}
    for k in range(judged.truth.shape[1]):
        true, said = judged.truth[:, k], judged.answers[:, k]
        varies = len(true) > 1 and true.min() < true.max()
        found |= {
            f"mae/{k}": float(metrics.mean_absolute_error(true, said)),
            f"rmse/{k}": float(metrics.mean_squared_error(true, said) ** 0.5),
            f"r2/{k}": float(metrics.r2_score(true, said)) if varies else None,
        }
    columns = range(judged.truth.shape[1])
    return found | {n: _mean(found[f"{n}/{k}"] for k in columns) for n in ("mae", "rmse", "r2")}


def _number_draws(judged: Judged, weights: np.ndarray) -> Draws:
    left = judged.answers - judged.truth
    middle = judged.truth.mean(axis=0)  # squares of small numbers keep their digits
    about = judged.truth - middle
    squares = weighted.means(weights, left**2)
    spread = weighted.means(weights, about**2) - weighted.means(weights, about) ** 2
    table = {
        "mae": weighted.means(weights, np.abs(left)),
        "rmse": np.sqrt(squares),
        "r2": 1 - weighted.ratio(squares, np.where(spread > 1e-12, spread, 0)),
    }
    found = {name: weighted.mean_known(x) for name, x in table.items()}
    return found | {f"{name}/{k}": x[:, k] for name, x in table.items() for k in range(x.shape[1])}
