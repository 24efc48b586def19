"""Classifiers with a decoder that draws the picture each class's vector stands for.

class Mine(DrawingClassifier): forward; loss with `self.reconstruction(output, batch)` in it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.layers import Decoder, SharedDecoder
from capsnet.models.abilities import Draws
from capsnet.models.model import Classifier, Output
from capsnet.ops import reconstruction_loss
from capsnet.ops.losses import check_classes
from capsnet.tasks import Batch

NO_DECODER = "This model has no decoder; train one with a decoder to see pictures."


class DrawingClassifier(Classifier):
    """Abstract: a classifier that draws from v [N, J, E], if it was made with a decoder.

    A final one makes `decoder` and `reconstruction_weight`, what its loss counts for.
    """

    decoder: Decoder | SharedDecoder | None
    reconstruction_weight: float

    def reconstruction(self, output: Output, batch: Batch) -> Tensor | float:
        """Return reconstruction_weight * SSE, each labelled class drawing its part of the image.

        Where the parts are not known, all labelled classes draw the image together.
        """
        if self.decoder is None or self.reconstruction_weight == 0:
            return 0.0
        if batch.parts is None:
            T = self.task.table(batch.labels).to(output.v.dtype)
            pixels, drawn = self.draw(output.v * T.unsqueeze(-1)), batch.images
        else:
            pixels, drawn = self.reconstruct(output.v, batch.labels), batch.parts
        difference = reconstruction_loss(pixels.to(drawn.dtype), drawn, batch.weights)
        return self.reconstruction_weight * difference

    @property
    def draws(self) -> Draws | None:
        """The model itself, if it has a decoder."""
        return None if self.decoder is None else self

    def winner(self, v: Tensor) -> Tensor:
        """Return the class [N] that v [N, J, E] speaks for: the longest vector's."""
        return torch.linalg.vector_norm(v, dim=-1).argmax(dim=1)

    def reconstruct(self, v: Tensor, which: Tensor | Sequence[int] | int | None = None) -> Tensor:
        """Return the pictures [N, C, H, W] that the vectors `which` of v [N, J, E] stand for.

        which: None for the winner, one class for all, classes [N], or [N, L] for L pictures of
        each, [N, L, C, H, W].
        """
        if self.decoder is None:
            raise UserError(NO_DECODER)
        which = torch.as_tensor(self.winner(v) if which is None else which, device=v.device)
        check_classes(which, self.num_classes)
        return self.decoder(v, (which.expand(v.shape[0]) if which.dim() == 0 else which).long())

    def draw(self, v: Tensor) -> Tensor:
        """Return the pictures [N, C, H, W] that all vectors of v [N, J, E] draw together."""
        if self.decoder is None:
            raise UserError(NO_DECODER)
        return self.decoder.draw(v)
