"""What a model says of one picture, for people and programs, and of many as a table.

print(prediction); write_text("out.csv", as_csv(predictions))
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.tasks import Calibration, OneLabel, Pairs, SeveralLabels, Task

MAX_TOLD = 12  # classes that a summary names


@dataclass(frozen=True)
class Prediction:
    """What a model says of one file; `doubts` are reasons not to trust it, in words."""

    file: Path
    decision: str  # in words: the class, the classes, or the numbers
    answers: dict[str, float]  # the probability of each class, or each number
    are_probabilities: bool
    reconstruction: Path | None = None  # what the winning capsule draws, if it was asked for
    confidence: float | None = None  # how probable the decision is; None for numbers
    doubts: tuple[str, ...] = ()
    input: Path | None = None  # what the model saw, if it was asked for
    calibrated: bool = False  # else probabilities are the lengths of capsules, or a softmax

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain JSON values."""
        facts: dict[str, Any] = {"file": str(self.file), "decision": self.decision}
        kind = "probabilities" if self.calibrated else "lengths"
        facts[kind if self.are_probabilities else "numbers"] = self.answers
        if self.confidence is not None:
            facts["confidence"] = self.confidence
        facts["doubts"] = list(self.doubts)
        for name in ("reconstruction", "input"):
            if (path := getattr(self, name)) is not None:
                facts[name] = str(path)
        return facts

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.decision}"]
        if self.are_probabilities:
            ranked = sorted(self.answers.items(), key=lambda item: -item[1])[:3]
            lines[0] += "   ({})".format("  ".join(f"{name} {x:.3f}" for name, x in ranked))
        lines += [f"  not to be trusted: {doubt}." for doubt in self.doubts]
        if self.input is not None:
            lines.append(f"  the network saw {self.input}")
        return "\n".join(lines)


def decided(
    task: Task, calibration: Calibration | None, answers: Tensor
) -> tuple[list[list[float]], list[str]]:
    """Return answers [N, J] as probabilities if that is known, and what each row of them says."""
    rule = calibration or Calibration()
    shown = answers if calibration is None else calibration.probabilities(task, answers)
    if isinstance(task, OneLabel):  # all at once: there may be many
        said = [task.names[k] for k in rule.chosen(task, shown).tolist()]
    elif calibration is None:
        said = [task.decide(row) for row in shown]
    else:
        said = [calibration.decide(task, row) for row in shown]
    return shown.tolist(), said


def confidence(
    task: Task, probabilities: Sequence[float], said: str, rule: Calibration | None = None
) -> float | None:
    """Return how probable what was said of one image by a rule is, of J probabilities."""
    if isinstance(task, OneLabel):
        return probabilities[task.names.index(said)]
    if isinstance(task, Pairs):
        return sorted(probabilities)[-2]
    if isinstance(task, SeveralLabels):  # of the class that is the least sure to be there or not
        marks = (rule or Calibration()).chosen(task, torch.tensor([probabilities]))[0].tolist()
        return min(p if mark else 1 - p for p, mark in zip(probabilities, marks, strict=True))
    return None


def as_csv(predictions: Sequence[Prediction]) -> str:
    """Return a table: file, prediction, confidence, and a column for each class or number."""
    names = list(predictions[0].answers) if predictions else []
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "prediction", "confidence", *names])
    for x in predictions:
        sure = "" if x.confidence is None else f"{x.confidence:.6g}"
        values = [f"{x.answers[name]:.6g}" for name in names]
        table.writerow([str(x.file), x.decision, sure, *values])
    # A name of a file may hold bytes that are no text.
    return text.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def summary(predictions: Sequence[Prediction]) -> str:
    """Return how many pictures were said to be what, and how many answers are doubtful."""
    lines = [f"{len(predictions):,} pictures"]
    if all(x.are_probabilities for x in predictions):
        counts = Counter(x.decision for x in predictions).most_common()
        told = [f"{name}: {n:,}" for name, n in counts[:MAX_TOLD]]
        more = len(counts) - MAX_TOLD
        lines.append(", ".join(told) + (f", and {more:,} other answers" if more > 0 else ""))
    if doubtful := sum(bool(x.doubts) for x in predictions):
        lines.append(f"{doubtful:,} not to be trusted (--json says why)")
    return "; ".join(lines)
