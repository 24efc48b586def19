"""Troubles that no number shows: dead capsules, and a decoder that draws one picture."""

import torch

from capsnet.models import create_model
from capsnet.models.weights import load_weights, shipped_path
from capsnet.training.loop import train
from capsnet.training.watching import troubles


def images():
    from capsnet.data import open_data

    stream = open_data("digits", "train")
    return stream.batch({name: x[:8] for name, x in stream.plan(None).items()}).images


def test_a_trained_network_has_none():
    model = load_weights(shipped_path("capsnet_small"))[0].train()
    assert troubles(model, images()) == []
    assert model.training


def test_dead_capsules_are_said():
    model = load_weights(shipped_path("capsnet_small"))[0]
    model.class_caps.W.data.mul_(1e-4)
    assert any("The capsules are dead" in sentence for sentence in troubles(model, images()))


def test_one_iteration_is_not_dead():
    model = create_model("capsnet_small", num_iters=1)
    assert not any("dead" in sentence for sentence in troubles(model, images()))


def test_a_decoder_that_draws_one_picture_is_said():
    model = load_weights(shipped_path("capsnet_small"))[0]
    next(m for m in model.decoder.modules() if isinstance(m, torch.nn.Linear)).weight.data.zero_()
    assert [sentence.partition(" whatever")[0] for sentence in troubles(model, images())] == [
        "The decoder draws the same picture"
    ]


def test_training_says_it(tiny, capsys):
    train(tiny(lr=1e-6))
    assert "The decoder draws the same picture" in capsys.readouterr().err
