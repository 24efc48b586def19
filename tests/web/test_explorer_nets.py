"""Which networks and test images the explorer takes."""

from dataclasses import replace

import pytest

from capsnet import create_model
from capsnet.errors import UserError
from capsnet.models.weights import Card, save_weights
from capsnet.tasks import Pairs
from capsnet.web import samples
from capsnet.web.nets import load_nets
from capsnet.web.server import create_app


def test_a_cnn_is_no_capsnet(runs):
    with pytest.raises(UserError, match="no capsules"):
        create_app(runs["cnn"])


def test_network_for_pairs(runs, tmp_path):
    given = load_nets(None, runs["overlap"], None)
    assert (given.capsnet.card.data, given.overlap.card.data) == ("mnist", "multidigits")
    own = load_nets(runs["overlap"], None, None)
    assert own.overlap is own.capsnet
    shipped = load_nets(runs["capsnet"], None, None)
    assert (shipped.capsnet.card.data, shipped.overlap.card.data) == ("digits", "multimnist")
    path = tmp_path / "weights.safetensors"
    model = create_model("capsnet_small", decoder=())
    task = Pairs(tuple("0123456789"))
    card = Card(model.name, model.options, task, {"data": "multidigits"})
    save_weights(model, path, card)
    assert load_nets(str(path), None, None).overlap.card.data == "multimnist"
    for unfit in (runs["capsnet"], str(path)):
        with pytest.raises(UserError, match="trained on multimnist or multidigits"):
            load_nets(None, unfit, None)


def test_cnn_that_is_given_must_fit(runs, colour_run):
    assert load_nets(runs["capsnet"], None, runs["cnn"]).cnn is not None
    for weights, cnn in ((runs["capsnet"], runs["capsnet"]), (colour_run, runs["cnn"])):
        with pytest.raises(UserError, match="no CNN for the images and classes"):
            load_nets(weights, None, cnn)


def test_samples_are_the_images_the_run_was_tested_on(monkeypatch, colour_run):
    net = load_nets(colour_run, None, None).capsnet
    seeds = []
    real = samples.open_data
    monkeypatch.setattr(
        samples, "open_data", lambda *args, **kw: seeds.append(kw["seed"]) or real(*args, **kw)
    )
    for config, seed in (({"seed": 5}, 0), ({"seed": 5, "data_seed": 3}, 3)):
        card = replace(net.card, config={"data": net.card.data, **config})
        assert samples.open_samples(replace(net, card=card)) is not None
        assert seeds.pop() == seed
