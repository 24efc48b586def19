import os
from collections import Counter

import numpy as np
import pytest
import torch
from making import noise, patients, save, table
from PIL import Image

from capsnet.data import open_data, open_own
from capsnet.data.splits.mapped import Mapped
from capsnet.errors import UserError
from capsnet.models.weights import Card
from capsnet.pictures.layout import Layout
from capsnet.pictures.reading import Reading
from capsnet.prediction.seeing import Look
from capsnet.tasks import Numbers, SeveralLabels

BY_PATIENT = Layout(class_from="1", group_from="2")


def groups_of(own):
    found = {}
    for group, split in zip(own.listing.groups, own.splits, strict=True):
        found.setdefault(group, set()).add(split)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_split_made_here_never_parts_a_group(tmp_path, seed):
    own = open_own(patients(tmp_path), BY_PATIENT, seed=seed)
    assert all(len(parts) == 1 for parts in groups_of(own).values())
    for name in ("train", "validation", "test"):
        labels = own.split(name).labels
        assert set(labels.tolist()) == {0, 1}
    assert not own.check.leaks
    assert own.splits == open_own(tmp_path, BY_PATIENT, seed=seed).splits


def test_folds_test_every_picture_once(tmp_path):
    root = patients(tmp_path)
    tested = Counter()
    for k in (1, 2, 3):
        own = open_own(root, BY_PATIENT, fold=(k, 3))
        tested.update(own.split("test").files)
        assert all(len(parts) == 1 for parts in groups_of(own).values())
    assert set(tested.values()) == {1} and len(tested) == 48
    with pytest.raises(UserError, match="ask for fewer folds"):
        open_own(root, BY_PATIENT, fold=(1, 9))


def test_a_leak_made_by_hand_is_refused(tmp_path):
    for split, start in (("train", 0), ("test", 4)):  # two people of each class are in both
        patients(tmp_path / split, people=6, start=start)
    with pytest.raises(UserError, match=r"4 groups are in more than one split \(b4.*--allow-leak"):
        open_own(tmp_path, BY_PATIENT)
    own = open_own(tmp_path, Layout(class_from="1", group_from="2", allow_leak=True))
    (leak,) = own.check.leaks
    assert set(leak.files) == {"b4", "b5", "m4", "m5"}


@pytest.mark.parametrize("kind", ["same", "near"])
def test_doubles_across_splits_are_found(tmp_path, kind):
    for split in ("train", "test"):
        for k in range(8):
            for label in ("a", "b"):
                seed = 100 * (split == "test") + 10 * k + (label == "b")
                save(tmp_path / split / label / f"{k}.png", noise(seed, (32, 32)))
    pixels = noise(30, (32, 32))
    if kind == "near":
        pixels = np.asarray(Image.fromarray(pixels).resize((48, 48)).resize((32, 32)))
    save(tmp_path / "test" / "a" / "copy.jpg", pixels)
    if kind == "same":
        (tmp_path / "test" / "a" / "copy.jpg").unlink()
        save(tmp_path / "test" / "a" / "copy.png", pixels)
    with pytest.raises(UserError, match=r"copy"):
        open_own(tmp_path)
    check = open_own(tmp_path, Layout(allow_leak=True)).check
    (leak,) = check.leaks
    assert kind in leak.kind and {"train/a/3.png"} < set(leak.files)


def test_doubles_stay_together_in_a_split_made_here(tmp_path):
    for k in range(20):
        save(tmp_path / "a" / f"{k}.png", noise(k % 10, (32, 32)))  # each twice
        save(tmp_path / "b" / f"{k}.png", noise(100 + k, (32, 32)))
    for seed in range(3):
        own = open_own(tmp_path, seed=seed)
        split = dict(zip(own.listing.files, own.splits, strict=True))
        assert all(split[f"a/{k}.png"] == split[f"a/{k + 10}.png"] for k in range(10))


def test_flat_pictures_are_no_doubles(tmp_path):
    for k in range(10):
        save(tmp_path / "a" / f"{k}.png", np.zeros((12, 12), np.uint8))
        save(tmp_path / "b" / f"{k}.png", noise(k))
    own = open_own(tmp_path)
    assert Counter(own.split("test").labels.tolist()) == {0: 2, 1: 2}
    assert any(f.kind == "flat" for f in own.check.findings)


def test_twelve_bits_in_sixteen_are_kept(tmp_path):
    for k in range(12):
        save(tmp_path / "ab"[k % 2] / f"{k}.png", noise(k, (16, 16), 4096, np.uint16))
    own = open_own(tmp_path)
    images = own.stored.images
    assert images.dtype == np.int16 and own.stored.reading.window is not None
    assert len(np.unique(images)) > 1000  # 8 bits of 16 would have left 16
    batch = open_data(str(tmp_path), "train")
    pixels = batch.batch(batch.plan(None)).images
    assert pixels.dtype == torch.float32 and pixels.min() >= 0 and pixels.max() <= 1
    narrow = open_own(tmp_path, Layout(window=(0, 1000)))
    assert (narrow.stored.images == 32767).mean() > 0.3
    save(tmp_path / "a" / "eight.png", noise(99, (16, 16)))
    with pytest.raises(UserError, match=r"eight.png has 8 bits .*one depth"):
        open_own(tmp_path)


@pytest.mark.parametrize("lowest", [-1024, 1000])
def test_deep_pictures_are_padded_with_black_wherever_black_is(tmp_path, lowest):
    for k in range(8):
        path = tmp_path / "ab"[k % 2] / f"{k}.npy"
        path.parent.mkdir(exist_ok=True)
        values = lowest + noise(k, (8, 16), 3000, np.int16)
        values[0, :2] = lowest, lowest + 3000
        np.save(path, values)
    stored = open_own(tmp_path, Layout()).stored
    assert stored.reading.window == stored.values == (lowest, lowest + 3000)
    assert (stored.images[:, :, :4] == 0).all() and (stored.images[:, :, 12:] == 0).all()
    seen = Look(stored.reading)(tmp_path / "a" / "0.npy")
    assert seen.doubts == () and (seen.pixels[:, :4] == 0).all()


def test_uneven_and_few_are_said(tmp_path):
    for k in range(60):
        save(tmp_path / "many" / f"{k}.png", noise(k))
    for k in range(6):
        save(tmp_path / "few" / f"{k}.png", noise(1000 + k))
    check = open_own(tmp_path).check
    assert {"uneven classes", "few pictures"} <= {f.kind for f in check.findings}
    assert check.majority == 60 / 66 and "90.9 %" in str(check)


def test_several_labels_and_numbers_become_splits(tmp_path):
    for k in range(40):
        save(tmp_path / f"{k}.png", noise(k))
    rows = [(f"{k}.png", k % 2, int(k % 3 == 0), k / 4, f"p{k // 4}") for k in range(40)]
    path = table(tmp_path / "t.csv", ("file", "red", "big", "age", "group"), rows)
    several = open_own(path, Layout(class_from="red,big"))
    train = several.split("train")
    assert isinstance(train.task, SeveralLabels) and train.labels.shape[1] == 2
    assert train.labels.dtype == torch.int64
    row = train.files.index("0.png") if "0.png" in train.files else None
    assert row is None or train.labels[row].tolist() == [0, 1]
    numbers = open_own(path, Layout(numbers_from="age"))
    assert isinstance(numbers.task, Numbers) and numbers.split("test").labels.shape[1] == 1
    assert all(len(parts) == 1 for parts in groups_of(numbers).values())


def save_later(path, pixels):
    """Save a picture with a time that is later than it was, however coarse the clock."""
    before = path.stat().st_mtime_ns
    save(path, pixels)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_the_cache_is_used_until_a_picture_changes(tmp_path, monkeypatch):
    for k in range(6):
        save(tmp_path / "ab"[k % 2] / f"{k}.png", noise(k))
    first = open_own(tmp_path)
    monkeypatch.setattr("capsnet.pictures.store._make", None)  # whoever reads again fails
    assert np.array_equal(open_own(tmp_path).stored.images, first.stored.images)
    monkeypatch.undo()
    save_later(tmp_path / "a" / "0.png", noise(77))
    assert not np.array_equal(open_own(tmp_path).stored.images, first.stored.images)


def test_a_number_sign_in_a_name_is_no_slice(tmp_path):
    for k in range(8):
        save(tmp_path / "ab"[k % 2] / f"x#{k}.png", noise(k))
    own = open_own(tmp_path)
    assert own.listing.groups == () and len(own.listing) == 8
    save_later(tmp_path / "a" / "x#0.png", noise(77))
    assert not np.array_equal(open_own(tmp_path).stored.images, own.stored.images)


def test_many_are_read_by_processes_as_by_one(tmp_path, monkeypatch):
    root = tmp_path / "pictures"
    for k in range(40):
        save(root / "ab"[k % 2] / f"{k}.png", noise(k, (20, 14, 3)))
    one = open_own(root, size=16).stored
    monkeypatch.setattr("capsnet.pictures.processes.FEW", 1)
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "other"))
    several = open_own(root, size=16).stored
    assert np.array_equal(one.images, several.images) and one.forms == several.forms
    (root / "b" / "bad.png").write_bytes(b"no")
    with pytest.raises(UserError, match=r"bad.png is not a readable picture"):
        open_own(root, size=16)
    left = open_own(root, Layout(skip_bad=True), size=16)
    assert np.array_equal(left.stored.images, one.images) and "bad.png" in left.check.skipped[0]
    assert not list((tmp_path / "other" / "pictures").glob(".unfinished-*"))


def test_the_split_of_a_run_can_be_used_by_others(tmp_path):
    root = patients(tmp_path / "scans")
    own = open_own(root, BY_PATIENT, seed=3)
    path = tmp_path / "split.csv"
    path.write_text(own.split_text(), encoding="utf-8")
    layout = Layout(class_from="1", group_from="2", split_from=str(path))
    assert open_own(root, layout, seed=99).splits == own.splits
    save(root / "benign" / "b0" / "n0" / "new.png", noise(5))
    with pytest.raises(UserError, match=r"new.png is not in"):
        open_own(root, layout)


def test_a_class_of_one_group_cannot_be_tested(tmp_path):
    root = patients(tmp_path, people=4)
    save(root / "rare" / "r0" / "n0" / "0.png", noise(1))
    save(root / "rare" / "r0" / "n0" / "1.png", noise(2))
    with pytest.raises(UserError, match="'rare' has only one group"):
        open_own(root, BY_PATIENT)


def made(root, pictures):
    """Save a picture of noise for each (class, group)."""
    for k, (name, group) in enumerate(pictures):
        save(root / name / group / f"{k}.png", noise(sum(root.name.encode()) + k))
    return root


def test_two_groups_are_enough_to_test(tmp_path):
    both = [(name, group) for name in "ab" for group in ("g1", "g2") for _ in range(2)]
    own = open_own(made(tmp_path, both), BY_PATIENT, holdout=0)
    assert sorted(map(sorted, groups_of(own).values())) == [["test"], ["train"]]


def test_groups_that_always_lack_a_class_on_one_side_are_refused(tmp_path):
    pairs = [("a", "g1"), ("a", "g2"), ("b", "g2"), ("b", "g3"), ("c", "g3"), ("c", "g1")]
    with pytest.raises(UserError, match="cannot be parted so that every class is trained"):
        open_own(made(tmp_path, pairs), BY_PATIENT)


def test_as_many_folds_as_groups_are_the_most(tmp_path):
    root = made(tmp_path, [(name, f"{name}{k}") for name in "ab" for k in range(3)])
    assert len(open_own(root, BY_PATIENT, holdout=0, fold=(3, 3)).split("test")) == 2
    with pytest.raises(UserError, match=r"4 folds need 4 groups .* but one has 3; ask for fewer"):
        open_own(root, BY_PATIENT, fold=(1, 4))


def test_each_class_gives_a_fifth_to_testing_and_at_least_one(tmp_path):
    many = {"a": 20, "b": 9, "c": 2}
    root = made(tmp_path, [(name, "") for name, num in many.items() for _ in range(num)])
    own = open_own(root, holdout=0)
    assert own.split("test").label_counts() == (4, 2, 1)
    assert own.split("train").label_counts() == (16, 7, 1)
    assert open_own(root).split("validation").label_counts() == (3, 1, 0)


def test_all_but_one_may_be_held_out(tmp_path):
    root = made(tmp_path, [(name, "") for name in "ab" for _ in range(4)])
    own = open_own(root, holdout=5)
    assert Counter(own.splits) == {"test": 2, "validation": 5, "train": 1}
    with pytest.raises(UserError, match="Cannot hold out 6 of 6 images; hold out fewer"):
        open_own(root, holdout=6)
    with pytest.raises(UserError, match="no pictures for validation in"):
        open_own(root, holdout=0).split("validation")
    assert set(open_own(root, parted=False).splits) == {"test"}


def test_what_a_split_made_by_hand_lacks_is_said(tmp_path):
    for part in ("train", "test"):
        made(tmp_path / "both" / part, [(name, "") for name in "ab" for _ in range(2)])
    with pytest.raises(UserError, match="has a test split of its own; leave --folds out"):
        open_own(tmp_path / "both", Layout(), fold=(1, 2))
    files = [save(tmp_path / f"{k}.png", noise(k)) or f"{k}.png" for k in range(4)]
    rows = [(file, "ab"[k % 2], "test") for k, file in enumerate(files)]
    with pytest.raises(UserError, match="has no pictures for training; add some"):
        open_own(table(tmp_path / "t.csv", ("file", "label", "split"), rows))


def test_a_column_that_tells_nothing_is_refused(tmp_path):
    for k in range(10):
        save(tmp_path / f"{k}.png", noise(k))
    rows = [(f"{k}.png", 2.5, k + 0.1) for k in range(10)]
    path = table(tmp_path / "t.csv", ("file", "size", "age"), rows)
    with pytest.raises(UserError, match=r"The column size is 2\.5 in every row; choose another"):
        open_own(path, Layout(numbers_from="size,age")).split("train")
    task = open_own(path, Layout(numbers_from="age"), holdout=0).task
    assert all(x == np.float32(x) for x in task.ranges[0])
    own = open_own(path, Layout(numbers_from="age"))
    ages = own.split("train").labels.flatten()
    assert own.task.ranges == ((ages.min().item(), ages.max().item()),)


@pytest.mark.parametrize("size", [0, 10_001])
def test_sizes_have_bounds(tmp_path, size):
    root = made(tmp_path, [(name, "") for name in "ab" for _ in range(2)])
    sentence = f"Images cannot be {size} px wide; ask for 1 to 10000"
    with pytest.raises(UserError, match=sentence):
        open_own(root, size=size)
    with pytest.raises(UserError, match=sentence):
        open_data(str(root), "test", image_size=size)
    assert open_own(root, size=1).stored.images.shape[2:] == (1, 1)
    assert open_data(str(root), "test", image_size=1).image_shape == (1, 1, 1)


def test_a_split_says_of_whom_its_pictures_are(tmp_path):
    own = open_own(patients(tmp_path / "scans"), BY_PATIENT)
    split = own.split("test")
    place = dict(zip(own.listing.files, own.listing.groups, strict=True))
    assert split.groups == tuple(place[file] for file in split.files)
    alone = open_own(made(tmp_path / "alone", [(name, "") for name in "ab" for _ in range(4)]))
    assert alone.split("train").groups == alone.split("train").files


def test_the_text_of_a_split_is_a_table(tmp_path):
    for k in range(8):
        save(tmp_path / f"{k}.png", noise(k))
    rows = [(f"{k}.png", int(k > 0), int(k < 4), k / 4, f"p{k}") for k in range(8)]
    path = table(tmp_path / "t.csv", ("file", "red", "big", "age", "group"), rows)
    names = ["big", *["red|big"] * 3, *["red"] * 4]
    ages = [str(k / 4) for k in range(8)]
    for layout, labels in (
        (Layout(class_from="red,big"), names),
        (Layout(numbers_from="age"), ages),
    ):
        own = open_own(path, layout, holdout=0)
        told = zip(labels, own.splits, strict=True)
        lines = [f"{k}.png,{label},p{k},{split}\n" for k, (label, split) in enumerate(told)]
        assert own.split_text() == "file,label,group,split\n" + "".join(lines)
    root = made(tmp_path / "alone", [(name, "") for name in "aabb"])
    own = open_own(root, holdout=0)
    told = zip(own.listing.files, "aabb", own.splits, strict=True)
    assert own.split_text().splitlines()[1:] == [
        f"{x},{label},,{split}" for x, label, split in told
    ]


def test_what_is_alike_is_kept_with_the_pictures(tmp_path, monkeypatch):
    pairs = [(name, "") for name in "ab" for _ in range(6)]
    root = made(tmp_path / "mine", pairs)
    save(root / "a" / "flat.png", np.zeros((12, 12), np.uint8))
    for copy in ("a", "b"):
        save(root / copy / "copy.png", noise(5))
    first = open_own(root)
    monkeypatch.setattr("capsnet.data.sets.own.find_alike", None)  # whoever looks again fails
    again = open_own(root)
    for name in ("same", "near", "flat"):
        assert np.array_equal(getattr(first.alike, name), getattr(again.alike, name))
    assert len(first.alike.same) and first.alike.flat.any()
    monkeypatch.undo()
    path = first.stored.folder / "alike.npz"
    path.write_bytes(path.read_bytes()[:-9])
    assert np.array_equal(open_own(root).alike.same, first.alike.same)


def test_where_images_are_kept(tmp_path, monkeypatch):
    own = open_own(made(tmp_path, [(name, "") for name in "ab" for _ in range(4)]))
    device = torch.device("cpu")
    assert not own.on_disk
    for fit in (True, False):
        monkeypatch.setattr("capsnet.data.sets.own.fits", lambda *_, fit=fit: fit)
        kept = {where: own.kept(where, device).on_disk for where in ("memory", "disk", "auto")}
        assert kept == {"memory": False, "disk": True, "auto": not fit}
    on_disk, held = own.kept("disk", device).split("train"), own.split("train")
    assert isinstance(on_disk.images, Mapped) and not isinstance(held.images, Mapped)
    assert torch.equal(on_disk.images.load(), held.images) and on_disk.files == held.files


def test_other_data_of_a_run_may_be_laid_out_otherwise(tmp_path):
    deep = patients(tmp_path / "deep", people=2)
    flat = made(tmp_path / "flat", [(name, "") for name in ("benign", "malignant") * 2])
    files = sorted(x.relative_to(flat).as_posix() for x in flat.glob("*/*.png"))
    rows = [(file, file.split("/")[0]) for file in files]
    table(flat / "t.csv", ("path", "label"), rows)
    folders = {"data": str(tmp_path / "scans"), "class_from": "1", "group_from": "2"}
    columns = {"data": str(tmp_path / "scans.csv"), "class_from": "kind", "file_from": "scan"}
    for config, path, num in (
        (folders, deep, 16),
        (folders, flat, 4),
        (folders, flat / "t.csv", 4),
        (columns, deep, 16),
        (columns, flat, 4),
    ):
        card = Card("capsnet_small", {}, config=config, reading=Reading(12, 1))
        stream = open_data(str(path), "test", image_size=12, **card.opening(str(path)))
        assert stream.num_samples == num


def test_a_class_of_which_nothing_can_be_read_is_named(tmp_path):
    root = made(tmp_path, [(name, "") for name in "ab" for _ in range(4)])
    (root / "c").mkdir()
    for k in range(2):
        (root / "c" / f"{k}.png").write_bytes(b"no")
    with pytest.raises(UserError, match=r"None of the pictures of the class 'c' can .*c.1\.png"):
        open_own(root, Layout(skip_bad=True))
