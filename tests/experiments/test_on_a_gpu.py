"""Every experiment trains and measures on a GPU: `pytest -m gpu`."""

import pytest
import torch

from capsnet.experiments.catalogue import EXPERIMENTS
from capsnet.experiments.runner.run import reproduce


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_try_out_of_every_experiment(name, tmp_path):
    rows = tuple(EXPERIMENTS[name].recipes(0))[:2]
    where = {"results": tmp_path, "runs": tmp_path / "runs", "device": "cuda"}
    assert reproduce(name, seeds=1, smoke=True, rows=rows, **where) == (2, 0, 0, 0)
