"""The examples in the docstrings of the public names are true."""

import doctest
import inspect
from pathlib import Path

import pytest
import torch
from PIL import Image

import capsnet
from capsnet import data, layers, models, ops, tasks
from capsnet.data import registry as data_registry
from capsnet.data.sets.digits import load_digits
from capsnet.layers import routings
from capsnet.models import registry as model_registry

KNOWN = {"torch": torch, "capsnet": capsnet, "Path": Path}
for package in (tasks, data, models, routings, layers, ops, capsnet):
    KNOWN |= {name: getattr(package, name) for name in package.__all__}
# What one gets and does not make, and what is explained by what makes it.
GIVEN = {"__version__", "Diverged", "Exported", "Finished", "Interrupted", "Prediction"}
GIVEN |= {"Model", "Task", "UserError"}
SHOWN = [*ops.__all__, *layers.__all__, *(name for name in capsnet.__all__ if name not in GIVEN)]
SHOWN += [
    name
    for package in (models, data, tasks)
    for name in package.__all__
    if inspect.isfunction(KNOWN[name]) and name not in (*capsnet.__all__, "locate")  # fetches
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of its own with a seven, cats and dogs, and registries that forget."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model_registry, "_MODELS", dict(model_registry._MODELS))
    monkeypatch.setattr(data_registry, "DATA", dict(data_registry.DATA))
    digits = load_digits("test")
    ink = digits.images[digits.labels.tolist().index(7), 0].numpy()
    Image.fromarray(255 - ink).resize((280, 280)).save("seven.jpg")
    for n in range(40):
        folder = Path("pictures", ("cat", "dog")[n % 2])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits.images[n, 0].numpy()).save(folder / f"{n}.png")


@pytest.mark.parametrize("name", SHOWN)
def test_example_runs(name, place):
    found = doctest.DocTestFinder(recurse=False).find(KNOWN[name], name, globs=dict(KNOWN))
    assert sum(len(test.examples) for test in found) > 0, "has no example"
    for test in found:
        assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", [name for name in SHOWN if inspect.isfunction(KNOWN[name])])
def test_arguments_and_what_comes_back_are_told(name):
    text = inspect.getdoc(KNOWN[name])
    assert "Returns:" in text
    for argument, kind in inspect.signature(KNOWN[name]).parameters.items():
        stars = "**" if kind.kind is kind.VAR_KEYWORD else ""
        assert f"\n    {stars}{argument}: " in text, argument
