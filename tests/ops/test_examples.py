"""The examples in the docstrings of the public functions are true."""

import doctest

import pytest
import torch

from capsnet import ops


@pytest.mark.parametrize("name", ops.__all__)
def test_example_runs(name):
    names = {"torch": torch, **{name: getattr(ops, name) for name in ops.__all__}}
    found = doctest.DocTestFinder(recurse=False).find(getattr(ops, name), name, globs=names)
    assert sum(len(test.examples) for test in found) > 0, "has no example"
    for test in found:
        assert doctest.DocTestRunner().run(test).failed == 0
