"""Calibrating: the temperature and the thresholds that validation pictures speak for.

calibration = calibrate(Answered.load(path)); calibration.temperature
"""

from collections.abc import Callable

import numpy as np
import torch

from capsnet.measures.answered import Answered
from capsnet.measures.judged import judge
from capsnet.measures.scores import is_binary
from capsnet.tasks import Calibration, OneLabel, SeveralLabels, Task

FEWEST_PICTURES = 20  # of a validation split that a temperature is chosen on
FEWEST_OF_A_CLASS = 5  # with and without a class, for its threshold
HOTTEST = 20.0  # temperatures lie between this and its inverse
ROUNDS, POINTS = 4, 21  # of the search for a temperature, which ends at a thousandth
MIDDLE = 0.5
Worth = Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]


def calibrate(validation: Answered) -> Calibration:
    """Return what is best on validation pictures: a temperature, and thresholds.

    The temperature has the lowest log loss. Two classes get the threshold with the highest sum of
    sensitivity and specificity (Youden's J), several labels one each with the highest F1; other
    tasks get none. Fewer than 20 pictures change nothing.
    """
    task = validation.task
    if len(validation) < FEWEST_PICTURES or not isinstance(task, OneLabel | SeveralLabels):
        return Calibration()
    truth = judge(validation).truth
    temperature = _temperature(task, validation.answers, truth)
    answers = judge(validation, Calibration(temperature)).answers
    if is_binary(task):
        line = _threshold(answers[:, 1], truth[:, 1] > 0, youden)
        return Calibration(temperature, () if line is None else (line,))
    if isinstance(task, SeveralLabels):
        lines = [_threshold(answers[:, k], truth[:, k] > 0, f1) for k in range(len(task.names))]
        known = any(line is not None for line in lines)
        filled = tuple(MIDDLE if line is None else line for line in lines)
        return Calibration(temperature, filled if known else ())
    return Calibration(temperature)


def _temperature(task: Task, answers: np.ndarray, truth: np.ndarray) -> float:
    """Return the temperature of the lowest log loss against slightly softened truth.

    Truth is softened as Platt does, by one part in M + 2: a set that is answered without an error
    would otherwise ask for certainty.
    """
    said, soft = torch.from_numpy(answers.astype(np.float32)), 1 / (len(answers) + 2)
    others = truth.shape[1] - 1 if isinstance(task, OneLabel) else 1
    target = truth * (1 - soft) + (1 - truth) * soft / max(1, others)

    def loss(log_temperature: float) -> float:
        rule = Calibration(float(np.exp(log_temperature)))
        p = rule.probabilities(task, said).double().clamp(1e-12, 1 - 1e-12).numpy()
        cost = -target * np.log(p)
        if isinstance(task, SeveralLabels):
            cost = cost - (1 - target) * np.log1p(-p)
        return float(cost.sum(axis=1).mean())

    # The loss has one valley, for it is convex in 1/T: each round looks closer around the lowest.
    low, high = -np.log(HOTTEST), np.log(HOTTEST)
    for _ in range(ROUNDS):
        points = np.linspace(low, high, POINTS)
        best, step = min(points, key=loss), points[1] - points[0]
        low, high = max(low, best - step), min(high, best + step)
    return float(np.exp(best)) if loss(best) < loss(0.0) else 1.0


def youden(found: np.ndarray, false: np.ndarray, num: int, rest: int) -> np.ndarray:
    """Return sensitivity + specificity - 1 of counts of true and false positives."""
    return found / num - false / rest


def f1(found: np.ndarray, false: np.ndarray, num: int, rest: int) -> np.ndarray:
    """Return 2 · true positives / (said + there) of counts of true and false positives."""
    return 2 * found / (found + false + num)


def _threshold(scores: np.ndarray, there: np.ndarray, worth: Worth) -> float | None:
    """Return the best line between two neighbouring scores [M], the one nearest to one half.

    None where the class is too rare or too common, or where no line is better than none.
    """
    num, rest = int(there.sum()), int((~there).sum())
    if min(num, rest) < FEWEST_OF_A_CLASS:
        return None
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.diff(scores[order]) != 0)  # the last of equal scores
    if len(ends) == 0:
        return None
    found, false = np.cumsum(there[order])[ends], np.cumsum(~there[order])[ends]
    gain = worth(found, false, num, rest)
    if gain.max() <= 0:
        return None
    lines = (scores[order][ends] + scores[order][ends + 1]) / 2
    best = lines[gain >= gain.max() - 1e-12]
    return float(best[np.abs(best - MIDDLE).argmin()])
