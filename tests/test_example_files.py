"""The examples run as they stand, for fewer steps, and learn."""

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"


def main_of(name):
    torch.manual_seed(0)
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_every_example_is_tested_and_short():
    tested = {"plain_loop.py", "capsule_head.py", "signal_and_table.py", "my_net.py", "export.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 60, path


def test_plain_loop():
    assert main_of("plain_loop.py")(steps=40) < 60


def test_capsule_head():
    assert max(main_of("capsule_head.py")(steps=30).values()) < 0.75


def test_signal_and_table():
    assert max(main_of("signal_and_table.py")(steps=60).values()) < 0.4


@pytest.mark.slow
def test_export(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    path = main_of("export.py")(tmp_path / "net.onnx")
    session = runtime.InferenceSession(path)
    import capsnet

    model = capsnet.create_model("capsnet_small", pretrained=True).eval()
    for num in (1, 5):
        images = torch.rand(num, 1, 28, 28)
        v, lengths = session.run(None, {"images": images.numpy()})
        output = model(images)
        torch.testing.assert_close(torch.from_numpy(v), output.v, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(torch.from_numpy(lengths), output.answers, rtol=1e-3, atol=1e-4)
