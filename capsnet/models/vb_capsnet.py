"""Capsules with variational-Bayes routing (Ribeiro, Leontidis, Kollias 2020).

output = VbCapsNet()(images); output.answers are the activations of the class capsules.
"""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from capsnet.layers import Conv2d, PrimaryPoses
from capsnet.layers.routings import VbRouting
from capsnet.models.model import Output, Progress
from capsnet.models.registry import register_model
from capsnet.models.stacked_caps import StackedCaps, Start
from capsnet.ops.losses import weighted_mean
from capsnet.options import Iterations, Size
from capsnet.tasks import Batch


@register_model("vb_capsnet")
class VbCapsNet(StackedCaps):
    """Capsules with variational-Bayes routing and norms between layers.

    A, B, C, D: channels of the convolution, and types of primary, first and second convolutional
    capsules.

    Its loss is the cross-entropy of a softmax over the activations, as in the authors' code.
    """

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        A: Size = 64,
        B: Size = 8,
        C: Size = 16,
        D: Size = 16,
        num_iters: Iterations = 3,
    ) -> None:
        stem = nn.Sequential(
            Conv2d(image_shape[0], A, 5, 2, bias=False), nn.BatchNorm2d(A), nn.ReLU()
        )
        super().__init__(
            image_shape,
            num_classes,
            stem,
            PrimaryPoses(A, B, norm=True),
            (B, C, D),
            partial(VbRouting, num_iters=num_iters),
            Start(),
        )

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the cross-entropy; with L labels, each has the probability 1 / L."""
        T = self.task.table(batch.labels).to(output.answers.dtype)
        T = T / T.sum(dim=1, keepdim=True).clamp(min=1)
        each = F.cross_entropy(output.answers, T, reduction="none")
        return weighted_mean(each, batch.weights)
