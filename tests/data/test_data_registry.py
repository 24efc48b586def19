import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data import Augment, check, fetch, list_data, open_data
from capsnet.data.registry import DATA, TABLE
from capsnet.data.sets.digits import load_digits, make_digits
from capsnet.data.sources.known import MNIST
from capsnet.data.sources.locate import locate
from capsnet.errors import UserError


@pytest.fixture(autouse=True)
def ours_alone(monkeypatch):
    """Hide what other tests of this process have registered."""
    for name in set(DATA) - {entry.name for entry in TABLE}:
        monkeypatch.delitem(DATA, name)


def test_embedded_sample_is_balanced_and_its_parts_differ():
    train, test = load_digits("train"), load_digits("test")
    assert train.label_counts() == (500,) * 10 and test.label_counts() == (100,) * 10
    assert train.image_shape == test.image_shape == (1, 28, 28)
    both = torch.cat([train.images, test.images]).flatten(1)
    assert len(both.unique(dim=0)) == 6000


def test_embedded_sample_is_made_from_mnist(tmp_path):
    try:
        locate(MNIST, online=False)
    except UserError:
        pytest.skip("MNIST IS NOT ON THIS MACHINE: run `capsnet data fetch mnist` first")
    make_digits(tmp_path / "digits.npz")
    with np.load(tmp_path / "digits.npz") as made:
        for part in ("train", "test"):
            split = load_digits(part)
            assert np.array_equal(made[f"{part}_images"], split.images[:, 0].numpy())
            assert np.array_equal(made[f"{part}_labels"], split.labels.numpy())


def test_list_names_everything():
    assert [entry.name for entry in list_data()] == [
        "digits",
        "mnist",
        "fashion",
        "cifar10",
        "multimnist",
        "multidigits",
        "crowds",
        "crowd_digits",
        "hollow",
        "turned_digits",
        "mnist40",
        "affnist_style",
        "affnist",
        "dsprites",
        "dsprites_pose",
        "scenes",
        "scenes_pose",
        "scenes_several",
        "smallnorb",
        "folder:PATH",
    ]
    assert all(entry.description and entry.licence and entry.needs for entry in list_data())


def test_every_name_is_on_the_page_of_data():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    for entry in list_data()[:-1]:
        assert f"`{entry.name}`" in page


def test_unknown_names_get_the_nearest():
    with pytest.raises(UserError, match="did you mean 'mnist'"):
        open_data("mnits", "train")
    with pytest.raises(UserError, match="did you mean 'test'"):
        open_data("digits", "tests")  # type: ignore[arg-type]


def test_digits_open_as_they_are_or_on_a_canvas_or_in_colour():
    stream = open_data("digits", "test")
    assert (stream.num_samples, stream.image_shape) == (1000, (1, 28, 28))
    assert stream.task.names == tuple("0123456789")
    stream = open_data("digits", "test", image_size=32, channels=3)
    assert stream.batch(stream.plan(None)).images.shape == (1000, 3, 32, 32)
    with pytest.raises(UserError, match="28 or more"):
        open_data("digits", "test", image_size=20)


def test_overlapping_digits_open():
    stream = open_data("multidigits", "test", num_samples=123)
    batch = stream.batch(stream.plan(None))
    assert batch.images.shape == (123, 1, 36, 36) and batch.labels.shape == (123, 2)


def test_holdout_parts_the_training_images():
    train = open_data("digits", "train", holdout=600, seed=3)
    held = open_data("digits", "validation", holdout=600, seed=3)
    assert train.split.label_counts() == (440,) * 10
    assert held.split.label_counts() == (60,) * 10
    both = torch.cat([train.split.images, held.split.images]).flatten(1)
    assert len(both.unique(dim=0)) == 5000
    assert open_data("digits", "test", holdout=600).num_samples == 1000
    with pytest.raises(UserError, match="hold out"):
        open_data("digits", "validation")


def test_num_samples_takes_a_stratified_few():
    stream = open_data("digits", "train", num_samples=50)
    assert stream.split.label_counts() == (5,) * 10
    with pytest.raises(UserError, match="5001 of 5000"):
        open_data("digits", "train", num_samples=5001)


def test_augment_is_for_training_images_that_do_not_move_by_themselves():
    assert open_data("digits", "train", augment=Augment()).plan(torch.Generator()).keys() == {
        "index",
        "shift",
    }
    for split, options in (("test", {}), ("validation", {"holdout": 10})):
        with pytest.raises(UserError, match="Only training"):
            open_data("digits", split, augment=Augment(), **options)
    with pytest.raises(UserError, match="own rules"):
        open_data("multidigits", "train", augment=Augment())
    pairs = open_data("multidigits", "train", augment=Augment(shift=0, rotate=10))
    assert pairs.plan(torch.Generator()).keys() == {"index", "theta"}
    with pytest.raises(UserError, match="own rules"):
        open_data("mnist40", "train", augment=Augment(shift=0, rotate=10))
    takes = {entry.name for entry in list_data() if entry.takes_shift}
    assert takes == {"digits", "mnist", "fashion", "cifar10", "affnist", "smallnorb", "folder:PATH"}


@pytest.mark.parametrize("name", ["affnist", "smallnorb"])
def test_originals_need_a_folder(name, tmp_path):
    with pytest.raises(UserError, match="folder"):
        open_data(name, "test")
    with pytest.raises(UserError, match=r"place .*mat"):
        open_data(name, "test", folder=tmp_path)


@pytest.mark.parametrize("prefix", ["folder:", ""])
def test_folder_by_its_path(tmp_path, prefix):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(5):
            Image.fromarray(np.full((9, 9), i, np.uint8)).save(tmp_path / name / f"{i}.png")
    stream = open_data(f"{prefix}{tmp_path}", "train")
    assert (stream.num_samples, stream.image_shape, stream.task.names) == (8, (1, 9, 9), ("a", "b"))
    for report in (check(f"{prefix}{tmp_path}"), fetch(f"{prefix}{tmp_path}")):
        assert report.label_counts == {"train": (4, 4), "test": (1, 1)}


def test_check_of_the_sample_counts_labels():
    report = check("digits")
    assert report.ok and report.files[0].place == "inside the package"
    assert report.label_counts == {"train": (500,) * 10, "test": (100,) * 10}


def test_check_and_fetch_of_a_damaged_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"wrong")
    report = check("mnist", folder=tmp_path)
    files = {file.name: file for file in report.files}
    assert not report.ok and report.label_counts == {}
    assert not files["t10k-labels-idx1-ubyte"].missing
    assert MNIST.raw_md5["t10k-labels-idx1-ubyte"] in files["t10k-labels-idx1-ubyte"].place
    with pytest.raises(UserError, match="t10k-labels"):
        fetch("mnist", folder=tmp_path)


def test_mnist_has_its_label_counts():
    report = check("mnist")
    if not report.ok:
        pytest.skip("MNIST IS NOT ON THIS MACHINE: run `capsnet data fetch mnist` first")
    assert report.label_counts == {
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    }


def test_import_leaves_heavy_libraries_alone():
    code = "import sys, capsnet.data; print({'scipy', 'sklearn', 'pooch'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "set()"
