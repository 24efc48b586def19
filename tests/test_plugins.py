"""A model with its own loss, data sets and a task of numbers from a file outside the package."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import capsnet
from capsnet.errors import UserError
from capsnet.models.weights import find_model
from capsnet.plugins import load_plugins
from capsnet.training.loop import train

EXAMPLE = Path(__file__).parent.parent / "examples" / "my_net.py"
CHOICES = {"rings": "my_net", "ring_size": "capsnet_numbers"}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("outside") / "rings.py"
    shutil.copy(EXAMPLE, path)
    load_plugins([path])
    return path


def command(plugin, data, out, *more):
    words = ["train", "--plugin", plugin, "--model", CHOICES[data], "--data", data, "--out", out]
    words += ["--epochs", 10, "--batch-size", 20, "--lr", "5e-3", "--device", "cpu"]
    return [*words, "--checkpoint-seconds", 0, "--json", *more]


@pytest.fixture(scope="module")
def runs(plugin, tmp_path_factory):
    """A run of each, one of them killed on the way and resumed."""
    folder = tmp_path_factory.mktemp("runs")
    for data in CHOICES:
        words = [sys.executable, "-m", "capsnet"]
        words += [str(x) for x in command(plugin, data, folder / data)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if data == "ring_size":  # in the middle, for good
            for line in process.stderr:
                if line.startswith("epoch 3/"):
                    process.send_signal(signal.SIGKILL)
            process.wait()
            again = subprocess.run([*words, "--resume"], capture_output=True, text=True)
            assert again.returncode == 0, again.stderr
        else:
            _, err = process.communicate()
            assert process.returncode == 0, err
    return folder


@pytest.fixture
def picture(tmp_path):
    stream = capsnet.open_data("rings", "test")
    Image.fromarray(stream.split.images[3, 0].numpy()).save(tmp_path / "ring.png")
    return tmp_path / "ring.png"


def test_both_are_listed(plugin, cli):
    models = json.loads(cli("models", "--plugin", plugin, "--json").out)["models"]
    assert "my_net" in {row["name"] for row in models}
    rows = {row["name"]: row for row in json.loads(cli("data", "list", "--json").out)["data"]}
    assert rows["rings"]["description"] == "Rings and discs, 28×28."


@pytest.mark.parametrize("data", CHOICES)
def test_trained_evaluated_and_told(data, runs, plugin, cli):
    done = cli("evaluate", "--plugin", plugin, "--weights", runs / data, "--json")
    result = json.loads(done.out.splitlines()[-1])
    saved = json.loads((runs / data / "result.json").read_text())
    log = [json.loads(line) for line in (runs / data / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == list(range(1, 11))
    if data == "rings":
        assert result["error_percent"] == saved["error_percent"] < 10
        assert log[-1]["train_error_percent"] < log[0]["train_error_percent"] + 1e-9
    else:
        assert result["mean_absolute_error"] == pytest.approx(saved["mean_absolute_error"])
        assert saved["mean_absolute_error"] < 1.5  # 2 px without a look at the picture
        assert saved["r_squared"]["radius"] > 0.3
        assert log[-1]["train_mean_absolute_error"] < log[0]["train_mean_absolute_error"]
        text = cli("evaluate", "--plugin", plugin, "--weights", runs / data).out
        assert re.search(r"radius: mean absolute error [\d.]+ px, R² 0\.\d+ over 200 images", text)


def test_resumed_run_ends_as_an_uninterrupted_one(runs, plugin, tmp_path):
    config = capsnet.TrainConfig(
        model="capsnet_numbers", data="ring_size", out=tmp_path / "whole", epochs=10,
        batch_size=20, lr=5e-3, device="cpu", plugin=(plugin,),
    )  # fmt: skip
    train(config)
    one, other = (find_model(str(x))[0].state_dict() for x in (runs / "ring_size", config.folder))
    threads = torch.get_num_threads() == int(os.environ.get("OMP_NUM_THREADS", 0))
    assert all(torch.allclose(one[k], other[k], atol=0 if threads else 1e-4) for k in one)


@pytest.mark.parametrize("data", CHOICES)
def test_predicted_and_drawn(data, runs, plugin, cli, picture, tmp_path):
    words = ("--plugin", plugin, "--weights", runs / data)
    done = cli("predict", picture, *words, "--reconstruct", tmp_path / "drawn", "--json")
    (answer,) = json.loads(done.out)["predictions"]
    if data == "rings":
        assert answer["decision"] in ("ring", "disc") and set(answer["lengths"]) == {"ring", "disc"}
    else:
        assert re.fullmatch(r"radius [\d.]+ px", answer["decision"])
        assert 3 < answer["numbers"]["radius"] < 13
    assert np.array(Image.open(answer["reconstruction"])).shape == (28, 28)
    for kind in ("reconstructions", "perturbation", "routing"):
        path = tmp_path / f"{kind}.png"
        done = cli("figure", kind, *words, "--out", path)
        assert done.status == 0, done.err
        assert np.array(Image.open(path).convert("L")).std() > 5


@pytest.mark.parametrize("data", CHOICES)
def test_explored(data, runs, plugin):
    words = [sys.executable, "-m", "capsnet", "explore", "--plugin", str(plugin)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words += ["--weights", str(runs / data), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]

        def ask(path, body=None):
            head = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{address}/api/{path}", body, head)
            return json.load(urllib.request.urlopen(request, timeout=30))

        info, samples = ask("info"), ask("samples")
        assert info["capsnet"]["classes"] == list(find_model(str(runs / data))[0].task.names)
        assert info["capsnet"]["has_decoder"] and info["has_samples"]
        assert samples[0]["said"].startswith("radius" if data == "ring_size" else "ring")
        body = json.dumps({"image": samples[0]["image"]}).encode()
        said = ask("analyse", body)
        assert len(said["lengths"]) == len(info["capsnet"]["classes"]) and said["said"]
    finally:
        process.terminate()
        process.wait()


def test_loss_sees_how_far_the_run_is(plugin):
    model = capsnet.create_model("my_net", num_classes=2)
    stream = capsnet.open_data("rings", "train")
    model.set_task(stream.task)
    batch = stream.batch({k: x[:8] for k, x in stream.plan(None).items()})
    output = model(batch.images)
    early, late = (model.loss(output, batch, capsnet.Progress.at(n, 10)) for n in (0, 10))
    assert late > early


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "There is no file"),
        ("import nowhere", "fails: ModuleNotFoundError"),
        ("1 / 0", "fails: ZeroDivisionError"),
        ("def", "fails: SyntaxError"),
        ("import capsnet\n@capsnet.register_model('x')\nclass X: pass", "no capsnet.Model"),
        (
            "import capsnet\nfrom capsnet.models import CapsNet\n"
            "@capsnet.register_model('cnn_small')\nclass X(CapsNet): pass",
            "registered already",
        ),
        (
            "import capsnet\nfrom capsnet.models import CnnSmall as Theirs\n"
            "@capsnet.register_model('cnn_small')\nclass CnnSmall(Theirs): pass",
            "registered already",
        ),
    ],
)
def test_a_plugin_that_fails_is_a_sentence(text, sentence, tmp_path):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        load_plugins([path])


def test_plugins_of_installed_packages_are_found(tmp_path):
    (tmp_path / "rings_of_mine.py").write_text(EXAMPLE.read_text())
    info = tmp_path / "rings_of_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rings-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[capsnet]\nrings = rings_of_mine\n")
    code = "import capsnet; print('my_net' in capsnet.list_models())"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    assert done.stdout.strip() == "True", done.stderr
