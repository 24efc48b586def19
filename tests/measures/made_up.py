"""Answers to pictures that nobody took, of every task."""

import numpy as np

from capsnet.measures.answered import Answered
from capsnet.tasks import Numbers, OneLabel, Pairs, SeveralLabels

TWO = OneLabel(("benign", "malign"))
TASKS = {
    "two": TWO,
    "many": OneLabel(("a", "b", "c", "d")),
    "several": SeveralLabels(("x", "y", "z")),
    "pairs": Pairs(("a", "b", "c", "d")),
    "numbers": Numbers(("age", "dose"), ("a", "mg"), ((0.0, 1.0), (0.0, 1.0))),
}


def answered(task, answers, labels, groups=None, prefix=""):
    answers = np.asarray(answers, dtype=np.float32)
    files = tuple(f"{prefix}{k}.png" for k in range(len(answers)))
    groups = files if groups is None else tuple(map(str, groups))
    return Answered(task, answers, np.asarray(labels), files, groups)


def positives(scores, labels, groups=None):
    """Answers of two classes by the probability of the second."""
    scores = np.asarray(scores)
    return answered(TWO, np.stack([1 - scores, scores], 1), labels, groups)


def made_up(task, num=60, skill=0.4, seed=0, num_groups=12):
    random = np.random.default_rng(seed)
    groups = random.permutation(np.arange(num) % num_groups)
    J = len(task.names)
    answers = random.random((num, J)).astype(np.float32)
    if isinstance(task, Numbers):
        labels = random.random((num, J))
        return answered(task, skill * labels + (1 - skill) * answers, labels, groups)
    if isinstance(task, SeveralLabels):
        labels = random.integers(2, size=(num, J))
        table = labels
    elif isinstance(task, Pairs):
        labels = np.stack([groups % 2, 2 + groups % 2], 1)
        table = np.eye(J)[labels].sum(1)
    else:
        labels = groups % J
        table = np.eye(J)[labels]
    return answered(task, (1 - skill) * answers + skill * table, labels, groups)
