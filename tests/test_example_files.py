"""The examples run as they stand, for fewer steps, and learn."""

import io
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
import torch
from PIL import Image

import capsnet
from capsnet.data.sets.digits import load_digits

EXAMPLES = Path(__file__).parent.parent / "examples"


def main_of(name):
    torch.manual_seed(0)
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_every_example_is_tested_and_short():
    tested = {
        "plain_loop.py",
        "capsule_head.py",
        "signal_and_table.py",
        "my_net.py",
        "serve_onnx.py",
        "own_pictures.py",  # in tests/test_own_pictures.py
    }
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 60, path


def test_plain_loop():
    assert main_of("plain_loop.py")(steps=40) < 60


def test_capsule_head():
    assert max(main_of("capsule_head.py")(steps=30).values()) < 0.75


def test_signal_and_table():
    assert max(main_of("signal_and_table.py")(steps=60).values()) < 0.4


def test_serving_an_exported_network_without_this_package(tmp_path):
    pytest.importorskip("onnxruntime")
    example = EXAMPLES / "serve_onnx.py"
    text = example.read_text(encoding="utf-8")
    code = re.sub(r'""".*?"""', "", text, flags=re.S).splitlines()
    assert not any(re.match("(from|import) capsnet", line) for line in code)
    assert sum(not re.match(r"(from|import) |\s*$", line) for line in code) <= 22
    file = capsnet.export("cnn_small", "onnx", tmp_path / "net.onnx").file
    command = [sys.executable, example, file, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip()
            digits = load_digits("test")
            for n in range(3):
                body = io.BytesIO()
                Image.fromarray(digits.images[n, 0].numpy()).save(body, "PNG")
                with urlopen(address, body.getvalue(), timeout=30) as reply:
                    named = json.load(reply)
                (tmp_path / "digit.png").write_bytes(body.getvalue())
                (said,) = capsnet.predict([tmp_path / "digit.png"], "cnn_small")
                assert named == pytest.approx(said.answers, abs=1e-4)
                assert max(named, key=named.get) == str(int(digits.labels[n]))
            body = io.BytesIO()  # the last one, as ink on paper
            Image.fromarray(255 - digits.images[n, 0].numpy()).save(body, "PNG")
            with urlopen(address, body.getvalue(), timeout=30) as reply:
                assert json.load(reply) == pytest.approx(named, abs=1e-4)
        finally:
            server.terminate()
