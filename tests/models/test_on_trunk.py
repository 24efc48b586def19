"""A capsule head on a trunk of anyone's: maps, tokens, frozen or not, and what is missing."""

import sys

import pytest
import torch

from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.models.tensor_file import load_tensors
from capsnet.models.weights import find_model
from capsnet.tasks import Batch
from capsnet.training.loop import train

TRUNKS = """
import torch
from torch import nn

class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(28, 24)

    def forward(self, images):
        said = nn.Module()
        said.last_hidden_state = self.linear(images.flatten(1, 2))
        return said

def map(image_shape):
    return nn.Sequential(nn.Conv2d(image_shape[0], 8, 4, 4), nn.BatchNorm2d(8), nn.ReLU())

def tokens():
    return nn.Sequential(nn.Flatten(1, 2), nn.Linear(28, 24))

def pooled():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

def colour():
    return nn.Conv2d(3, 8, 4, 4)

class Picky(nn.Module):
    def forward(self, images):
        raise ValueError("28*28 is not 224*224.")

def picky():
    return Picky()

def number():
    return 5

def broken():
    raise KeyError("weights")

counted = len
"""
SMALL = {"primary_types": 2, "decoder": (16,)}
SMALL_OPTIONS = ("primary_types=2", "decoder=(16,)")


@pytest.fixture
def trunks(tmp_path):
    path = tmp_path / "trunks.py"
    path.write_text(TRUNKS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("function", "grid"), [("map", (7, 7, 2)), ("tokens", (28, 1, 2)), ("Hidden", (28, 1, 2))]
)
def test_maps_and_tokens_become_capsules_that_learn(function, grid, trunks):
    torch.manual_seed(0)
    model = create_model("capsnet_on_trunk", trunk=f"{trunks}:{function}", **SMALL)
    assert model.grid == grid and model.class_caps.W.shape[0] == grid[0] * grid[1] * 2
    images = torch.rand(4, 1, 28, 28)
    output = model(images)
    assert output.v.shape == (4, 10, 16) and model.trace(images).v[-1].shape == (4, 10, 16)
    batch = Batch(images, torch.arange(4)[:, None], images[:, None])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = model.loss(model(images), batch, Progress.at(0, 1))
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_a_trunk_can_be_in_a_module_that_is_installed(trunks, monkeypatch):
    monkeypatch.syspath_prepend(trunks.parent)
    model = create_model("capsnet_on_trunk", trunk="trunks:map", **SMALL)
    assert model.grid == (7, 7, 2)
    sys.modules.pop("trunks")


def test_a_frozen_trunk_stays_as_it_is_statistics_included(trunks, tiny):
    options = (f"trunk={trunks}:map", "frozen=True", *SMALL_OPTIONS)
    config = tiny(model="capsnet_on_trunk", options=options, averaging=0.9)
    outcome = train(config)
    torch.manual_seed(config.seed)
    fresh = create_model("capsnet_on_trunk", trunk=f"{trunks}:map", frozen=True, **SMALL)
    kept = load_tensors(config.folder / "weights.safetensors")[0]
    for name, x in fresh.state_dict().items():
        assert torch.equal(x, kept[name]) == name.startswith("trunk."), name
    assert outcome.plan.trained_parameters < outcome.plan.parameters
    model, card = find_model(str(config.folder))
    assert card.options["trunk"] == f"{trunks}:map" and card.options["trunk_weights"] is False
    model.train()
    assert not model.trunk.training and model.primary_caps.training and model.training


def test_a_trunk_that_is_not_frozen_learns(trunks, tiny):
    options = (f"trunk={trunks}:map", *SMALL_OPTIONS)
    config = tiny(model="capsnet_on_trunk", options=options)
    train(config)
    torch.manual_seed(config.seed)
    fresh = create_model("capsnet_on_trunk", trunk=f"{trunks}:map", **SMALL)
    kept = load_tensors(config.folder / "weights.safetensors")[0]
    for name in ("trunk.0.weight", "trunk.1.weight", "trunk.1.running_mean"):
        assert not torch.equal(fresh.state_dict()[name], kept[name]), name
    assert fresh.trunk.training and fresh.train().trunk.training


@pytest.mark.parametrize(
    ("trunk", "sentence"),
    [
        ("resnet18", "names no trunk"),
        ("FILE:pooled", r"gives \[1, 10\]; give one that ends before its pooling"),
        ("FILE:colour", "does not take images of shape"),
        ("FILE:picky", r"does not take images of shape .* \(28\*28 is not 224\*224\.\)"),
        ("FILE:number", "returns no nn.Module but a int"),
        ("FILE:broken", "fails: KeyError"),
        ("FILE:counted", "no Python function"),
        ("FILE:none", "has no none"),
        ("os:abort", "no Python function"),
        ("no_such_module_here:trunk", "There is no module no_such_module_here"),
        ("nowhere.py:trunk", "There is no file"),
    ],
)
def test_mistakes_about_trunks_are_sentences(trunk, sentence, trunks):
    with pytest.raises(UserError, match=sentence):
        create_model("capsnet_on_trunk", trunk=trunk.replace("FILE", str(trunks)), **SMALL)


@pytest.mark.parametrize(
    ("trunk", "package"), [("timm:resnet18", "timm"), ("hf:google/vit", "transformers")]
)
def test_a_missing_package_is_a_sentence(trunk, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"need {package}; run: pip install 'capsnet\[trunks\]'"):
        create_model("capsnet_on_trunk", trunk=trunk)
