"""Capsules on top of any network: a trunk gives features, capsules of them vote for the classes.

create_model("capsnet_on_trunk", trunk="my_trunk.py:features", frozen=True, image_shape=(3, 64, 64))
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from capsnet.errors import UserError
from capsnet.layers import ClassCaps, Decoder, PrimaryCaps
from capsnet.models.abilities import Placed
from capsnet.models.capsnet import CapsClassifier
from capsnet.models.registry import register_model
from capsnet.models.trunks import find_trunk
from capsnet.options import Iterations, Positive, Size


@register_model("capsnet_on_trunk")
class CapsOnTrunk(CapsClassifier):
    """A capsule head on a trunk of your choice.

    trunk: "module.path:function" or "file.py:function" (it returns an nn.Module, images -> a map
    [N, F, H, W] or tokens [N, T, F]), "timm:NAME" or "hf:NAME"; see trunks.py. Primary capsules are
    a 1×1 convolution of the features. frozen keeps the trunk as it is, normalisation included.
    trunk_weights=False builds a trunk of timm or Hugging Face without its trained weights, as is
    done where they are read from a file of ours. Loss and decoder are those of `CapsNet`.
    """

    rebuild: ClassVar = {"trunk_weights": False}

    def __init__(
        self,
        image_shape: tuple[Size, Size, Size] = (1, 28, 28),
        num_classes: Size = 10,
        *,
        trunk: str = "capsnet.models.trunks:small_trunk",
        frozen: bool = False,
        trunk_weights: bool = True,
        primary_types: Size = 16,
        primary_dim: Size = 8,
        class_dim: Size = 16,
        num_iters: Iterations = 3,
        decoder: tuple[Size, ...] = (128, 256),
        reconstruction_weight: Positive = 0.0005,
        average_classes: bool = False,
    ) -> None:
        super().__init__(image_shape, num_classes)
        self.reconstruction_weight, self.average_classes = reconstruction_weight, average_classes
        self.trunk_name = trunk
        self.trunk = find_trunk(trunk, image_shape, trunk_weights)
        channels, rows, columns = self._look(image_shape)
        self.grid = (rows, columns, primary_types)
        self.primary_caps = PrimaryCaps(channels, primary_types, primary_dim, 1, 1)
        self.class_caps = ClassCaps(
            rows * columns * primary_types, primary_dim, num_classes, class_dim, num_iters
        )
        self.decoder = Decoder(num_classes, class_dim, image_shape, decoder) if decoder else None
        if frozen:
            self.freeze(("primary_caps", *self.head))

    @property
    def placed(self) -> Placed | None:
        """None: what a feature of a trunk sees of the image is not known."""
        return None

    def primary(self, images: Tensor) -> Tensor:
        """Return the primary capsules u [N, I, D] of images [N, C, H, W]."""
        return self.primary_caps(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Return the trunk's features as a map [N, F, H, W]; tokens [N, T, F] are one column."""
        said: Any = self.trunk(images)
        x = getattr(said, "last_hidden_state", said)
        if isinstance(x, Tensor) and x.dim() == 3:
            x = x.transpose(1, 2).unsqueeze(-1)
        if not isinstance(x, Tensor) or x.dim() != 4:
            shape = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise UserError(
                f"The trunk {self.trunk_name} gives {shape}; give one that ends before its pooling,"
                " in a map [N, F, H, W] or tokens [N, T, F]."
            )
        return x

    @torch.no_grad()
    def _look(self, image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return (F, H, W) of the features of one image, which must not change the trunk."""
        mode = self.trunk.training
        self.trunk.eval()
        try:
            _, channels, rows, columns = self.features(torch.zeros(1, *image_shape)).shape
        except UserError:
            raise
        except Exception as error:  # whatever a trunk says of a size that it is not made for
            raise UserError(
                f"The trunk {self.trunk_name} does not take images of shape {image_shape} "
                f"({error}); choose other --channels or another --image-size."
            ) from error
        self.trunk.train(mode)
        return channels, rows, columns
