"""Where kernels of our own are taken at all."""

import runpy

import pytest
import torch

from capsnet.ops import gpu


@pytest.mark.parametrize(
    ("version", "there"),
    [("2.6.0", False), ("2.7.1+cu126", False), ("2.8.0", True), ("2.10.0+cu128", True)],
)
def test_kernels_need_the_triton_of_torch_2_8(version, there, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion(version))
    assert runpy.run_path(gpu.__file__)["TRITON"] == there
