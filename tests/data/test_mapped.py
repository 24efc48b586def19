"""Images that stay on the disk: what is read of them, when, and in how little memory."""

import gc
import os
import queue
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data import Augment, BalancedStream, ImageStream, OverlapStream, Split, ahead, cut
from capsnet.data.splits import room
from capsnet.data.splits.mapped import Mapped
from capsnet.data.splits.room import fits, free_memory
from capsnet.data.streams.affine import AffineStream, CanvasStream
from capsnet.data.streams.turned import TurnedStream

CPU = torch.device("cpu")
NUM = 50
PARTS = [slice(0, 7), slice(7, 8), slice(30, 50), slice(3, 40, 5), slice(0, 7)]


@pytest.fixture
def array(tmp_path):
    """Pixels of NUM images in a file, mapped."""
    pixels = np.random.default_rng(0).integers(0, 256, (NUM, 1, 10, 10), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    return np.load(tmp_path / "images.npy", mmap_mode="r")


@pytest.fixture
def splits(array):
    """The same images in another order, in memory and on the disk."""
    rows = np.random.default_rng(1).permutation(NUM)
    labels = torch.arange(NUM) % 3
    images = torch.from_numpy(array[rows])
    return tuple(Split(x, labels, ("a", "b", "c")) for x in (images, Mapped(array, rows)))


def test_an_index_reads_what_a_tensor_has(splits):
    held, mapped = (split.images for split in splits)
    assert (mapped.shape, mapped.dtype, len(mapped)) == (held.shape, held.dtype, NUM)
    assert mapped.nbytes == held.nbytes
    for index in (torch.tensor([4, 2, 2]), torch.tensor([[1, 2], [49, 0]]), slice(40, None, 3)):
        assert torch.equal(mapped[index], held[index])
    assert torch.equal(mapped.load(), held)


def test_a_subset_stays_on_the_disk(splits):
    held, mapped = (split.subset([9, 1, 30]).to("cpu") for split in splits)
    assert isinstance(mapped.images, Mapped) and torch.equal(mapped.images[:], held.images)
    assert mapped.label_counts() == held.label_counts() and mapped.white == 255


def test_values_of_more_than_bytes(tmp_path):
    pixels = np.arange(300, dtype=np.int16).reshape(3, 1, 10, 10)
    np.save(tmp_path / "deep.npy", pixels)
    images = Mapped(np.load(tmp_path / "deep.npy", mmap_mode="r"), np.array([2, 0]))
    assert torch.equal(images.load(), torch.from_numpy(pixels[[2, 0]]))
    assert Split(images, torch.zeros(2, dtype=torch.long), ("a",)).white == 32767


@pytest.mark.parametrize(
    "make",
    [
        lambda split: ImageStream(split, Augment(shift=1, rotate=9), canvas=12),
        lambda split: BalancedStream(ImageStream(split), "sampling"),
        lambda split: BalancedStream(ImageStream(split), "loss"),
        lambda split: OverlapStream(split, 60, canvas=20),
        lambda split: CanvasStream(split, 14),
        lambda split: AffineStream(split, NUM, 20),
        lambda split: TurnedStream(split),
    ],
    ids=["image", "sampling", "loss", "overlap", "canvas", "affine", "turned"],
)
def test_batches_are_those_of_images_in_memory(splits, make):
    held, mapped = map(make, splits)
    for drawn in (torch.Generator().manual_seed(3), None):
        state = None if drawn is None else drawn.get_state()
        plan = held.plan(drawn)
        if drawn is not None:
            drawn.set_state(state)
        same = mapped.plan(drawn)
        assert all(torch.equal(plan[name], same[name]) for name in plan)
        parts = zip(ahead(held, plan, PARTS), ahead(mapped, same, PARTS), strict=True)
        for one, other in parts:
            assert "images" in other and "images" not in one
            for x, y in zip(held.batch(one), mapped.batch(other), strict=True):
                assert (x is None and y is None) or torch.equal(x, y)
        part = {name: x[PARTS[0]] for name, x in same.items()}  # not read ahead
        assert torch.equal(mapped.batch(part).images, held.batch(part).images)


class Told(Mapped):
    """Says which images have been read."""

    def __init__(self, array, rows):
        super().__init__(array, rows)
        self.told = queue.Queue()

    def read(self, index, out):
        super().read(index, out)
        self.told.put(index[0])


def test_the_next_part_is_read_while_this_one_is_used(array):
    images = Told(array, np.arange(NUM))
    stream = ImageStream(Split(images, torch.zeros(NUM, dtype=torch.long), ("a",)))
    parts = ahead(stream, stream.plan(None), cut(NUM, 20))
    for start, read_by_now in ((0, [0, 20]), (20, [40]), (40, [])):
        part = next(parts)
        for first in read_by_now:  # the last of them before it is asked for
            assert images.told.get(timeout=60) == first
        assert torch.equal(part["images"], torch.tensor(array[start : start + 20]))
    assert next(parts, None) is None and images.told.empty()


def test_no_thread_is_left_behind(splits):
    stream = ImageStream(splits[1])
    before = threading.active_count()
    parts = ahead(stream, stream.plan(None), cut(NUM, 5))
    next(parts)
    assert threading.active_count() == before + 1
    parts.close()
    assert threading.active_count() == before


def test_what_goes_wrong_in_reading_is_raised(array):
    images = Mapped(array, np.arange(NUM))
    stream = ImageStream(Split(images, torch.zeros(NUM, dtype=torch.long), ("a",)))
    plan = {"index": torch.tensor([0, 1, NUM])}
    with pytest.raises(IndexError):
        list(ahead(stream, plan, cut(3, 1)))


def test_parts_of_a_plan():
    assert cut(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert cut(6, 3, first=3) == [slice(3, 6)] and cut(3, 3, first=3) == []


def test_half_of_what_is_free_may_be_taken(monkeypatch):
    free = free_memory(CPU)
    if free is None:
        pytest.skip("this system does not say how much memory is free")
    assert 2**20 < free < 2**50
    assert fits(free // 10, CPU) and not fits(free, CPU)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")  # each has them
    assert not fits(free // 10, CPU)


@pytest.mark.parametrize(
    "limits, expected", [(("max", "max"), None), (("5000", "max"), 4000), (("9000", "7000"), 4000)]
)
def test_the_limit_of_a_container_or_a_job_counts(limits, expected, tmp_path, monkeypatch):
    job = tmp_path / "slice" / "job"
    job.mkdir(parents=True)
    (tmp_path / "mine").write_text("0::/slice/job\n")
    for folder, limit, taken in zip((job, job.parent), limits, (1000, 3000), strict=True):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.stat").write_text(f"anon {taken}\nfile 123456\n")
    usual = free_memory(CPU)
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "MINE", tmp_path / "mine")
    if expected is not None:
        assert free_memory(CPU) == expected
    elif usual is not None:
        assert free_memory(CPU) > 2**20


LITTLE = 110  # MiB, of memory that is not a file's
SCRIPT = """
import resource, sys
from pathlib import Path
import torch
from capsnet.data import ImageStream, ahead, cut
from capsnet.data.sets.own import open_own
from capsnet.pictures.layout import Layout

torch.rand(64, 64) @ torch.rand(64, 64)
(now,) = [int(x.split()[1]) << 10 for x in open("/proc/self/status") if x.startswith("VmData")]
resource.setrlimit(resource.RLIMIT_DATA, (now + (%d << 20),) * 2)
own = open_own(Path(sys.argv[1]), Layout(), 512, 3).kept(sys.argv[2], torch.device("cpu"))
print(own.stored.images.nbytes >> 20, flush=True)
stream = ImageStream(own.split("train"))
total = 0
for part in ahead(stream, stream.plan(None), cut(stream.num_samples, 4)):
    total += int(part["images"].any())
print(total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits as Linux has them")
def test_pictures_need_no_memory_for_all_of_them(tmp_path):
    """Read into the cache, checked, parted and streamed, in a process that cannot hold them."""
    for k in range(300):
        folder = tmp_path / "own" / "ab"[k % 2]
        folder.mkdir(parents=True, exist_ok=True)
        low = np.random.default_rng(k).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(low.repeat(64, 0).repeat(64, 1)).save(folder / f"{k}.png")

    def run(images_in):
        words = [sys.executable, "-c", SCRIPT % LITTLE, str(tmp_path / "own"), images_in]
        return subprocess.run(words, capture_output=True, encoding="utf-8", timeout=300)

    done = run("disk")
    assert done.returncode == 0, done.stderr
    size, parts = map(int, done.stdout.split())
    assert size > 2 * LITTLE and parts > 0
    refused = run("memory")  # the limit is one
    assert refused.returncode != 0 and "alloc" in refused.stderr.lower()


def test_the_system_is_told_where_the_rows_are(array, monkeypatch):
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *what: told.append(what))
    images = Mapped(array, np.array([7, 0, 31]))
    found = images[torch.tensor([2, 0])]
    with open(array.filename, "rb") as file:
        for (number, start, size, kind), image in zip(told, found, strict=True):
            assert (number, kind) == (images.file, os.POSIX_FADV_WILLNEED)
            file.seek(start)
            assert file.read(size) == image.numpy().tobytes()


@pytest.mark.parametrize("num_bytes", [1, 250, 1 << 30])
def test_all_are_read_in_parts_of_any_size(array, num_bytes, monkeypatch):
    monkeypatch.setattr("capsnet.data.splits.mapped.CHUNK_BYTES", num_bytes)
    rows = np.arange(NUM)[::-1].copy()
    assert np.array_equal(Mapped(array, rows).load().numpy(), array[rows])


def test_a_file_that_is_no_longer_asked_is_closed(array):
    images = Mapped(array, np.arange(3))
    number = images.file
    assert os.fstat(number).st_size > images.nbytes
    del images
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_the_size_of_images_of_more_than_bytes(tmp_path):
    np.save(tmp_path / "deep.npy", np.zeros((4, 3, 5, 2), np.int16))
    images = Mapped(np.load(tmp_path / "deep.npy", mmap_mode="r"), np.array([2, 0, 1]))
    assert (images.row_bytes, images.nbytes, images.ndim) == (60, 180, 4)
    assert images.subset(torch.tensor([1])).nbytes == images.to("cpu").row_bytes == 60


def test_half_of_what_is_free_is_the_most(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # on a CPU each of the processes has them
    gpu = torch.device("cuda")
    for free, device, most in ((1000, CPU, 250), (1000, gpu, 500)):
        monkeypatch.setattr(room, "free_memory", lambda _, free=free: free)
        assert fits(most, device) and not fits(most + 1, device)
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert fits(500, CPU) and not fits(501, CPU)
    monkeypatch.setattr(room, "free_memory", lambda _: None)  # nobody knows
    assert fits(1 << 60, CPU)


def test_what_the_system_says_of_its_memory(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    7 kB\nCached: max kB\n")
    (tmp_path / "one").write_text("12 34\n")
    number = room._number
    assert number(tmp_path / "meminfo", "MemAvailable:", 1024) == 7168
    assert number(tmp_path / "one") == 12
    for name in ("Cached:", "Swap:"):
        assert number(tmp_path / "meminfo", name) is None
    assert number(tmp_path / "none") is None
    # Nothing is left of a limit that is passed; and where nothing is said, nothing is known.
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 6000\n")
    (tmp_path / "mine").write_text("0::/\n")
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "MINE", tmp_path / "mine")
    assert free_memory(CPU) == 0
    monkeypatch.setattr(room, "MINE", tmp_path / "none")
    monkeypatch.setattr(room, "_number", lambda *asked: asked[2])
    assert free_memory(CPU) == 1024  # as the system counts in kB
    monkeypatch.setattr(room, "_number", lambda *_: None)
    assert free_memory(CPU) is None
