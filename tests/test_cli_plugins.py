import json

import pytest
import torch
from PIL import Image

from capsnet import plugins
from capsnet.cli import VERBS
from capsnet.data import registry as data
from capsnet.models import registry as models

PLUGIN = '''
import torch

import capsnet
from capsnet.models import CnnSmall


@capsnet.register_model("my_net")
class MyNet(CnnSmall):
    """A net of mine."""


@capsnet.register_model("my_other_net")
class MyOtherNet(MyNet):
    """A net that has to be told its width."""

    def __init__(self, width: int, **more) -> None:
        super().__init__(**more)


@capsnet.register_data("my_noise")
def noise(split, ask):
    """Noise of mine."""
    images = torch.randint(256, (20, 1, 28, 28), dtype=torch.uint8)
    return capsnet.Split(images, torch.arange(20) % 2, ("even", "odd"))
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A plugin's file; what it registers is forgotten after the test."""
    models.list_models()  # those of the package are loaded before
    monkeypatch.setattr(models, "_MODELS", dict(models._MODELS))
    monkeypatch.setattr(data, "DATA", dict(data.DATA))
    plugins._load_file.cache_clear()
    path = tmp_path / "my_plugin.py"
    path.write_text(PLUGIN)
    return path


def test_verbs_use_what_a_plugin_registers(plugin, cli, tmp_path, monkeypatch):
    def forget():
        monkeypatch.setattr(models, "_MODELS", {**models._MODELS})
        models._MODELS.pop("my_net", None)
        data.DATA.pop("my_noise", None)
        plugins._load_file.cache_clear()

    def run(*words):
        forget()
        done = cli(*words, "--plugin", plugin)
        assert done.status == 0, done.err
        return done.out

    out = tmp_path / "run"
    settings = ["--options", "channels=2", "--epochs", 1, "--device", "cpu", "--out", out]
    run("train", "--model", "my_net", "--data", "my_noise", *settings)
    picture = tmp_path / "picture.png"
    Image.new("L", (28, 28)).save(picture)
    assert "my_net on my_noise (test): " in run("evaluate", "--weights", out)
    assert f"{picture}: " in run("predict", picture, "--weights", out)
    assert json.loads(run("info", out))["model"] == "my_net"
    assert "my_noise       Noise of mine." in run("data", "list")
    assert "train: 20 images, (10, 10)" in run("data", "check", "my_noise")

    forget()
    done = cli("info", out)
    assert done.status == 2 and done.err.count("\n") == 1
    assert "There is no model called 'my_net'" in done.err and "--plugin" in done.err


def test_models_lists_those_of_a_plugin_and_dashes_what_cannot_be_built(plugin, cli):
    rows = json.loads(cli("models", "--plugin", plugin, "--json").out)["models"]
    sizes = {row["name"]: row["parameters"] for row in rows}
    assert sizes["my_net"] == sizes["cnn_small"] and sizes["my_other_net"] is None
    lines = {line.split()[0]: line for line in cli("models").out.splitlines()}
    assert lines["my_other_net"].split()[1:3] == ["–", "–"]


def test_sizes_are_counted_without_making_weights(cli, monkeypatch):
    made = []
    build = models._build
    monkeypatch.setattr(models, "_build", lambda *x: made.append(build(*x)) or made[-1])
    assert cli("models").status == 0
    assert made and all(p.device == torch.device("meta") for m in made for p in m.parameters())


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"demo", "reproduce"}))
def test_every_verb_takes_a_plugin(verb, cli):
    assert "--plugin PATH ..." in cli(verb, "--help").out


def test_a_plugin_that_is_not_there_is_one_sentence(cli):
    for words in ("models", "data list", "info", "bench step", "explore"):
        done = cli(*words.split(), "--plugin", "nowhere.py")
        assert done.status == 2 and done.out == "" and "There is no file" in done.err


def test_the_hint_is_not_given_to_who_gave_a_plugin(plugin, cli):
    done = cli("train", "--model", "my_nett", "--data", "digits", "--plugin", plugin)
    assert done.err == "capsnet: There is no model called 'my_nett'; did you mean 'my_net'?\n"
