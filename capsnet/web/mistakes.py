"""The test pictures that a network got wrong, the surest mistakes first, as its run keeps them.

mistakes = find_mistakes(net, samples); page = mistakes.page(0)
"""

from dataclasses import dataclass

import torch

from capsnet.errors import UserError
from capsnet.measures.answered import Answered
from capsnet.prediction.answer import confidence, decided
from capsnet.tasks import Calibration, OneLabel, SeveralLabels
from capsnet.web.nets import Net
from capsnet.web.samples import Samples
from capsnet.web.schema import Mistake, MistakesPage

ANSWERS = "answers-test.npz"  # in the folder of a run on pictures of one's own
PER_PAGE = 8


@dataclass(frozen=True, eq=False)
class Wrong:
    """One wrong answer: its row among the test images, what was said of it, and how surely."""

    row: int
    said: str
    confidence: float


class Mistakes:
    """Wrong answers in pages."""

    def __init__(self, samples: Samples, wrong: list[Wrong]) -> None:
        self.samples = samples
        self.wrong = sorted(wrong, key=lambda one: -one.confidence)

    def __len__(self) -> int:
        return len(self.wrong)

    def page(self, number: int) -> MistakesPage:
        """Return the page with that number; there is nothing behind the last one."""
        part = self.wrong[number * PER_PAGE : (number + 1) * PER_PAGE]
        return MistakesPage(total=len(self.wrong), mistakes=[self.mistake(one) for one in part])

    def mistake(self, one: Wrong) -> Mistake:
        """Return one mistake as the page takes it."""
        number, label = self.samples.place(one.row)
        sample = self.samples.sample(number, label, one.row)
        return Mistake(
            sample=sample,
            file=self.samples.split.files[one.row],
            said=one.said,
            confidence=one.confidence,
        )


def find_mistakes(net: Net, samples: Samples | None) -> Mistakes | None:
    """Return the mistakes of a run that kept its answers to the test images that are here."""
    if samples is None or not samples.split.files or net.folder is None:
        return None
    path = net.folder / ANSWERS
    task = net.model.task
    if not path.exists() or not isinstance(task, OneLabel | SeveralLabels):
        return None
    try:
        answered = Answered.load(path)
    except UserError:
        return None
    if answered.task != task:  # of another run
        return None
    rows = {file: row for row, file in enumerate(samples.split.files)}
    answers, labels = torch.from_numpy(answered.answers), torch.from_numpy(answered.labels)
    rule = net.card.calibration or Calibration()
    chosen = rule.chosen(task, rule.probabilities(task, answers))
    misses = (chosen != labels).reshape(len(answered), -1).any(dim=1)
    shown, said = decided(task, net.card.calibration, answers)
    wrong = []
    for n in misses.nonzero().flatten().tolist():
        if (row := rows.get(answered.files[n])) is not None:
            sure = confidence(task, shown[n], said[n], rule)
            wrong.append(Wrong(row, said[n], sure or 0.0))
    return Mistakes(samples, wrong)
