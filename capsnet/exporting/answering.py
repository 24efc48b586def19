"""The graph that is exported: a model with its routing, and what makes its answers probabilities.

answering = Answering(model, card.calibration); answering(images)["probabilities"]
"""

from torch import Tensor, nn

from capsnet.layers import ClassCaps
from capsnet.models import Model
from capsnet.tasks import Calibration, Labels, Sets, Task


class Answering(nn.Module):
    """Images [N, C, H, W] -> probabilities [N, J] (of classes alone), answers [N, J], v [N, J, E].

    Without a calibration the probabilities are the answers. It returns a plain dict, which other
    programs know, and not the model's `Output`.
    """

    def __init__(self, model: Model, calibration: Calibration | None) -> None:
        super().__init__()
        self.model, self.calibration = model.eval(), calibration
        for module in model.modules():
            if isinstance(module, ClassCaps):  # what was fastest in training may not be exported
                module.backend = "auto"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it returns, in order."""
        if tells_classes(self.model.task):
            return ("probabilities", "answers", "v")
        return ("answers", "v")

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Return what is said of images [N, C, H, W], by name."""
        v, answers = self.model(images)
        said = {"answers": answers, "v": v, "probabilities": answers}
        if self.calibration is not None:
            said["probabilities"] = self.calibration.probabilities(self.model.task, answers)
        return {name: said[name] for name in self.outputs}


def tells_classes(task: Task) -> bool:
    """Return whether answers say which classes are there: they are no numbers and no counts."""
    return isinstance(task, Labels) and not isinstance(task, Sets)
