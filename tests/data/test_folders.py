import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data import load_folder, open_own
from capsnet.errors import UserError


def fill(folder, num, shape=(10, 10), suffix="png", level=None):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(list(str(folder).encode()))
    for i in range(num):
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        if level is not None:
            pixels[:] = level
        Image.fromarray(pixels).save(folder / f"{i:03}.{suffix}")


def test_seeded_split_is_whole_and_stratified(tmp_path):
    fill(tmp_path / "cat", 20)
    fill(tmp_path / "dog", 10)
    train, test = (load_folder(tmp_path, part) for part in ("train", "test"))
    assert train.task.names == test.task.names == ("cat", "dog")
    assert train.label_counts() == (16, 8) and test.label_counts() == (4, 2)
    both = torch.cat([train.images, test.images]).flatten(1)
    assert len(both.unique(dim=0)) == 30  # no picture is in both
    assert torch.equal(load_folder(tmp_path, "test").images, test.images)
    assert not torch.equal(load_folder(tmp_path, "test", seed=1).images, test.images)


def test_split_folders_are_used_as_they_are(tmp_path):
    for part, num in (("train", 3), ("test", 2)):
        for label, name in enumerate(("a", "b")):
            fill(tmp_path / part / name, num, level=100 * label + num)
    train, test = (load_folder(tmp_path, part) for part in ("train", "test"))
    assert train.label_counts() == (3, 3) and test.label_counts() == (2, 2)
    assert (train.images[train.labels == 1] == 103).all()
    assert (test.images[test.labels == 0] == 2).all()


def test_split_folders_must_hold_the_same_classes(tmp_path):
    for folder in ("train/a", "train/b", "test/a", "test/c"):
        fill(tmp_path / folder, 1)
    with pytest.raises(UserError, match="b, c"):
        load_folder(tmp_path, "train")


def test_odd_sizes_and_colours_get_one_form(tmp_path):
    fill(tmp_path / "a", 2, (11, 7))
    fill(tmp_path / "b", 2, (5, 19, 3), "jpg")
    assert load_folder(tmp_path, "train").image_shape == (3, 19, 19)
    assert load_folder(tmp_path, "train", size=24, channels=1).image_shape == (1, 24, 24)
    fill(tmp_path / "b", 3, (500, 300), "jpeg")
    assert load_folder(tmp_path, "train").image_shape == (3, 32, 32)


def test_grey_folder_has_one_channel(tmp_path):
    fill(tmp_path / "a", 2)
    fill(tmp_path / "b", 2)
    assert load_folder(tmp_path, "train").image_shape == (1, 10, 10)


@pytest.mark.parametrize("name", ["broken.png", "broken.jpg", "notes.txt"])
@pytest.mark.parametrize("size", [None, 12])
def test_a_file_that_is_no_picture_is_named(tmp_path, name, size):
    for folder in ("train/a", "train/b", "test/a", "test/b"):
        fill(tmp_path / folder, 2)
    (tmp_path / "train" / "b" / name).write_bytes(b"no picture")
    with pytest.raises(UserError, match=name):
        load_folder(tmp_path, "train", size=size, channels=size and 1)


def test_folders_without_two_classes_are_refused(tmp_path):
    with pytest.raises(UserError, match="holds no pictures"):
        load_folder(tmp_path, "train")
    fill(tmp_path / "only", 4)
    with pytest.raises(UserError, match="has 1"):
        load_folder(tmp_path, "train")
    (tmp_path / "hollow").mkdir()
    with pytest.raises(UserError, match="hollow is empty"):
        load_folder(tmp_path, "train")
    with pytest.raises(UserError, match="no folder"):
        load_folder(tmp_path / "nowhere", "train")


@pytest.mark.parametrize(
    "parts", [("train", "val"), ("train",), ("Train", "Test"), ("train", "val", "test")]
)
def test_any_split_folders_are_understood(tmp_path, parts):
    for part in parts:
        fill(tmp_path / part / "a", 10)
        fill(tmp_path / part / "b", 10)
    own = open_own(tmp_path)
    assert own.task.names == ("a", "b") and set(own.splits) == {"train", "validation", "test"}
    for file, split in zip(own.listing.files, own.splits, strict=True):
        said = {"train": {"train", "validation", "test"}, "val": {"validation"}, "test": {"test"}}
        assert split in said[file.split("/")[0].lower()]


def test_folders_beside_train_and_test_are_refused(tmp_path):
    for part in ("train", "more", "test"):
        fill(tmp_path / part / "a", 2)
        fill(tmp_path / part / "b", 2)
    with pytest.raises(UserError, match="beside them more, which would not be used"):
        load_folder(tmp_path, "train")


def test_hidden_files_are_passed_over(tmp_path):
    fill(tmp_path / "a", 2)
    fill(tmp_path / "b", 2)
    (tmp_path / ".git").mkdir()
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (tmp_path / "a" / name).write_bytes(b"x")
    assert load_folder(tmp_path, "train").task.names == ("a", "b")
