import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from capsnet.data import load_folder
from capsnet.data.sets.digits import load_digits
from capsnet.figures import FIGURES
from capsnet.models.weights import find_model
from capsnet.prediction import asking
from capsnet.training.loop import train


def flags(config):
    names = ("model", "data", "out", "num_samples", "batch_size", "epochs", "device")
    given = [(f"--{n.replace('_', '-')}", getattr(config, n)) for n in names]
    return [word for pair in given for word in pair] + ["--options", *config.options]


def on_cpu(cli, *arguments):
    """Where results are compared to the last digit, wherever the tests run."""
    return cli(*arguments, "--device", "cpu")


def last_json(done):
    assert done.status == 0, done.err
    return json.loads(done.out.splitlines()[-1], parse_constant=pytest.fail)


def write_digit(path, index, invert=False):
    pixels = load_digits("test").images[index, 0].numpy()
    Image.fromarray(255 - pixels if invert else pixels).save(path)
    return path


def test_train_reports_json_and_logs_on_stderr(cli, tiny):
    config = tiny()
    done = cli("train", *flags(config), "--json")
    result = last_json(done)
    assert {"error_percent", "num_images", "model", "data", "seconds"} <= result.keys()
    assert done.out.count("\n") == 1
    assert re.search(r"epoch 2/2  loss \d\.\d+  train error .* images/s", done.err)
    assert result["images_per_second"] > 0 and result["folder"] == str(config.folder)


def test_train_says_the_error_and_the_throughput(cli, tiny):
    done = cli("train", *flags(tiny(epochs=1)))
    assert re.search(r"test: [\d.]+ % error, \d+ of 1,000 images .* images/s", done.out)


def test_trained_model_reads_digits(cli, trained):
    result = last_json(on_cpu(cli, "evaluate", "--weights", trained, "--data", "digits", "--json"))
    assert (result["model"], result["data"], result["num_images"]) == (
        "capsnet_small",
        "digits",
        1000,
    )
    assert result["error_percent"] < 20
    assert result["error_percent"] == pytest.approx(100 * result["num_wrong"] / 1000)
    saved = json.loads((trained / "result.json").read_text())
    assert saved["error_percent"] == result["error_percent"]


def test_evaluation_takes_a_file_defaults_to_its_data_and_counts_few_images(cli, trained):
    file = trained / "weights.safetensors"
    result = last_json(on_cpu(cli, "evaluate", "--weights", file, "--num-samples", 5, "--json"))
    assert (result["data"], result["num_images"]) == ("digits", 5)
    assert None in result["per_class_error_percent"]
    train = last_json(
        on_cpu(
            cli, "evaluate", "--weights", file, "--split", "train", "--num-samples", 100, "--json"
        )
    )
    assert train["num_images"] == 100
    assert "% error" in on_cpu(cli, "evaluate", "--weights", file, "--num-samples", 10).out


def test_prediction_of_pictures(cli, trained, tmp_path):
    split = load_digits("test")
    model, _ = find_model(str(trained))
    right = (model.eval()(split.images[:40] / 255).lengths.argmax(1) == split.labels[:40]).nonzero()
    index = int(right[0])
    files = [write_digit(tmp_path / "a.png", index), write_digit(tmp_path / "b.png", index + 1)]
    done = on_cpu(cli, "predict", *files, "--weights", trained, "--json")
    first, second = last_json(done)["predictions"]
    assert first["decision"] == str(int(split.labels[index]))
    assert list(first["lengths"]) == list("0123456789") and second["file"] == str(files[1])
    lengths = model(split.images[index : index + 1] / 255).lengths[0].tolist()
    assert list(first["lengths"].values()) == pytest.approx(lengths, abs=1e-5)

    paper = write_digit(tmp_path / "paper.png", index, invert=True)
    done = on_cpu(cli, "predict", paper, "--weights", trained, "--invert", "--json")
    assert last_json(done)["predictions"][0]["lengths"] == pytest.approx(first["lengths"], abs=1e-5)
    found = last_json(on_cpu(cli, "predict", paper, "--weights", trained, "--json"))
    assert found["predictions"][0]["lengths"] == pytest.approx(first["lengths"], abs=1e-5)
    plain = last_json(on_cpu(cli, "predict", paper, "--weights", trained, "--as-is", "--json"))
    assert plain["predictions"][0]["lengths"] != pytest.approx(first["lengths"], abs=1e-2)
    text = on_cpu(cli, "predict", files[0], "--weights", trained).out
    assert text.startswith(f"{files[0]}: {first['decision']} ")


def test_centred_prediction_finds_a_digit_in_a_corner(cli, trained, tmp_path):
    split = load_digits("test")
    model, _ = find_model(str(trained))
    guess = model.eval()(split.images[:100] / 255).lengths.argmax(1)
    right = (guess == split.labels[:100]).nonzero().flatten()[:8].tolist()
    files = []
    for index in right:
        page = np.zeros((120, 120), np.uint8)
        page[80:108, 5:33] = split.images[index, 0].numpy()
        files.append(tmp_path / f"{index}.png")
        Image.fromarray(page).save(files[-1])
    centred = last_json(on_cpu(cli, "predict", *files, "--weights", trained, "--centre", "--json"))
    found = [int(answer["decision"]) for answer in centred["predictions"]]
    hits = sum(a == b for a, b in zip(found, split.labels[right].tolist(), strict=True))
    assert hits >= 5


def test_prediction_draws_what_it_saw(cli, trained, tmp_path):
    picture = write_digit(tmp_path / "seven.png", 3)
    done = on_cpu(
        cli, "predict", picture, "--weights", trained, "--reconstruct", tmp_path / "drawn", "--json"
    )
    path = last_json(done)["predictions"][0]["reconstruction"]
    assert path == str(tmp_path / "drawn" / "seven-reconstruction.png")
    with Image.open(path) as drawn:
        assert drawn.size == (28, 28) and drawn.mode == "L"
        pixels = torch.from_numpy(np.array(drawn))
    model, _ = find_model(str(trained))
    image = load_digits("test").images[3:4] / 255
    expected = model.reconstruct(model.eval()(image).v)[0, 0]
    torch.testing.assert_close(pixels / 255, expected.detach(), atol=0.01, rtol=0)


def test_each_of_many_pictures_is_drawn(cli, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "BATCH_SIZE", 2)
    files = []
    for n, name in enumerate(("a/1.png", "b/1.png", "1-2.png", "c/1.png", "b/1.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        files.append(write_digit(tmp_path / name, n))
    done = on_cpu(cli, "predict", *files, "--weights", trained, "--reconstruct", tmp_path, "--json")
    answers = last_json(done)["predictions"]
    assert [answer["file"] for answer in answers] == [str(file) for file in files]
    assert answers[1]["lengths"] == pytest.approx(answers[4]["lengths"], abs=1e-5)
    drawn = [answer["reconstruction"] for answer in answers]
    names = ("1", "1-2", "1-2-2", "1-3", "1-4")
    assert drawn == [str(tmp_path / f"{name}-reconstruction.png") for name in names]
    pictures = [np.array(Image.open(path)) for path in drawn]
    assert not np.array_equal(pictures[0], pictures[1])


def test_pictures_are_read_a_batch_at_a_time(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "BATCH_SIZE", 2)
    model, card = find_model(str(trained))
    sizes = []
    model.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    monkeypatch.setattr(asking, "find_model", lambda name: (model, card))
    files = [write_digit(tmp_path / f"{n}.png", n) for n in range(5)]
    assert len(asking.predict(files, "any")) == 5
    assert sizes[-3:] == [2, 2, 1]  # after the digits that say what is usual


@pytest.mark.parametrize("kind", ["reconstructions", "perturbation", "routing"])
def test_figure_is_a_picture(kind, cli, trained, tmp_path):
    path = tmp_path / "figures" / f"{kind}.png"
    done = cli("figure", kind, "--weights", trained, "--out", path, "--index", 7)
    assert done.status == 0 and str(path) in done.out
    with Image.open(path) as picture:
        picture.load()
        assert picture.format == "PNG" and min(picture.size) > 100
        assert np.array(picture.convert("L")).std() > 5  # not blank


@pytest.mark.parametrize("data", ["multidigits", "digits"])
def test_overlap_figure_of_a_model_of_two_digits(data, cli, tiny, tmp_path):
    config = tiny(data="multidigits", epochs=1)
    assert cli("train", *flags(config)).status == 0
    path = tmp_path / "overlap.png"
    done = cli("figure", "overlap", "--weights", config.folder, "--data", data, "--out", path)
    assert done.status == 0, done.err
    with Image.open(path) as picture:
        assert np.array(picture.convert("RGB")).std() > 5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["reconstructions", "routing", "overlap"])
def test_figure_of_classes_with_odd_names(kind, cli, tiny, tmp_path):
    for name in ("$_$", "日本", os.fsdecode(b"caf\xe9")):
        (tmp_path / "own" / name).mkdir(parents=True)
        for n in range(10):
            write_digit(tmp_path / "own" / name / f"{n}.png", n)
    config = tiny(data=str(tmp_path / "own"), num_samples=None, epochs=1, image_size=24, channels=3)
    weights = train(config).folder
    done = cli("figure", kind, "--weights", weights, "--out", tmp_path / "x.png")
    assert done.status == 0, done.err
    picture = tmp_path / "own" / "$_$" / "0.png"
    assert "caf" in cli("predict", picture, "--weights", weights).out


@pytest.mark.parametrize("kind", ["reconstructions", "overlap"])
def test_figure_shows_the_test_images_of_the_run(kind, cli, tiny, tmp_path, monkeypatch):
    for name, start in (("a", 0), ("b", 10)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for n in range(start, start + 10):
            write_digit(tmp_path / "own" / name / f"{n}.png", n)
    config = tiny(data=str(tmp_path / "own"), data_seed=7, num_samples=None, epochs=1)
    shown = []

    def draw(model, stream, index):
        shown.append(stream.split.images)
        return Figure()

    monkeypatch.setitem(FIGURES, kind, draw)
    weights = train(config).folder
    done = cli("figure", kind, "--weights", weights, "--out", tmp_path / "x.png")
    assert done.status == 0, done.err
    assert torch.equal(shown[0], load_folder(config.data, "test", seed=7).images)
    assert not torch.equal(shown[0], load_folder(config.data, "test", seed=0).images)


def test_models_lists_all_with_their_size(cli):
    rows = {row["name"]: row for row in last_json(cli("models", "--json"))["models"]}
    assert rows["capsnet_mnist"]["parameters"] == 8_215_568
    assert rows["cnn_baseline"]["parameters"] == 35_445_522
    lines = {line.split()[0]: line for line in cli("models").out.splitlines()}
    assert "8,215,568  shipped " in lines["capsnet_mnist"]
    assert "shipped" not in lines["cnn_baseline"] and "shipped" in lines["cnn_small"]
    starts = {re.search(r"  (–|shipped|weights) ", line).start() for line in lines.values()}
    assert len(starts) == 1  # a column


def test_info_of_the_machine_and_of_weights(cli, trained):
    facts = last_json(cli("info", "--json"))
    assert facts["torch"] == torch.__version__ and facts["threads"] >= 1
    card = last_json(cli("info", trained, "--json"))
    assert card["model"] == "capsnet_small" and card["config"]["epochs"] == 4
    assert json.loads(cli("info", trained).out) == card


def test_data_list_and_check(cli):
    rows = last_json(cli("data", "list", "--json"))["data"]
    assert {"digits", "mnist", "multimnist", "smallnorb"} <= {row["name"] for row in rows}
    report = last_json(cli("data", "check", "digits", "--json"))
    assert report["ok"] and report["label_counts"]["test"] == [100] * 10
    assert "train: 5,000 images" in cli("data", "check", "digits").out


def test_weights_can_be_copied_elsewhere(cli, trained, tmp_path):
    shutil.copy(trained / "weights.safetensors", tmp_path / "mine.safetensors")
    one = last_json(on_cpu(cli, "evaluate", "--weights", tmp_path / "mine.safetensors", "--json"))
    other = last_json(on_cpu(cli, "evaluate", "--weights", trained, "--json"))
    assert one["num_wrong"] == other["num_wrong"]


def test_a_reader_that_leaves_early_causes_no_traceback():
    command = f"{sys.executable} -m capsnet data list | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
