"""Training on images that stay on the disk: the same run, bit for bit, as with images in memory."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from outcome import history, same_outcome
from PIL import Image

from capsnet.data.splits import room
from capsnet.data.splits.mapped import Mapped
from capsnet.errors import UserError
from capsnet.report.writing import write_report
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import evaluate
from capsnet.training.keeping import open_pictures
from capsnet.training.loop import train
from capsnet.training.outcome import Finished, Interrupted
from capsnet.training.setup import open_stream

CPU = torch.device("cpu")
NORMS = {"model": "capsnet_modern_small", "options": ("channels=(4,8)", "primary_types=2")}
CAPSULES = {"model": "capsnet_small", "options": ("conv_channels=4", "primary_types=2")}
SETTINGS = [
    {**NORMS, "balance": "sampling", "rotate": 10.0},
    {**NORMS, "balance": "loss", "patience": 1, "num_samples": 31},
    {**CAPSULES, "final_split": "validation", "tensorboard": True},
]


@pytest.fixture
def folder(tmp_path):
    """Pictures of two classes, 40 and 24."""
    rng = np.random.default_rng(0)
    for name, count in (("a", 40), ("b", 24)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for k in range(count):
            pixels = rng.integers(0, 256, (28, 28), dtype=np.uint8) // (1 + (name == "b"))
            Image.fromarray(pixels).save(tmp_path / "own" / name / f"{k}.png")
    return tmp_path / "own"


@pytest.fixture
def configs(folder, tmp_path):
    """The settings of two runs that differ in where the images are."""

    def make(**changes):
        usual = {"data": str(folder), "epochs": 2, "batch_size": 10, "baseline": "none"}
        places = (("memory", "memory"), ("disk", "disk"))
        return [
            TrainConfig(**usual | {"images_in": x, "out": tmp_path / out} | changes)
            for out, x in places
        ]

    return make


@pytest.mark.parametrize("settings", SETTINGS, ids=["norms", "patience", "capsules"])
def test_the_result_does_not_depend_on_where_images_are(configs, settings):
    runs = configs(**settings)
    memory, disk = (train(config) for config in runs)
    same_outcome(*runs)
    assert memory.result.to_json() == disk.result.to_json()
    assert "read from the disk as they are needed: 0.0 MB" in str(disk.plan)
    assert "disk" not in str(memory.plan)
    assert disk.plan.bytes_on_disk >= 31 * 28 * 28 > memory.plan.bytes_on_disk == 0


def test_a_run_goes_on_from_another_place(configs, ctrl_c):
    whole, parts = configs(**CAPSULES)
    train(whole)
    with ctrl_c(3):
        assert isinstance(train(parts), Interrupted)
    assert isinstance(train(replace(parts, resume=True, images_in="memory")), Finished)
    same_outcome(whole, parts)


def test_folds_their_cnns_and_the_report_read_from_the_disk(configs):
    numbers = []
    for config in configs(**CAPSULES, folds=2, baseline="cnn", epochs=1):
        train(config)
        written = write_report(config.folder)
        numbers.append(json.loads(written.numbers.read_text(encoding="utf-8")))
    memory, disk = numbers
    assert memory["baselines"] == disk["baselines"] and len(disk["baselines"]) == 4
    assert memory["data"] == disk["data"]


def test_a_system_without_groups_limits_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "MINE", tmp_path / "none")
    assert room._left_by_groups() == []
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.stat").write_text("anon 300\nfile 600\n")
    (tmp_path / "mine").write_text("0::/\n")
    monkeypatch.setattr(room, "MINE", tmp_path / "mine")
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    assert room._left_by_groups()[0] == 700


def test_what_does_not_fit_stays_on_the_disk(configs, monkeypatch):
    config = replace(configs(**CAPSULES)[0], images_in="auto")
    if room.free_memory(CPU) is None:
        pytest.skip("this system does not say how much memory is free")

    def images():
        return open_stream(config, "train", CPU, open_pictures(config, CPU)).split.images

    assert isinstance(images(), torch.Tensor)
    monkeypatch.setattr(room, "SHARE", 1e-12)
    assert isinstance(images(), Mapped)
    run = train(config)
    test = open_stream(config, "test", CPU)  # as `capsnet evaluate` opens it
    assert isinstance(test.split.images, Mapped)
    assert evaluate(run.trained, test).num_wrong == run.result.num_wrong


def test_other_data_has_its_own_place(tiny):
    with pytest.raises(UserError, match="images-in is for pictures of your own"):
        train(tiny(images_in="disk"))


def test_each_of_several_processes_reads_its_own_rows(configs):
    memory, disk = configs(**CAPSULES)
    train(memory)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "capsnet", "train", "--data", disk.data),
            *("--epochs", "2", "--batch-size", "10", "--baseline", "none", "--device", "cpu"),
            *("--model", disk.model, "--options", *disk.options),
            *("--images-in", "disk", "--out", str(disk.folder)),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0 and "read from the disk" in done.stderr, done.stderr
    for one, other in zip(history(memory), history(disk), strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-3)
