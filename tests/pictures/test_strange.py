"""What a stranger's folder, table or disk can do: one sentence, nothing half-written, no noise."""

import os
import shutil
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from making import noise, save
from PIL import Image

from capsnet.data.sets.own import open_own
from capsnet.errors import UserError
from capsnet.measures.answered import Answered
from capsnet.pictures.layout import Layout
from capsnet.pictures.store import UNFINISHED
from capsnet.prediction.seeing import Look
from capsnet.training import TrainConfig


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pictures"


@pytest.fixture
def folder(tmp_path, cache):
    for k in range(8):
        save(tmp_path / "data" / "ab"[k % 2] / f"{k}.png", noise(k))
    return tmp_path / "data"


def refused(path, says, **layout):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match=says) as caught:
            open_own(path, Layout(**layout))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["images.npy", "facts.json", "alike.npz"])
@pytest.mark.parametrize("left", [0, 0.5])
def test_a_damaged_cache_is_read_anew(folder, cache, file, left):
    whole = np.array(open_own(folder).stored.images)
    (damaged,) = cache.glob(f"*/{file}")
    content = damaged.read_bytes()
    damaged.unlink()  # a mapped file must not be cut short
    damaged.write_bytes(content[: int(left * len(content))])
    assert np.array_equal(open_own(folder).stored.images, whole)
    assert damaged.stat().st_size == len(content)


def test_a_full_disk_is_a_sentence_and_leaves_nothing(folder, cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    refused(folder, "No space left")
    assert [x.suffix for x in cache.iterdir()] == [".lock"]


def test_what_killed_processes_left_is_removed(folder, cache):
    (cache / f"{UNFINISHED}0123").mkdir(parents=True)
    open_own(folder)
    assert not list(cache.glob(f"{UNFINISHED}*"))


def test_a_grey_folder_with_one_in_colour_is_in_colour(folder):
    for k in range(50):
        save(folder / "a" / f"g{k}.png", noise(100 + k))
    colour = noise(7, (12, 12, 3))
    save(folder / "a" / "g1z.png", colour)
    own = open_own(folder)
    row = own.listing.files.index("a/g1z.png")
    assert own.stored.images.shape[1] == 3
    assert np.array_equal(own.stored.images[row], colour.transpose(2, 0, 1))
    grey = own.stored.images[own.listing.files.index("b/1.png")]
    assert np.array_equal(grey[0], grey[2])


def test_arrays_of_deep_colour_keep_their_depth(folder):
    shutil.rmtree(folder)
    for k in range(8):
        path = folder / "ab"[k % 2] / f"{k}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, noise(k, (12, 12, 3), 60_000, np.uint16))
    stored = open_own(folder).stored
    assert stored.images.dtype == np.int16
    assert stored.images.shape[1] == 3


def test_odd_values_are_refused_without_a_warning(folder):
    np.save(folder / "a" / "x.npy", np.full((4, 4), 1e300))
    refused(folder, "far too large")
    (folder / "a" / "x.npy").unlink()
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(folder / "a" / "x.tif")
    refused(folder, "no numbers")
    (folder / "a" / "x.tif").unlink()
    np.save(folder / "a" / "x.npy", np.ones((4, 4), np.float16))
    refused(folder, "16 bits for a value, others have 8")
    (folder / "a" / "x.npy").write_bytes(b"no array")
    refused(folder, "no array of numpy's")


def test_bytes_are_no_deep_pictures(folder):
    shutil.rmtree(folder)
    for k in range(8):
        save(folder / "ab"[k % 2] / f"{k}.png", noise(k, (12, 12), 60_000, np.uint16))
    look = Look(open_own(folder).stored.reading)
    save(folder / "a" / "x.png", noise(9))
    refused(folder, "x.png has 8 bits for a value, others have more than 8")
    with pytest.raises(UserError, match="is read as 8 bits for a value, the model was"):
        look(folder / "a" / "x.png")
    rows = b"".join(b"\0" + bytes(6 * 4) for _ in range(4))  # PNG: 4×4 pixels of colour, 16 bits
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0))]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    told = (
        struct.pack(">I", len(x)) + k + x + struct.pack(">I", zlib.crc32(k + x)) for k, x in chunks
    )
    (folder / "a" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(told))
    refused(folder, "x.png has 16 bits for a value, of which 8 are kept, others have more than 8")


def test_bad_volumes_can_be_skipped(folder):
    pytest.importorskip("nibabel")
    (folder / "a" / "x.nii").write_bytes(b"no volume")
    refused(folder, "--skip-bad")
    assert any("x.nii" in x for x in open_own(folder, Layout(skip_bad=True)).listing.skipped)


def test_a_volume_in_a_table_is_its_slices(folder):
    nibabel = pytest.importorskip("nibabel")
    for k in range(4):
        volume = noise(k, (8, 8, 3)).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), folder / f"{k}.nii")
    table = folder / "t.csv"
    rows = ["file,label", *(f"{k}.nii,{'ab'[k % 2]}" for k in range(4))]
    table.write_text("\n".join(rows), encoding="utf-8")
    whole = open_own(table)
    assert whole.listing.files[:4] == ("0.nii#0", "0.nii#1", "0.nii#2", "1.nii#0")
    assert whole.listing.groups == tuple(x.split("#")[0] for x in whole.listing.files)
    text = whole.split_text()
    table.write_text(text, encoding="utf-8")  # names each slice
    assert open_own(table).split_text() == text


def test_a_class_of_bad_files_alone_is_refused(folder):
    save(folder / "c" / "1.png", noise(70))
    (folder / "c" / "1.png").write_bytes(b"")
    refused(folder, "pictures of the class 'c'", skip_bad=True)


@pytest.mark.parametrize("window", [(5, 5), (9, 5), (float("nan"), 1), (0, float("inf"))])
def test_windows_that_are_none(folder, window):
    refused(folder, "correct --window", window=window)


@pytest.mark.parametrize("part", ["1,", "١", "0"])
def test_class_from_that_is_no_folder(folder, part):
    refused(folder, "class", class_from=part)


def test_the_split_of_a_run_that_skipped_files_can_be_used_again(folder, tmp_path):
    (folder / "a" / "x.png").write_bytes(b"")
    first = open_own(folder, Layout(skip_bad=True))
    split = tmp_path / "split.csv"
    split.write_text(first.split_text(), encoding="utf-8")
    again = open_own(folder, Layout(skip_bad=True, split_from=str(split)))
    assert again.splits == first.splits
    refused(folder, "is not in", split_from=str(split))


def test_a_name_that_begins_with_a_space_is_found_in_a_split(folder, tmp_path):
    (folder / "a").rename(folder / " a")
    first = open_own(folder)
    split = tmp_path / "split.csv"
    split.write_text(first.split_text(), encoding="utf-8")
    assert open_own(folder, Layout(split_from=str(split))).splits == first.splits


ROWS = [f"{'ab'[k % 2]}/{k}.png,{'ab'[k % 2]}" for k in range(8)]


@pytest.mark.parametrize(
    "row, says",
    [
        ("./a/0.png,b", "again, after row 2"),
        ("a,a", "which is no file"),
        ("a/0.png", "has not 2 cells"),
        ('"a\n.png",a', "not there"),
        ("x" * 5000 + ",a", "not there"),
    ],
)
def test_rows_of_a_table_that_cannot_be_used(folder, row, says):
    table = folder / "t.csv"
    table.write_text("\n".join(["file,label", *ROWS, row]), encoding="utf-8")
    refused(table, says)
    assert len(open_own(table, Layout(skip_bad=True)).listing) == len(ROWS)


def test_tables_of_other_makes(folder):
    table = folder / "t.csv"
    text = "\n".join(["file,label", *ROWS])
    table.write_text(text.replace(",", ";"), encoding="utf-8-sig")
    assert len(open_own(table).listing) == len(ROWS)
    table.write_text(text, encoding="utf-16")
    refused(table, "save it as UTF-8")
    table.write_text(text.replace(".png,a", ".png,grün"), encoding="latin-1")
    refused(table, "Row 2 of .* save it as UTF-8")
    table.write_text(text.replace("label", "label,v").replace(".png,a", ".png,a,1e300"), "utf-8")
    refused(table, "is no number", numbers_from="v", file_from="file")
    table.unlink()
    os.mkfifo(table)
    refused(table, "is no file")


def test_rows_are_counted_as_a_spreadsheet_counts_them(folder):
    table = folder / "t.csv"
    table.write_text("\n".join(["file,label", "", *ROWS, "none.png,a"]), encoding="utf-8")
    refused(table, f"Row {len(ROWS) + 3} of .* names none.png")


def test_one_fold_and_damaged_answers(tmp_path):
    with pytest.raises(UserError, match="2 folds or more"):
        TrainConfig(data=str(tmp_path), folds=1).check()
    Path(tmp_path / "answers-test.npz").write_bytes(b"PK\x03\x04cut")
    with pytest.raises(UserError, match="answers-test"):
        Answered.load(tmp_path / "answers-test.npz")
