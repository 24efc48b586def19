"""The readers of original formats, on small files written in those formats."""

import gzip
import io
import struct

import numpy as np
import pytest
import torch
from scipy.io import savemat

from capsnet.data.sets.affnist import load_affnist
from capsnet.data.sets.matlab import read_struct
from capsnet.data.sets.smallnorb import (
    STEMS,
    load_smallnorb,
    load_smallnorb_info,
    read_matrix,
)
from capsnet.errors import UserError

MAGIC = {"u1": 0x1E3D4C55, "i4": 0x1E3D4C54}


def norb_bytes(array):
    sizes = [*array.shape, 1, 1][: max(array.ndim, 3)]
    header = struct.pack("<ii", MAGIC[array.dtype.str[1:]], array.ndim)
    return header + struct.pack(f"<{len(sizes)}i", *sizes) + array.tobytes()


@pytest.fixture
def norb(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 2, 96, 96), dtype=np.uint8)
    labels = np.array([0, 1, 2, 3, 4, 2], dtype="<i4")
    info = rng.integers(0, 18, (6, 4)).astype("<i4")
    stem = tmp_path / STEMS["train"]
    stem.with_name(stem.name + "-dat.mat.gz").write_bytes(gzip.compress(norb_bytes(images)))
    stem.with_name(stem.name + "-cat.mat").write_bytes(norb_bytes(labels))
    stem.with_name(stem.name + "-info.mat").write_bytes(norb_bytes(info))
    return tmp_path, images, labels, info


def test_smallnorb_is_read_as_written(norb):
    folder, images, labels, info = norb
    split = load_smallnorb(folder, "train")
    assert np.array_equal(split.images.numpy(), images)
    assert np.array_equal(split.labels.numpy(), labels)
    assert len(split.task.names) == 5
    assert np.array_equal(load_smallnorb_info(folder, "train").numpy(), info)


def test_smallnorb_left_camera_and_size(norb):
    folder, images, _, _ = norb
    split = load_smallnorb(folder, "train", channels=1, size=48)
    blocks = images[:, :1].reshape(6, 1, 48, 2, 48, 2).mean((3, 5))
    assert np.abs(split.images.numpy() - blocks).max() <= 0.5
    with pytest.raises(UserError, match="divides 96"):
        load_smallnorb(folder, "train", size=50)


def test_smallnorb_missing_or_damaged_files_are_named(norb):
    folder = norb[0]
    with pytest.raises(UserError, match=f"{STEMS['test']}-dat.mat"):
        load_smallnorb(folder, "test")
    cat = folder / f"{STEMS['train']}-cat.mat"
    cat.write_bytes(cat.read_bytes()[:-3])
    with pytest.raises(UserError, match="cut short"):
        load_smallnorb(folder, "train")
    cat.write_bytes(b"not a matrix, not at all")
    with pytest.raises(UserError, match="not a NORB matrix"):
        load_smallnorb(folder, "train")


def write_affnist(path, images, labels):
    path.parent.mkdir(exist_ok=True)
    fields = {"image": images.reshape(len(images), 1600).T, "label_int": labels[None]}
    savemat(path, {"affNISTdata": fields})


@pytest.mark.parametrize("num", [1, 5])
def test_affnist_is_read_as_written(tmp_path, num):
    images = np.random.default_rng(0).integers(0, 256, (num, 40, 40), dtype=np.uint8)
    labels = np.arange(num, dtype=np.uint8)
    write_affnist(tmp_path / "test.mat", images, labels)
    split = load_affnist(tmp_path, "test")
    assert np.array_equal(split.images[:, 0].numpy(), images)
    assert split.labels.tolist() == list(range(num))


def test_affnist_batches_are_joined(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 40, 40), dtype=np.uint8)
    for part in range(2):
        rows = slice(3 * part, 3 * part + 3)
        path = tmp_path / "training_and_validation_batches" / f"{part + 1}.mat"
        write_affnist(path, images[rows], np.arange(6, dtype=np.uint8)[rows])
    split = load_affnist(tmp_path, "train")
    assert torch.equal(split.images[:, 0], torch.from_numpy(images))
    assert split.labels.tolist() == list(range(6))


def test_affnist_missing_or_other_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"test\.mat"):
        load_affnist(tmp_path, "test")
    (tmp_path / "test.mat").write_bytes(b"this is no Matlab file")
    with pytest.raises(UserError, match="not an affNIST file"):
        load_affnist(tmp_path, "test")
    savemat(tmp_path / "test.mat", {"other": np.zeros(3)})
    with pytest.raises(UserError, match="not an affNIST file"):
        load_affnist(tmp_path, "test")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (struct.pack("<ii3i", MAGIC["u1"], 0, 1, 1, 1), "it has 0 dimensions"),
        (struct.pack("<ii3i", MAGIC["u1"], 3, 1, -1, -1), "its sizes are none"),
        (struct.pack("<iiih", MAGIC["u1"], 3, 1, 1), "its sizes are none"),  # of two
        (struct.pack("<ii3i", MAGIC["u1"], 3, 1, 1, 3), "it is not of the size that it says"),
        (struct.pack("<ii3i", MAGIC["i4"], 3, 1, 1, 1), "it is not of the size that it says"),
        (struct.pack("<ii3i", MAGIC["u1"], 3, 1 << 20, 1 << 20, 3), "it is smaller than it says"),
    ],
)
def test_matrices_that_lie_are_refused(header, why, tmp_path):
    path = tmp_path / "x.mat"
    path.write_bytes(struct.pack("<ii3i", MAGIC["u1"], 3, 1, 1, 2) + b"ab")
    assert read_matrix(path).tolist() == [[[97, 98]]]
    path.write_bytes(header + b"ab")
    with pytest.raises(UserError, match=why):
        read_matrix(path)


def test_smallnorb_has_two_cameras(norb):
    for channels in (0, 3):
        with pytest.raises(UserError, match="ask for 1 or 2"):
            load_smallnorb(norb[0], "train", channels=channels)
    assert load_smallnorb(norb[0], "train", channels=2, size=96).image_shape == (2, 96, 96)


@pytest.mark.parametrize("packed", [True, False])
def test_a_structure_of_matlab_is_read_as_written(packed):
    fields = {
        "image": np.arange(24, dtype=np.uint8).reshape(4, 6),
        "text": "a sentence",
        "cells": np.array([1, "two"], dtype=object),
        "label_int": np.array([[1.0, 300.0, -2.5]]),
        "one": np.uint8(7),
        "none": np.zeros((0, 3)),
    }
    file = io.BytesIO()
    savemat(file, {"before": np.eye(3), "data": fields, "after": "x"}, do_compression=packed)
    found = read_struct(file.getvalue(), "data", ("image", "label_int", "one", "none"))
    for name, array in found.items():
        assert np.array_equal(array, np.atleast_2d(fields[name])), name
    assert found.keys() == {"image", "label_int", "one", "none"}
    for name in ("text", "cells"):
        with pytest.raises(ValueError, match=f"{name} holds no numbers"):
            read_struct(file.getvalue(), "data", (name,))
    for name, why in (("before", "not one structure"), ("nothing", "it has no nothing")):
        with pytest.raises(ValueError, match=why):
            read_struct(file.getvalue(), name, ("image",))
    with pytest.raises(ValueError, match="it has no label"):
        read_struct(file.getvalue(), "data", ("image", "label"))
    for end in range(0, len(file.getvalue()) - 200, 7):
        with pytest.raises(ValueError):
            read_struct(file.getvalue()[:end], "data", ("image",))


def test_complex_numbers_and_several_structures_are_no_images():
    file = io.BytesIO()
    savemat(file, {"data": {"image": np.array([[1j]])}, "two": [{"image": 1}, {"image": 2}]})
    for name, why in (("data", "no class"), ("two", "not one structure")):
        with pytest.raises(ValueError, match=why):
            read_struct(file.getvalue(), name, ("image",))


def test_affnist_of_other_sizes_is_refused(tmp_path):
    for images, labels, why in (
        (np.zeros((1600, 3), np.uint8), np.arange(2), "2 labels of 3 images"),
        (np.zeros((1599, 3), np.uint8), np.arange(3), "cannot reshape"),
    ):
        data = {"affNISTdata": {"image": images, "label_int": labels}}
        savemat(tmp_path / "test.mat", data, do_compression=True)
        with pytest.raises(UserError, match=f"not an affNIST file .{why}"):
            load_affnist(tmp_path, "test")


@pytest.mark.parametrize(
    "shape, kind", [((6, 1, 9, 9), "u1"), ((6, 2, 81), "u1"), ((6, 2, 9, 9), "<i4")]
)
def test_smallnorb_is_stereo_pairs_of_bytes(norb, shape, kind):
    path = norb[0] / f"{STEMS['train']}-dat.mat"  # which comes before the .gz
    path.write_bytes(norb_bytes(np.zeros(shape, kind)))
    with pytest.raises(UserError, match="are not stereo pairs"):
        load_smallnorb(norb[0], "train")
