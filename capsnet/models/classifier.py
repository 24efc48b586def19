"""What every model here is: images in, one vector and one length per class out."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from capsnet.errors import UserError


class Output(NamedTuple):
    """What a model says of N images and J classes."""

    v: Tensor  # [N, J, E], the class capsules; for a CNN [N, J, 1], the logits
    lengths: Tensor  # [N, J], the probability of each class


class Classifier(nn.Module):
    """Abstract: images [N, C, H, W] in [0, 1] -> Output; `objective` names its training loss."""

    objective: ClassVar[Literal["margin", "cross_entropy", "binary_cross_entropy"]]
    name: str  # set by create_model, with options: what rebuilds the same model
    options: dict[str, Any]

    def __init__(self, image_shape: tuple[int, int, int], num_classes: int) -> None:
        super().__init__()
        if num_classes < 2:
            raise UserError(f"A classifier needs at least two classes, not {num_classes}.")
        c, h, w = image_shape
        self.image_shape, self.num_classes = (c, h, w), num_classes

    @abstractmethod
    def forward(self, images: Tensor) -> Output:
        """Return the class vectors and lengths of images [N, C, H, W]."""

    def check(self, images: Tensor) -> None:
        """Raise a UserError if these are not images for this model."""
        if images.dim() != 4 or images.shape[1:] != self.image_shape:
            raise UserError(
                f"The model takes images [N, {', '.join(map(str, self.image_shape))}], not "
                f"{list(images.shape)}; give images of its shape."
            )
        if not images.is_floating_point():
            raise UserError(f"The model takes images in 0 … 1, not {images.dtype}; divide by 255.")


def conv_size(size: int, kernel: int, stride: int) -> int:
    """Return the side left by an unpadded convolution; a UserError if the kernel does not fit."""
    if size < kernel:
        raise UserError(
            f"A {kernel}×{kernel} kernel does not fit a {size}×{size} picture; "
            "give larger images or a model with smaller kernels."
        )
    return (size - kernel) // stride + 1
