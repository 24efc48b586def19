"""Metrics: every score of a set of answers with an interval over groups, and why some are missing.

metrics = measure(judge(answered, calibration)); metrics.scores["auc"].low
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capsnet.measures.judged import Judged
from capsnet.measures.resampling import Estimate, interval, num_resamples, resamples
from capsnet.measures.scores import SCORES, class_scores_of, scores_of
from capsnet.measures.values import all_scores, draws, values
from capsnet.tasks import Labels


@dataclass(frozen=True)
class Part:
    """The scores of one class, or of one number; None: cannot be told."""

    name: str
    num: int  # pictures that show it
    scores: dict[str, Estimate | None]


@dataclass(frozen=True)
class Metrics:
    """What answers are worth; each score with a 95 % interval from resampled groups."""

    level: str  # picture or group
    num: int  # answers
    num_groups: int
    num_resamples: int
    scores: dict[str, Estimate | None]
    parts: tuple[Part, ...]
    missing: tuple[str, ...]  # sentences on what could not be computed

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return {
            "level": self.level,
            "num": self.num,
            "num_groups": self.num_groups,
            "num_resamples": self.num_resamples,
            "scores": _plain(self.scores),
            "parts": [
                {"name": part.name, "num": part.num, "scores": _plain(part.scores)}
                for part in self.parts
            ],
            "missing": list(self.missing),
        }


def measure(
    judged: Judged,
    resampled: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Metrics:
    """Return every score of the task, in all and for each class, with intervals over groups.

    Args:
        judged: Answers beside the truth.
        resampled: How often groups are drawn; by default 1,000 times, less for very many pictures.
        seed: Of the draws.
        progress: Called with the draws done and the draws there are.

    Returns:
        The metrics; a score that cannot be told is None, and `missing` says why.
    """
    found, names = values(judged), all_scores(judged)
    total = resampled or num_resamples(len(judged), len(judged.task.names))
    parts: list[dict[str, np.ndarray]] = []
    done = 0
    for weights in resamples(judged.groups, total, seed):
        parts.append(draws(judged, weights, names))
        done += len(weights)
        if progress is not None:
            progress(done, total)
    drawn = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    units, num_groups = _units(judged), judged.num_groups
    scores = {
        name: interval(found[name], drawn[name], num_groups, units.get(name)) for name in names
    }
    of_all = scores_of(judged.task)
    of_classes = class_scores_of(judged.task)
    counts = _counts(judged)
    return Metrics(
        judged.level,
        len(judged),
        num_groups,
        total,
        {name: scores[name] for name in of_all},
        tuple(
            Part(title, counts[k], {name: scores[f"{name}/{k}"] for name in of_classes})
            for k, title in enumerate(judged.task.names)
        ),
        _missing(judged, counts),
    )


def _plain(scores: dict[str, Estimate | None]) -> dict[str, Any]:
    return {name: None if x is None else x.to_json() for name, x in scores.items()}


def _counts(judged: Judged) -> list[int]:
    if not isinstance(judged.task, Labels):
        return [len(judged)] * len(judged.task.names)
    return [int(x) for x in judged.truth.sum(axis=0)]


def _units(judged: Judged) -> dict[str, int]:
    """Return on how many groups each score between 0 and 1 rests."""
    if not isinstance(judged.task, Labels):
        return {}
    groups = np.asarray(judged.groups, dtype=object)

    def num(rows: np.ndarray) -> int:
        return len(set(groups[rows]))

    num_true = [num(judged.truth[:, k] > 0) for k in range(judged.truth.shape[1])]
    num_others = [num(judged.truth[:, k] <= 0) for k in range(judged.truth.shape[1])]
    num_said = [num(judged.said[:, k] > 0) for k in range(judged.said.shape[1])]
    least = min((n for n in num_true if n), default=1)
    units = {"accuracy": judged.num_groups, "balanced_accuracy": least}
    for name in SCORES:
        if name.startswith("sensitivity"):
            units[name] = num_true[-1]
    units |= {"specificity": num_true[0], "auc": least, "average_precision": least, "f1": least}
    for k, (true, said) in enumerate(zip(num_true, num_said, strict=True)):
        units |= {f"recall/{k}": true, f"precision/{k}": said}
        fewer = max(1, min(true, num_others[k]))
        units |= {f"auc/{k}": fewer, f"average_precision/{k}": fewer}
    return units


def _missing(judged: Judged, counts: Sequence[int]) -> tuple[str, ...]:
    """Return a sentence for each thing that keeps scores from being computed."""
    names, told = judged.task.names, []
    if judged.num_groups == 1:
        told.append("All pictures are of one group, so there are no intervals.")
    if not isinstance(judged.task, Labels):
        still = [n for k, n in enumerate(names) if np.ptp(judged.truth[:, k]) == 0]
        return (*told, *(f"{name} is the same everywhere, so it has no R²." for name in still))
    for name, num, said in zip(names, counts, judged.said.sum(axis=0), strict=True):
        if num == 0:
            told.append(f"No {judged.level} shows {name}, so it has no recall and no AUC.")
        elif num == len(judged):
            told.append(f"Every {judged.level} shows {name}, so it has no AUC.")
        if said == 0:
            told.append(f"{name} was never said, so it has no precision.")
    return tuple(told)
