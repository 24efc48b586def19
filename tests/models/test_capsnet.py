"""What the parts of CapsNet do together."""

import torch

from capsnet import create_model


def test_dropout_leaves_whole_capsules_out_of_training_alone():
    images = torch.rand(2, 1, 28, 28)
    model = create_model("capsnet_small", dropout=0.5)
    seen = []
    model.class_caps.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.train()(images)
    model.eval()(images)
    u = model.primary(images)
    dropped = (seen[0] == 0).all(-1)
    assert 0.4 < dropped.float().mean() < 0.6
    torch.testing.assert_close(seen[0][~dropped], 2 * u[~dropped])
    assert torch.equal(seen[1], u)


def test_without_dropout_training_sees_what_evaluation_sees():
    images = torch.rand(2, 1, 28, 28)
    model = create_model("capsnet_small")
    assert torch.equal(model.train()(images).v, model.eval()(images).v)
