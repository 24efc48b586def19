"""Exported files answer as the models do, say how they are used, and are whole or not there."""

import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import capsnet
from capsnet.exporting.answering import Answering
from capsnet.exporting.facts import facts_of
from capsnet.exporting.formats import FORMATS
from capsnet.models.weights import Card, find_model, save_weights, shipped_path
from capsnet.pictures.reading import Reading
from capsnet.tasks import Calibration, Numbers, OneLabel, Pairs, SeveralLabels

LARGE = ("capsnet_multimnist",)  # half a minute
SHIPPED = [name for name in capsnet.list_models() if shipped_path(name).exists()]
TINY = {"conv_channels": 8, "primary_types": 4, "decoder": ()}
NAMES = ("cat", "dog", "hen")
TASKS = {
    "one_label": OneLabel(NAMES),
    "several_labels": SeveralLabels(NAMES),
    "numbers": Numbers(("angle", "size"), ("°", " mm"), ((-45.0, 45.0), (0.0, 900.0))),
}


@pytest.fixture
def saved(tmp_path):
    """Write the weights of a tiny model that was made for a task, as a run does."""

    def save(kind, model=None, calibration=None, reading=None, **options):
        torch.manual_seed(0)
        model = model or ("capsnet_numbers" if kind == "numbers" else "capsnet_small")
        task = TASKS[kind]
        tiny = {} if model.startswith("cnn") else TINY
        net = capsnet.create_model(model, **tiny, **task.options, **options)
        net.set_task(task)
        card = Card(net.name, net.options, task, {"data": "mine"})
        path = tmp_path / f"{kind}.safetensors"
        save_weights(net, path, replace(card, calibration=calibration, reading=reading))
        return path

    return save


def run_onnx(path, images):
    """Return outputs by name and the facts in the file, as a stranger reads them."""
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    said = session.run(names, {"images": images.numpy()})
    facts = json.loads(session.get_modelmeta().custom_metadata_map["capsnet"])
    return {name: torch.from_numpy(x) for name, x in zip(names, said, strict=True)}, facts


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.long) if x in LARGE else x for x in SHIPPED]
)
def test_shipped_networks_agree_in_onnx_runtime(name, tmp_path):
    model, card = find_model(name)
    calibration = Calibration(2.5)
    weights = tmp_path / "weights.safetensors"
    save_weights(model, weights, replace(card, calibration=calibration))
    exported = capsnet.export(weights, "onnx", tmp_path / "net.onnx")
    assert 0 <= exported.difference <= 1e-4
    images = torch.rand(3, *model.image_shape)
    said, facts = run_onnx(exported.file, images)
    with torch.no_grad():
        v, answers = model.eval()(images)
    probabilities = calibration.probabilities(model.task, answers)
    torch.testing.assert_close(said["v"], v, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(said["answers"], answers, rtol=0, atol=1e-4)
    torch.testing.assert_close(said["probabilities"], probabilities, rtol=0, atol=1e-4)
    assert isinstance(model.task, Pairs) == torch.allclose(probabilities, answers, atol=1e-2)
    assert facts["task"] == {"kind": model.task.kind, "names": list(model.task.names)}
    assert facts["input"]["shape"] == ["batch", *model.image_shape]
    assert facts["calibration"]["temperature"] == 2.5 and facts["answer"] == "probabilities"
    assert facts["picture"]["ink"] and facts["capsnet_version"] == capsnet.__version__


def test_several_labels_are_calibrated_each_for_itself(saved, tmp_path):
    calibration = Calibration(2.5, (0.3, 0.4, 0.5))
    weights = saved("several_labels", "cnn_small", calibration)
    exported = capsnet.export(weights, "onnx", tmp_path / "net.onnx")
    images = torch.rand(2, 1, 28, 28)
    said, facts = run_onnx(exported.file, images)
    expected = calibration.probabilities(TASKS["several_labels"], said["answers"])
    torch.testing.assert_close(said["probabilities"], expected, rtol=0, atol=1e-4)
    assert not torch.allclose(expected, said["answers"], atol=1e-2)
    assert facts["calibration"]["thresholds"] == [0.3, 0.4, 0.5]
    assert facts["task"]["names"] == list(NAMES)


def test_numbers_have_units_and_no_probabilities(saved, tmp_path):
    weights = saved("numbers")
    exported = capsnet.export(weights, "onnx", tmp_path / "net.onnx")
    images = torch.rand(1, 1, 28, 28)
    said, facts = run_onnx(exported.file, images)
    assert said.keys() == {"answers", "v"} and facts["answer"] == "answers"
    with torch.no_grad():
        answers = find_model(str(weights))[0].eval()(images).answers
    torch.testing.assert_close(said["answers"], answers, rtol=1e-5, atol=1e-2)
    assert facts["task"]["units"] == ["°", " mm"] and not facts["picture"]["ink"]


def test_torch_export_needs_nothing_of_this_package(saved, tmp_path):
    weights = saved("one_label", calibration=Calibration(0.5), backend="chunked")
    exported = capsnet.export(weights, "torch-export", tmp_path / "net.pt2")
    assert exported.difference <= 1e-4
    facts = {"capsnet.json": ""}
    program = torch.export.load(exported.file, extra_files=facts)
    assert json.loads(facts["capsnet.json"])["task"]["names"] == list(NAMES)
    assert not any("capsnet" in str(node.target) for node in program.graph.nodes)
    with zipfile.ZipFile(exported.file) as parts:  # no type of ours in what is loaded
        (graph,) = [name for name in parts.namelist() if name.endswith("models/model.json")]
        assert b"capsnet.models.Output" not in parts.read(graph)
    said = program.module()(torch.rand(4, 1, 28, 28))
    assert not torch.allclose(said["probabilities"], said["answers"], atol=1e-2)
    torch.testing.assert_close(said["probabilities"].sum(dim=1), torch.ones(4))


def test_safetensors_are_weights_again_with_all_that_is_known(saved, tmp_path, cli):
    reading = Reading(28, 1, "crop", (100.0, 4095.0))
    weights = saved("one_label", calibration=Calibration(0.5), reading=reading)
    out = tmp_path / "given.safetensors"
    done = cli("export", "--weights", weights, "--format", "safetensors", "--out", out, "--json")
    assert done.status == 0 and json.loads(done.out)["difference"] == 0
    model, card = find_model(str(out))
    assert (card.reading, card.calibration) == (reading, Calibration(0.5))
    picture = card.more["use"]["picture"]
    assert (picture["fit"], picture["black"], picture["white"]) == ("crop", 100, 4095)
    assert "cropped" in picture["in_words"] and "(value - 100)" in picture["in_words"]
    assert model.task == TASKS["one_label"]


def test_counts_of_a_set_are_no_probabilities():
    model = capsnet.create_model("capsnet_slots", channels=(4,), primary_types=2, decoder=())
    answering = Answering(model, None)
    facts = facts_of(answering, Card(model.name, {}, model.task, {"data": "mine"}))
    said = answering(torch.rand(1, *model.image_shape))
    assert facts["answer"] == "answers" and facts["outputs"].keys() == said.keys()
    assert facts["outputs"].keys() == {"answers", "v"}
    assert facts["outputs"]["answers"]["meaning"].startswith("how many there are of each class")


@pytest.mark.parametrize("wrong", [1e-3, float("nan")])
def test_what_differs_is_not_written(wrong, saved, tmp_path, cli, monkeypatch):
    weights, out = saved("one_label"), tmp_path / "there" / "net.safetensors"
    form = FORMATS["safetensors"]

    def load_wrong(path):
        run = form.load(path)
        return lambda images: {name: x + wrong for name, x in run(images).items()}

    monkeypatch.setitem(FORMATS, "safetensors", replace(form, load=load_wrong))
    done = cli("export", "--weights", weights, "--format", "safetensors", "--out", out)
    assert done.status == 2 and "differs from the original by" in done.err
    assert list(out.parent.iterdir()) == []


def test_a_file_that_is_there_is_kept_unless_forced(saved, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = saved("one_label")
    before = weights.read_bytes()
    words = ("export", "--weights", weights, "--format", "safetensors")
    done = cli(*words)  # called as the weights are: these themselves
    assert done.status == 2 and "--force" in done.err and weights.read_bytes() == before
    assert cli(*words, "--force").status == 0 and weights.read_bytes() != before
    assert cli(*words, "--out", "net.onnx").status == 2
    assert not Path("net.onnx").exists()


def test_what_is_missing_is_said(saved, tmp_path, cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    out = tmp_path / "net.onnx"
    done = cli("export", "--weights", saved("one_label"), "--format", "onnx", "--out", out)
    assert done.status == 2 and "pip install 'capsnet[export]'" in done.err
    assert not out.exists()
    done = cli("export", "--weights", tmp_path / "none.safetensors", "--format", "onnx")
    assert done.status == 2 and "There is no file" in done.err
    with pytest.raises(capsnet.UserError, match="did you mean 'onnx'"):
        capsnet.export("capsnet_small", "onxx")


def test_a_model_that_cannot_be_exported_is_named(saved, tmp_path, cli, monkeypatch):
    weights = saved("one_label", "cnn_small")

    def forward(self, images):
        return capsnet.Output(images, images.numpy())

    monkeypatch.setattr("capsnet.models.cnn.Cnn.forward", forward)
    out = tmp_path / "net.pt2"
    done = cli("export", "--weights", weights, "--format", "torch-export", "--out", out)
    assert done.status == 2 and "cnn_small cannot be written as torch-export" in done.err
    assert done.err.count("\n") == 1 and not out.exists()
