"""Matrix capsules with EM routing (Hinton, Sabour, Frosst 2018).

output = MatrixCaps()(images); output.answers are the activations of the class capsules.
"""

from functools import partial

from torch import Tensor, nn

from capsnet.layers import Conv2d, PrimaryPoses
from capsnet.layers.routings import EmRouting
from capsnet.models.model import Output, Progress
from capsnet.models.registry import register_model
from capsnet.models.stacked_caps import StackedCaps, Start
from capsnet.ops import spread_loss
from capsnet.options import Iterations, Positive, Size
from capsnet.tasks import Batch, OneLabel

FIRST_MARGIN, LAST_MARGIN = 0.2, 0.9


@register_model("matrixcaps")
class MatrixCaps(StackedCaps):
    """Matrix capsules with EM routing.

    A, B, C, D: channels of the convolution, and types of primary, first and second convolutional
    capsules; the paper's larger network has 32 of each. lam: the inverse temperature of EM.

    Its loss is the spread loss, with a margin that grows from 0.2 to 0.9 over the run.
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
        lam: Positive = 1.0,
        primary_bias: bool = True,
    ) -> None:
        stem = Conv2d(image_shape[0], A, 5, 2, relu=True)
        primary_caps = PrimaryPoses(A, B, bias=primary_bias)
        # Poses that are as large as the pixels, where torch's own start would make them shrink.
        nn.init.kaiming_normal_(stem.weight, nonlinearity="relu")
        nn.init.kaiming_normal_(primary_caps.pose.weight, nonlinearity="linear")
        super().__init__(
            image_shape,
            num_classes,
            stem,
            primary_caps,
            (B, C, D),
            partial(EmRouting, num_iters=num_iters, lam=lam),
            Start(std=0.03, identity=True),
        )

    def loss(self, output: Output, batch: Batch, progress: Progress) -> Tensor:
        """Return the spread loss with the margin of this moment."""
        share = progress.share.to(output.answers).clamp(0, 1)
        margin = FIRST_MARGIN + (LAST_MARGIN - FIRST_MARGIN) * share
        labels = batch.labels
        one = isinstance(self.task, OneLabel)
        targets = labels.squeeze(1) if one else self.task.table(labels)
        return spread_loss(output.answers, targets, margin, batch.weights)
