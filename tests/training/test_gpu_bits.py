"""On a GPU too, the same seed ends with the same bits in every process: `pytest -m gpu`."""

import os
import subprocess
import sys

import pytest
import torch

from capsnet.models.tensor_file import load_tensors
from capsnet.models.weights import WEIGHTS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SHORT = ("--data=digits", "--num-samples=1280", "--batch-size=64", "--epochs=2")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        ("cnn_modern",),
        ("capsnet_mnist",),
        ("capsnet_modern",),
        ("capsnet_modern", "--options", "decoder=()"),
        ("capsnet_modern", "--options", "num_iters=1"),
    ],
)
def test_two_processes_end_with_the_same_bits(model, compiled, tmp_path):
    ends = []
    for k in range(2):
        out = tmp_path / str(k)
        command = [sys.executable, "-m", "capsnet", "train", "--model", *model, *SHORT]
        command += [f"--out={out}", *(["--compile"] if compiled else [])]
        # What torch.compile chose for the one must not be known to the other.
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"compiled{k}")}
        subprocess.run(command, check=True, env=os.environ | cache, timeout=300)
        ends.append(load_tensors(out / WEIGHTS)[0])
    first, second = ends
    assert first.keys() == second.keys()
    assert [name for name, x in first.items() if not torch.equal(x, second[name])] == []
