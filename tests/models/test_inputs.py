"""What a model is given: pictures and classes that fit, and a sentence for those that do not."""

import pytest
import torch

from capsnet import create_model
from capsnet.errors import UserError


@pytest.mark.parametrize("name", ["capsnet_small", "cnn_small"])
@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (torch.rand(2, 3, 28, 28), "its shape"),
        (torch.rand(1, 28, 28), "its shape"),
        (torch.rand(2, 1, 32, 32), "its shape"),
        (torch.zeros(2, 1, 28, 28, dtype=torch.uint8), "divide by 255"),
    ],
    ids=["channels", "no batch", "size", "bytes"],
)
def test_other_images_are_a_sentence(name, images, sentence):
    with pytest.raises(UserError, match=sentence):
        create_model(name)(images)


def test_a_class_can_be_chosen_in_many_ways():
    model, v = create_model("capsnet_small"), torch.rand(2, 10, 16)
    expected = model.reconstruct(v, torch.tensor([3, 3]))
    for which in (3, [3, 3], torch.tensor(3), torch.tensor([3, 3], dtype=torch.int32)):
        assert torch.equal(model.reconstruct(v, which), expected)
    assert torch.equal(model.reconstruct(v), model.reconstruct(v, v.norm(dim=-1).argmax(dim=1)))
    pictures = model.reconstruct(v, torch.tensor([[1, 3]] * 2))
    assert pictures.shape == (2, 2, 1, 28, 28)
    torch.testing.assert_close(pictures[:, 1], expected)
    for which in (10, -1, torch.tensor([1, 10]), [0, -1]):
        with pytest.raises(UserError, match=r"no class -?10?; choose 0 to 9"):
            model.reconstruct(v, which)
