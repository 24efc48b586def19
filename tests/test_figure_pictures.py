"""Which test pictures a figure shows."""

import pytest
import torch

from capsnet.data import ImageStream, Split
from capsnet.errors import UserError
from capsnet.figures.plot import take_in_turn
from capsnet.tasks import OneLabel


def test_pictures_that_lie_class_by_class_are_shown_in_turn():
    labels = torch.tensor([0] * 20 + [1] * 5 + [2] * 2)
    images = torch.arange(27, dtype=torch.uint8).reshape(27, 1, 1, 1).expand(-1, 1, 4, 4)
    stream = ImageStream(Split(images.contiguous(), labels, OneLabel(("a", "b", "c"))))
    batch = take_in_turn(stream, 0, 8)
    shown = (batch.images[:, 0, 0, 0] * 255).round().long().tolist()
    assert shown == [0, 20, 25, 1, 21, 26, 2, 22]
    assert len(take_in_turn(stream, 24, 8).images) == 3
    with pytest.raises(UserError, match="no image 27"):
        take_in_turn(stream, 27, 8)
