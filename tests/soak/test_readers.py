"""Every reader of files, on bytes that nobody wrote: a sentence within seconds, and 200 MB.

`make fuzz N=1000000` tries so many over all of them. KEPT are seeds that once found something.
"""

import gzip
import io
import json
import os
import resource
import struct
import time
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data.sets.affnist import read_affnist
from capsnet.data.sets.cifar import read_records
from capsnet.data.sets.idx import read_idx, write_idx
from capsnet.data.sets.smallnorb import read_matrix
from capsnet.errors import UserError
from capsnet.lines import read_sealed, sealed
from capsnet.measures.answered import Answered
from capsnet.models.tensor_file import load_tensors, save_tensors
from capsnet.pictures.decoding import MAX_PIXELS, decode
from capsnet.pictures.layout import Layout
from capsnet.pictures.table import list_table, read_splits
from capsnet.tasks import OneLabel
from capsnet.training.log import read_log

TIMES = int(os.environ.get("CAPSNET_FUZZ", 0))  # over all readers; 0: as tally says
KEPT = {"affnist.mat": (10_100, 23_269, 43_157)}  # reader -> seeds
SECONDS, BYTES = 5.0, 200e6  # of a processor: a busy machine is no fault
DECODED = 8.0 * MAX_PIXELS  # of a picture that says it is that large
FAULT = "bytes made up for the reader of"
TOKENS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff" * 8)
WORDS = (b"[" * 5000, b"9" * 5000, b'"', b",", b"\n", b"{}", b"-1", b"1e999", b"\0", b"NaN")


def npy(**options) -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(24, dtype=np.uint16).reshape(4, 6), **options)
    return file.getvalue()


def picture(kind: str, mode: str = "L") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (9, 7), 3).save(file, kind)
    return file.getvalue()


def matlab() -> bytes:
    from scipy.io import savemat

    file = io.BytesIO()
    data = {"image": np.zeros((1600, 3), np.uint8), "label_int": np.arange(3)}
    savemat(file, {"affNISTdata": data}, do_compression=True)
    return file.getvalue()


def norb() -> bytes:
    return struct.pack("<iiiii", 0x1E3D4C55, 3, 2, 3, 4) + bytes(24)


def answers() -> bytes:
    path = Path(os.environ["TMPDIR_OF_TEST"]) / "made.npz"
    Answered(
        OneLabel(("a", "b")), np.ones((2, 2), np.float32), np.zeros(2, int), ("x", "y"), ("", "")
    ).save(path)
    return path.read_bytes()


def tensors() -> bytes:
    path = Path(os.environ["TMPDIR_OF_TEST"]) / "made.safetensors"
    save_tensors(path, {"W": torch.ones(3, 2), "b": torch.ones(2).half()}, {"model": "x"})
    return path.read_bytes()


def log_of(path: Path) -> None:
    path.rename(path.with_name("log.jsonl"))
    read_log(path.parent)


TABLE = b"file,label,group,split\na.png,x,1,train\nb.png,y,2,test\n"
LINES = "".join(sealed({"seed": k, "config": {}}) + "\n" for k in range(3)).encode()
LOG = "".join(json.dumps({"epoch": k, "loss": 0.5}) + "\n" for k in range(3)).encode()

# Name of the file -> what it holds if nothing is wrong, and who reads it.
READERS = {
    "x.idx": (lambda: write_idx(np.zeros((2, 3, 4), np.uint8)), lambda p: read_idx(p.read_bytes())),
    "x.bin": (lambda: bytes(3073 * 2), lambda p: read_records(p.read_bytes())),
    "x.mat": (norb, read_matrix),
    "x.mat.gz": (lambda: gzip.compress(norb()), read_matrix),
    "affnist.mat": (matlab, read_affnist),
    "table.csv": (lambda: TABLE, lambda p: list_table(p, Layout())),
    "split.csv": (lambda: TABLE, read_splits),
    "x.npy": (npy, decode),
    "x.png": (lambda: picture("PNG"), decode),
    "x.jpg": (lambda: picture("JPEG"), decode),
    "x.tif": (lambda: picture("TIFF", "I;16"), decode),
    "x.gif": (lambda: picture("GIF"), decode),
    "x.bmp": (lambda: picture("BMP"), decode),
    "x.webp": (lambda: picture("WEBP", "RGB"), decode),
    "x.safetensors": (tensors, load_tensors),
    "x.jsonl": (lambda: LINES, lambda p: list(read_sealed(p))),
    "x.log": (lambda: LOG, log_of),
    "x.npz": (answers, Answered.load),
}


def mangled(content: bytes, random: Random) -> bytes:
    """Return bytes of which some are others, gone, repeated, or come from nowhere."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        place = random.randrange(len(changed) + 1)
        # What lies, lies mostly at the beginning.
        place = min(place, random.choice((len(changed), 64)))
        how = random.randrange(6)
        if how == 0 and place < len(changed):
            changed[place] = random.randrange(256)
        elif how == 1 and place < len(changed):
            changed[place] ^= 1 << random.randrange(8)
        elif how == 2:
            token = random.choice(TOKENS)
            changed[place : place + len(token)] = token
        elif how == 3:
            changed[place:place] = random.choice((*TOKENS, *WORDS))
        elif how == 4:
            del changed[place : place + random.randrange(1, 20)]
        else:
            del changed[random.randrange(len(changed) + 1) :]
    return bytes(changed)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


@pytest.mark.parametrize("name", READERS)
def test_reader(name, tally, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR_OF_TEST", str(tmp_path))
    make, read = READERS[name]
    for picture_of_table in ("a.png", "b.png"):
        (tmp_path / picture_of_table).write_bytes(picture("PNG"))
    whole = make()
    (tmp_path / name).write_bytes(whole)
    read(tmp_path / name)  # as it is, it is read; what else it needs is loaded
    times = TIMES // len(READERS) or 4_000
    for random in chain(map(Random, KEPT.get(name, ())), tally.trials(f"{FAULT} {name}", times)):
        content = mangled(whole, random)
        (tmp_path / name).write_bytes(content)
        before, began = peak(), time.process_time()
        with tally.sentence():
            read(tmp_path / name)
        assert time.process_time() - began < SECONDS, "it took too long"
        assert peak() - before < (DECODED if read is decode else BYTES), "it took too much memory"


@pytest.mark.parametrize(
    "sizes",
    [(1 << 31, 1 << 31, 4), (1 << 16, 1 << 16, 1 << 16, 1 << 16), (0xFFFFFFFF,) * 4, (0,) * 200],
)
def test_idx_sizes_that_wrap(sizes):
    header = bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
    for rest in (b"", bytes(4)):
        with pytest.raises(UserError, match="cut short or damaged"):
            read_idx(header + rest)
