"""The known data sets, on small files that are told to be the originals."""

import hashlib

import numpy as np
import pytest
import torch

from capsnet.data import check, fetch, open_data
from capsnet.data.sets import digits
from capsnet.data.sets.cifar import FILES, KINDS, load_cifar10
from capsnet.data.sets.idx import write_idx
from capsnet.data.sets.mnist import CLOTHES, DIGITS, load_fashion, load_mnist
from capsnet.data.sources.known import CIFAR10, FASHION, MNIST

NUMS = {"train": 70, "t10k": 40}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for files, and nowhere else to look for them."""
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


@pytest.fixture
def mnist(folder, monkeypatch):
    """Images and labels of both parts, written as the files of MNIST and of Fashion-MNIST."""
    made, random = {}, np.random.default_rng(0)
    for prefix, num in NUMS.items():
        images = random.integers(256, size=(num, 28, 28), dtype=np.uint8)
        labels = random.permutation(num).astype(np.uint8) % 10
        made[prefix] = (images, labels)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            name, raw = f"{prefix}-{name}-ubyte", write_idx(array)
            (folder / name).write_bytes(raw)
            for source in (MNIST, FASHION):
                monkeypatch.setitem(source.raw_md5, name, hashlib.md5(raw).hexdigest())
    return made


@pytest.mark.parametrize(("load", "names"), [(load_mnist, DIGITS), (load_fashion, CLOTHES)])
def test_images_and_labels_are_those_of_the_files(load, names, mnist, folder):
    for split, prefix in (("train", "train"), ("test", "t10k")):
        data, (images, labels) = load(split, folder), mnist[prefix]
        assert np.array_equal(data.images.numpy(), images[:, None])
        assert data.labels.dtype == torch.int64 and np.array_equal(data.labels.numpy(), labels)
        assert data.task.names == names and len(names) == 10


def test_each_row_of_mnist_opens_as_it_is_told(mnist, folder):
    canvas = {"mnist": 28, "multimnist": 36, "crowds": 48, "mnist40": 40, "affnist_style": 40}
    for name, side in canvas.items():
        for split, num in (("train", NUMS["train"]), ("test", NUMS["t10k"])):
            stream = open_data(name, split, folder=folder)
            assert stream.image_shape == (1, side, side)
            versions = 32 if (name, split) == ("affnist_style", "test") else 1
            assert stream.num_samples == versions * num
    assert open_data("fashion", "test", folder=folder).task.names == CLOTHES
    assert open_data("crowds", "test", folder=folder).many == (1, 3)


def test_what_was_checked_and_fetched_is_told(mnist, folder):
    for report in (check("mnist", folder), fetch("mnist", folder)):
        assert report.ok and report.name == "mnist"
        assert report.num_images == {"train": NUMS["train"], "test": NUMS["t10k"]}
        assert report.label_counts == {"train": (7,) * 10, "test": (4,) * 10}
        assert {file.name: file.path for file in report.files} == {
            name: str(folder / name) for name in MNIST.raw_md5
        }
        assert all(x.ok and x.place == f"folder {folder}" and not x.missing for x in report.files)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    report = check("mnist", folder)
    assert not report.ok and (report.num_images, report.label_counts) == ({}, {})
    (lost,) = (file for file in report.files if not file.ok)
    assert lost.name == "t10k-labels-idx1-ubyte" and lost.missing and lost.path == ""


def test_the_embedded_digits_are_evenly_spaced_in_their_class(mnist, folder, monkeypatch):
    assert digits.PER_CLASS == {"train": 500, "test": 100}
    per_class = {"train": 4, "test": 2}
    monkeypatch.setattr(digits, "PER_CLASS", per_class)
    digits.make_digits(folder / "digits.npz", folder)
    with np.load(folder / "digits.npz") as kept:
        made = {name: kept[name] for name in kept}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = mnist[prefix]
        # Of seven every second one, of four the first and the last, in the order of the file.
        step = 2 if split == "train" else 3
        rows = np.sort(np.concatenate([np.flatnonzero(labels == k)[::step] for k in range(10)]))
        assert len(rows) == 10 * per_class[split] and made[f"{split}_labels"].dtype == np.uint8
        assert np.array_equal(made[f"{split}_images"], images[rows])
        assert np.array_equal(made[f"{split}_labels"], labels[rows])


def test_cifar10_is_its_files_one_after_the_other(folder, monkeypatch):
    random = np.random.default_rng(0)
    images = random.integers(256, size=(6, 2, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(10, size=(6, 2), dtype=np.uint8)
    assert [*FILES["train"], *FILES["test"]] == [*CIFAR10.raw_md5] and len(KINDS) == 10
    for name, pixels, told in zip(CIFAR10.raw_md5, images, labels, strict=True):
        rows = zip(told, pixels, strict=True)
        raw = b"".join(bytes([label]) + image.tobytes() for label, image in rows)
        (folder / name).write_bytes(raw)
        monkeypatch.setitem(CIFAR10.raw_md5, name, hashlib.md5(raw).hexdigest())
    for split, part in (("train", slice(5)), ("test", slice(5, 6))):
        data = load_cifar10(split, folder)
        assert np.array_equal(data.images.numpy(), images[part].reshape(-1, 3, 32, 32))
        assert data.labels.dtype == torch.int64
        assert data.labels.tolist() == labels[part].flatten().tolist()
    assert open_data("cifar10", "test", folder=folder).image_shape == (3, 32, 32)
