"""Comparing two ways of answering the same pictures, and the runs of one way with each other.

compare(ours, theirs)[0].difference.low > 0: ours is better; over_runs(parts)["auc"].mean
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capsnet.errors import UserError, require
from capsnet.measures.judged import Judged
from capsnet.measures.resampling import Estimate, interval, num_resamples, resamples
from capsnet.measures.scores import SCORES, main_scores, scores_of
from capsnet.measures.values import draws, values


@dataclass(frozen=True)
class Difference:
    """One score of two ways of answering, and how far they are apart: ours minus theirs."""

    score: str
    ours: Estimate
    theirs: Estimate
    difference: Estimate

    @property
    def verdict(self) -> str:
        """Whether ours is "better" or "worse", or "no better": the interval holds zero."""
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or low <= 0 <= high:
            return "no better"
        return "better" if (low > 0) == SCORES[self.score].higher_is_better else "worse"

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and the verdict."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Spread:
    """A score over runs: mean, standard deviation (None of one run) and their number."""

    mean: float
    deviation: float | None
    num: int

    def to_json(self) -> dict[str, Any]:
        """Return the three numbers."""
        return asdict(self)


def compare(
    ours: Judged, theirs: Judged, resampled: int | None = None, seed: int = 0
) -> tuple[Difference, ...]:
    """Return the differences in the main scores of the task, paired, with intervals over groups.

    Both must have answered the same files in the same runs, in any order. A score that one of them
    has not is left out.
    """
    theirs = _aligned(theirs, ours)
    wanted = main_scores(ours.task)
    total = resampled or num_resamples(len(ours), len(ours.task.names))
    found = values(ours, wanted), values(theirs, wanted)
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    for weights in resamples(ours.groups, total, seed):
        both = [draws(x, weights, wanted) for x in (ours, theirs)]
        for name in wanted:
            drawn[name].append(np.stack([part[name] for part in both]))
    told, num_groups = [], ours.num_groups
    for name in wanted:
        one, two = (x[name] for x in found)
        if one is None or two is None:
            continue
        mine, other = np.concatenate(drawn[name], axis=1)
        pairs = (one, mine), (two, other), (one - two, mine - other)
        estimates = [interval(value, many, num_groups) for value, many in pairs]
        told.append(Difference(name, *(require(x, "a score is finite") for x in estimates)))
    return tuple(told)


def over_runs(parts: Sequence[Judged]) -> dict[str, Spread]:
    """Return mean and standard deviation over runs of every score that each of them has."""
    names = scores_of(parts[0].task)
    each = [values(part, names) for part in parts]
    found = {}
    for name in names:
        known = [x for row in each if (x := row[name]) is not None]
        if len(known) == len(parts):
            deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
            found[name] = Spread(float(np.mean(known)), deviation, len(known))
    return found


def _aligned(theirs: Judged, ours: Judged) -> Judged:
    """Return `theirs` in the order of `ours`; a UserError if they answered other files."""
    wanted = list(zip(ours.runs.tolist(), ours.files, strict=True))
    given = list(zip(theirs.runs.tolist(), theirs.files, strict=True))
    if wanted == given:
        return theirs
    places = {key: k for k, key in enumerate(given)}
    if len(places) != len(given) or places.keys() != set(wanted) or len(given) != len(wanted):
        raise UserError(
            "Two runs are compared on the pictures that both have answered, and these answered "
            "different ones; train both with the same data and --data-seed."
        )
    rows = np.array([places[key] for key in wanted])
    return Judged(
        theirs.task,
        theirs.answers[rows],
        theirs.said[rows],
        theirs.truth[rows],
        ours.files,
        ours.groups,
        ours.runs,
        theirs.level,
    )
