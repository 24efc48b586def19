"""Answers as they are judged: calibrated probabilities beside the truth, for pictures or groups.

judged = judge(Answered.load(path), card.calibration); pool([fold1, fold2]); by_group(judged)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from capsnet.measures.answered import Answered
from capsnet.tasks import Calibration, Labels, OneLabel, Pairs, Task


@dataclass(frozen=True, eq=False)
class Judged:
    """M pictures, or groups of them, with what was answered, said and true.

    For classes `truth` and `said` are tables of zeros and ones [M, J]; for numbers they are the
    numbers, and `said` equals `answers`. runs: which run answered; several may see the same file.
    """

    task: Task
    answers: np.ndarray  # float64 [M, J], probabilities or numbers
    said: np.ndarray  # float64 [M, J]
    truth: np.ndarray  # float64 [M, J]
    files: tuple[str, ...]
    groups: tuple[str, ...]
    runs: np.ndarray  # int64 [M]
    level: str = "picture"

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def num_groups(self) -> int:
        """How many different groups there are."""
        return len(set(self.groups))

    @property
    def one_label(self) -> bool:
        """Whether each picture shows just one class."""
        return isinstance(self.task, OneLabel)

    @property
    def wrong(self) -> np.ndarray:
        """Which pictures were answered wrongly, [M]; of numbers none is."""
        if not isinstance(self.task, Labels):
            return np.zeros(len(self), dtype=bool)
        return (self.said != self.truth).any(axis=1)


def judge(answered: Answered, calibration: Calibration | None = None, run: int = 0) -> Judged:
    """Return answers as calibrated probabilities, and what is said by the calibration's thresholds.

    Args:
        answered: What a model answered to each picture.
        calibration: What was chosen on the run's validation pictures; None changes nothing.
        run: The number of the run, where several are pooled.
    """
    task, rule = answered.task, calibration or Calibration()
    probabilities = rule.probabilities(task, torch.from_numpy(answered.answers.astype(np.float32)))
    answers = probabilities.double().numpy()
    truth, said = truth_table(task, answered.labels), answers
    if isinstance(task, Labels):
        said = _said(task, rule, probabilities)
        if isinstance(task, OneLabel):
            answers = answers / answers.sum(axis=1, keepdims=True)  # to the last digit of a double
    runs = np.full(len(answers), run, dtype=np.int64)
    return Judged(task, answers, said, truth, answered.files, answered.groups, runs)


def truth_table(task: Task, labels: np.ndarray) -> np.ndarray:
    """Return labels, as a split or a batch has them, as float64 [M, J]: marks, or the numbers."""
    labels = np.ascontiguousarray(labels)
    if isinstance(task, OneLabel | Pairs):
        return task.table(torch.from_numpy(labels.reshape(len(labels), -1)).long()).double().numpy()
    return labels.reshape(len(labels), -1).astype(np.float64)


def _said(task: Task, rule: Calibration, probabilities: torch.Tensor) -> np.ndarray:
    num_classes = len(task.names)
    if isinstance(task, OneLabel):
        return np.eye(num_classes)[rule.chosen(task, probabilities).numpy()]
    if isinstance(task, Pairs):
        two = probabilities.topk(2, dim=1).indices
        return torch.zeros_like(probabilities).scatter_(1, two, 1).double().numpy()
    return rule.chosen(task, probabilities).double().numpy()


def pool(parts: Sequence[Judged]) -> Judged:
    """Return the pictures of several runs as one, each run with its own number in order."""
    first = parts[0]
    return Judged(
        first.task,
        np.concatenate([part.answers for part in parts]),
        np.concatenate([part.said for part in parts]),
        np.concatenate([part.truth for part in parts]),
        tuple(file for part in parts for file in part.files),
        tuple(group for part in parts for group in part.groups),
        np.concatenate([np.full(len(part), k, dtype=np.int64) for k, part in enumerate(parts)]),
        first.level,
    )


def by_group(judged: Judged, calibration: Sequence[Calibration] = ()) -> Judged | None:
    """Return one row for each group of each run, its mean answer; None where that says no more.

    That is where no group has two pictures, or where one has pictures of different truth.
    calibration: the thresholds of each run.
    """
    keys = [f"{run}\0{group}" for run, group in zip(judged.runs, judged.groups, strict=True)]
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(judged) or not np.array_equal(judged.truth, judged.truth[first][codes]):
        return None
    sums = np.zeros((len(first), judged.answers.shape[1]))
    np.add.at(sums, codes, judged.answers)
    answers = sums / np.bincount(codes)[:, None]
    said, runs = answers, judged.runs[first]
    if isinstance(judged.task, Labels):
        said = np.zeros_like(answers)
        for run in np.unique(runs):
            rule = calibration[run] if len(calibration) else Calibration()
            rows = runs == run
            said[rows] = _said(judged.task, rule, torch.from_numpy(answers[rows]).float())
    groups = tuple(judged.groups[k] for k in first)
    return Judged(judged.task, answers, said, judged.truth[first], groups, groups, runs, "group")
