"""Calibration: what makes a model's answers probabilities, and from where on a class is said.

Both are chosen on validation images and kept with the weights.

probabilities = calibration.probabilities(task, answers); calibration.decide(task, probabilities[0])
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from capsnet.options import Above, restored
from capsnet.tasks.labels import OneLabel, SeveralLabels
from capsnet.tasks.task import Task

SMALLEST = 1e-6


@dataclass(frozen=True)
class Calibration:
    """A temperature, and thresholds: one for the last of two classes, or one for each of several.

    One label: p_j = a_j^(1/T) / sum_k a_k^(1/T). Several labels: logit p_j = logit(a_j) / T.
    """

    temperature: Above = 1.0
    thresholds: tuple[float, ...] = ()  # none: the most probable class, or one half

    @property
    def is_known(self) -> bool:
        """Whether anything was chosen: too few validation pictures leave answers as they are."""
        return self != Calibration()

    def probabilities(self, task: Task, answers: Tensor) -> Tensor:
        """Return answers [N, J] as probabilities [N, J]; those of numbers and pairs as they are."""
        if isinstance(task, OneLabel):
            logs = answers.clamp(min=SMALLEST).log() / self.temperature
            return torch.softmax(logs, dim=-1)
        if isinstance(task, SeveralLabels):
            return torch.sigmoid(torch.logit(answers, eps=SMALLEST) / self.temperature)
        return answers

    def chosen(self, task: Task, probabilities: Tensor) -> Tensor:
        """Return the classes said, as the task has labels: [N], or a table [N, J]."""
        if isinstance(task, SeveralLabels):
            lines = self.thresholds or (0.5,) * len(task.names)
            return (probabilities >= torch.tensor(lines).to(probabilities)).long()
        if self.thresholds and probabilities.shape[-1] == 2:
            return (probabilities[..., 1] >= self.thresholds[0]).long()
        return probabilities.argmax(dim=-1)

    def marked(self, task: Task, answers: Tensor) -> Tensor:
        """Return answers [N, J] as what is said by them, ones and zeros; numbers as they are.

        `task.measure` of these counts the errors of the answers that people are given.
        """
        if isinstance(task, OneLabel | SeveralLabels):
            said = self.chosen(task, self.probabilities(task, answers))
            said = said if isinstance(task, SeveralLabels) else one_hot(said, answers.shape[-1])
            return said.to(answers)
        return answers

    def decide(self, task: Task, probabilities: Tensor) -> str:
        """Return in words what probabilities [J] of one image say."""
        if isinstance(task, SeveralLabels):
            marks = self.chosen(task, probabilities[None])[0]
            return ", ".join(task.names[k] for k in marks.nonzero().flatten().tolist()) or "none"
        if isinstance(task, OneLabel):
            return task.names[int(self.chosen(task, probabilities[None])[0])]
        return task.decide(probabilities)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Calibration":
        """Return the calibration that `to_json` wrote."""
        return restored(cls, facts)
